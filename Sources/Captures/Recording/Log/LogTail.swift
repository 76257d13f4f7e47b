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
  package static func of(_ path: String, _ format: CaptureLogFormat) throws(LogFileError) -> LogTail {
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

/// Finds the end of the last whole block of a pcapng file that is read in pieces. `draft-ietf-opsawg-pcapng`,
/// 3.1.
private struct PcapNGTailScan {
  /// Type, total length, and a section header's byte-order magic. It is also the size of the shortest block.
  private static let headByteCount = 12
  /// Maximum block length, in bytes; ringtap's longest block is a packet and its options.
  private static let lengthLimit: UInt32 = 1 << 24
  private static let sectionHeader: UInt32 = 0x0A0D_0D0A
  private static let byteOrderMagic: UInt32 = 0x1A2B_3C4D
  /// Block types: obsolete packet, simple packet, enhanced packet.
  private static let packets: Set<UInt32> = [2, 3, 6]

  private var tail = LogTail()
  private var fileByteCount = 0
  /// The bytes received so far of the current block's head.
  private var head: [UInt8] = []
  /// Bytes of the current block, after its head, still to be read.
  private var rest = 0
  private var length: UInt32 = 0
  /// The last four bytes read, in the order of the file.
  private var last: UInt32 = 0
  private var isBigEndian = false
  private var isBroken = false
  /// Whether the last block read was empty: only zeros may follow.
  private var endsInZeros = false

  /// - Returns: `false` if no more data is needed.
  mutating func take(_ piece: Span<UInt8>) -> Bool {
    var offset = 0
    while offset < piece.count, !isBroken {
      let octet = piece[offset]
      offset += 1
      last = last << 8 | UInt32(octet)
      if endsInZeros {
        isBroken = octet != 0
      } else if rest > 0 {
        // Skips everything but the length at the block's end.
        let skipped = min(max(0, rest - 5), piece.count - offset)
        offset += skipped
        rest -= 1 + skipped
        if rest == 0 { endBlock() }
      } else {
        head.append(octet)
        if head.count == Self.headByteCount { beginBlock() }
      }
    }
    fileByteCount += piece.count
    return !isBroken
  }

  private mutating func beginBlock() {
    if word(0) == Self.sectionHeader {
      switch word(8) {
      case Self.byteOrderMagic: break
      case Self.byteOrderMagic.byteSwapped: isBigEndian.toggle()
      default:
        isBroken = true
        return
      }
    }
    length = word(4)
    if word(0) == 0, length == 0 {
      endsInZeros = true
      isBroken = word(8) != 0
      return
    }
    isBroken = length < Self.headByteCount || length > Self.lengthLimit || !length.isMultiple(of: 4)
    // A file must begin with a section header.
    if tail.byteCount == 0, word(0) != Self.sectionHeader { isBroken = true }
    rest = Int(length) - Self.headByteCount
    if !isBroken, rest == 0 { endBlock() }
  }

  private mutating func endBlock() {
    guard (isBigEndian ? last : last.byteSwapped) == length else {
      isBroken = true
      return
    }
    if Self.packets.contains(word(0)) { tail.records += 1 }
    tail.byteCount += Int(length)
    head.removeAll(keepingCapacity: true)
  }

  /// A 32-bit word of the head, in the section's byte order.
  private func word(_ offset: Int) -> UInt32 {
    let word = (0..<4).reduce(UInt32(0)) { $0 << 8 | UInt32(head[offset + $1]) }
    return isBigEndian ? word : word.byteSwapped
  }

  func result(_ path: String) throws(LogFileError) -> LogTail {
    if tail.byteCount == 0 {
      // The magic is the same in both byte orders.
      let magic: [UInt8] = [0x0A, 0x0D, 0x0D, 0x0A]
      guard !isBroken, magic.starts(with: head.prefix(4)) else { throw .foreign(path, .pcapng) }
      return LogTail(tornByteCount: fileByteCount)
    }
    guard !isBroken else { throw .damaged(path, offset: tail.byteCount) }
    var tail = tail
    tail.tornByteCount = fileByteCount - tail.byteCount
    return tail
  }
}
