import BLELinux
import BLEPacketLog
import BLEWire

/// The intact part of a file to append to.
package struct LogTail: Hashable, Sendable {
  /// End of the last whole record, in bytes; 0 if even the file's header is incomplete.
  package var byteCount = 0
  package var records = 0
  /// Cumulative drop count of the last whole record.
  package var drops = 0
  /// Bytes after the last whole record.
  package var tornByteCount = 0
}

extension LogTail {
  /// Reads the file once, from its start.
  ///
  /// A killed writer leaves a cut record; a power failure may leave zeros after the last record that reached
  /// the disk. Both count as torn. Any other error makes the file `damaged`.
  ///
  /// - Throws: `foreign`, `damaged`, `system`.
  package static func of(_ path: String, _ format: LogFilePlan.Format) throws(LogFileError) -> LogTail {
    switch format {
    case .btsnoop:
      var scan = BTSnoopTailScan()
      do throws(SystemError) { try Files.read(path) { scan.take($0) } } catch { throw .system(error) }
      return try scan.result(path)
    case .pcapng:
      var scan = PcapNGTailScan()
      do throws(SystemError) { try Files.read(path) { scan.take($0) } } catch { throw .system(error) }
      return try scan.result(path)
    }
  }
}

/// Finds the end of the last whole record of a btsnoop file that is read in pieces.
private struct BTSnoopTailScan {
  /// Maximum payload, in bytes: the monitor's length field has 16 bits.
  private static let payloadLimit: UInt32 = 65_535

  private var tail = LogTail()
  private var fileByteCount = 0
  private var start: [UInt8] = []
  /// The bytes received so far of the current record's header.
  private var head: [UInt8] = []
  /// Bytes of the current record's payload still to be read.
  private var payloadRest = 0
  private var isBroken = false
  /// Whether the last records read have neither payload nor timestamp.
  private var endsInZeros = false

  /// - Returns: `false` if no more data is needed.
  mutating func take(_ piece: Span<UInt8>) -> Bool {
    var offset = 0
    while offset < piece.count, !isBroken {
      if start.count < BTSnoopHeader.byteCount {
        start.append(piece[offset])
        offset += 1
        if start.count == BTSnoopHeader.byteCount { tail.byteCount = start.count }
      } else if payloadRest > 0 {
        let skipped = min(payloadRest, piece.count - offset)
        payloadRest -= skipped
        offset += skipped
        if payloadRest == 0 { endRecord() }
      } else {
        head.append(piece[offset])
        offset += 1
        if head.count == BTSnoopRecordHeader.byteCount { beginRecord() }
      }
    }
    fileByteCount += piece.count
    return !isBroken
  }

  private mutating func beginRecord() {
    guard let header = try? BTSnoopRecordHeader(validating: head.span),
      header.includedByteCount <= Self.payloadLimit
    else {
      isBroken = true
      return
    }
    payloadRest = Int(header.includedByteCount)
    if payloadRest == 0 { endRecord() }
  }

  private mutating func endRecord() {
    let head = head
    self.head.removeAll(keepingCapacity: true)
    guard let header = try? BTSnoopRecordHeader(validating: head.span) else { return }
    if header.microseconds == 0, header.includedByteCount == 0 {
      endsInZeros = true
    } else if endsInZeros {
      isBroken = true
    } else {
      tail.byteCount += BTSnoopRecordHeader.byteCount + Int(header.includedByteCount)
      tail.records += 1
      tail.drops = Int(header.cumulativeDrops)
    }
  }

  func result(_ path: String) throws(LogFileError) -> LogTail {
    let header = [UInt8](capacity: BTSnoopHeader.byteCount) {
      BTSnoopHeader(format: .monitor).encode(into: &$0)
    }
    guard header.starts(with: start) else { throw .foreign(path, .btsnoop) }
    guard start.count == header.count else { return LogTail(tornByteCount: start.count) }
    guard !isBroken else { throw .damaged(path, offset: tail.byteCount) }
    var tail = tail
    tail.tornByteCount = fileByteCount - tail.byteCount
    return tail
  }
}
