import BLECore
import BLEPacketLog
import BLESystem

/// How the monitor's records become the octets of a file. A format is a conformance.
protocol MonitorLogFormat: Sendable {
  var headerByteCount: Int { get }
  /// What a file starts with.
  func appendHeader(to octets: inout [UInt8])
  /// Octets of a record with a payload of `byteCount` octets.
  func recordByteCount(payload byteCount: Int) -> Int
  /// One record.
  ///
  /// - Parameter drops: records that did not reach this file so far.
  func append(
    _ payload: Span<UInt8>, of record: MonitorRecordHeader, drops: Int, to octets: inout [UInt8])
  /// What of a file is whole.
  func tail(of path: String) throws(LogFileError) -> LogTail
}

/// The whole part of a file that is to be continued.
struct LogTail: Hashable, Sendable {
  /// Where the last whole record ends; 0 where not even the file's header is whole.
  var byteCount = 0
  var records = 0
  /// As the last whole record has it.
  var drops = 0
  /// Octets after the last whole record.
  var tornByteCount = 0
}

/// btsnoop 2001, as `btmon -w` writes it.
struct BTSnoopMonitorFormat: MonitorLogFormat {
  let headerByteCount = BTSnoopHeader.byteCount

  func appendHeader(to octets: inout [UInt8]) {
    octets.append(addingCapacity: BTSnoopHeader.byteCount) {
      BTSnoopWriter(format: .monitor).encodeHeader(into: &$0)
    }
  }

  func recordByteCount(payload byteCount: Int) -> Int { BTSnoopRecordHeader.byteCount + byteCount }

  func append(
    _ payload: Span<UInt8>, of record: MonitorRecordHeader, drops: Int, to octets: inout [UInt8]
  ) {
    var writer = BTSnoopWriter(format: .monitor)
    writer.cumulativeDrops = UInt32(clamping: drops)
    octets.append(addingCapacity: recordByteCount(payload: payload.count)) {
      writer.encode(payload, of: record, into: &$0)
    }
  }

  /// A killed writer leaves a cut record, a power failure perhaps zeros after the last that reached the disk. Both are
  /// cut off; anything else that is wrong is left alone.
  func tail(of path: String) throws(LogFileError) -> LogTail {
    var scan = BTSnoopTailScan()
    do throws(SystemError) { try Files.read(path) { scan.take($0) } } catch { throw .system(error) }
    return try scan.result(path)
  }
}

/// Looks for the end of the last whole record of a btsnoop file that comes in pieces.
private struct BTSnoopTailScan {
  /// The longest payload: the monitor's length has 16 bits.
  private static let payloadLimit: UInt32 = 65_535

  private var tail = LogTail()
  private var fileByteCount = 0
  private var start: [UInt8] = []
  /// The header of the current record, as far as it has come.
  private var head: [UInt8] = []
  /// Octets of the current record's payload that are still to come.
  private var payloadRest = 0
  private var isBroken = false
  /// Whether records without octets and time were the last.
  private var endsInZeros = false

  /// - Returns: whether more is wanted.
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
    var header: [UInt8] = []
    BTSnoopMonitorFormat().appendHeader(to: &header)
    guard header.starts(with: start) else { throw .foreign(path) }
    guard start.count == header.count else { return LogTail(tornByteCount: start.count) }
    guard !isBroken else { throw .damaged(path, offset: tail.byteCount) }
    var tail = tail
    tail.tornByteCount = fileByteCount - tail.byteCount
    return tail
  }
}
