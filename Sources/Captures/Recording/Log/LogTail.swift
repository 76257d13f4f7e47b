import BLELinux
import BLEPacketLog
import BLEWire

/// The intact part of a file to append to.
package struct LogTail: Hashable, Sendable {
  /// End of the last whole record, in bytes; 0 if even the file's header is incomplete.
  package var byteCount = 0
  package var records = 0
  /// Cumulative drop count of the last whole record; 0 for pcapng, where each section counts its own.
  package var drops = 0
  /// Bytes after the last whole record.
  package var tornByteCount = 0
}

extension LogTail {
  /// Reads the file once, from its start.
  ///
  /// A killed writer leaves a truncated record; a power failure may leave zeros after the last record that
  /// reached the disk. Both count as torn. Any other error makes the file `damaged`.
  ///
  /// - Throws: `foreign`, `damaged`, `system`.
  package static func of(_ path: String, _ format: CaptureLogFormat) throws(LogFileError) -> LogTail {
    let expected = format.start
    var reader = PacketLogReader()
    var start: [UInt8] = []
    var (byteCount, contentByteCount) = (0, 0)
    var hasFailed = false
    do throws(SystemError) {
      try Files.read(path) { piece in
        for index in piece.indices.prefix(expected.count - start.count) { start.append(piece[index]) }
        if let last = piece.indices.last(where: { piece[$0] != 0 }) {
          contentByteCount = byteCount + last + 1
        }
        byteCount += piece.count
        do throws(WireError) { if !hasFailed { try reader.read(piece) { _ in } } } catch { hasFailed = true }
        return true
      }
    } catch { throw .system(error) }
    let whole = reader.wholeByteCount
    guard expected.starts(with: start), whole > 0 || !hasFailed else { throw .foreign(path, format) }
    // Only zeros may follow the last record, or the start of the next one, instead of its rest.
    guard !hasFailed || contentByteCount <= whole + format.headByteCount else {
      throw .damaged(path, offset: whole)
    }
    return LogTail(
      byteCount: whole, records: reader.recordCount,
      drops: format == .btsnoop ? Int(reader.cumulativeDrops) : 0, tornByteCount: byteCount - whole)
  }
}

extension CaptureLogFormat {
  /// Number of bytes at the start of a record that may reach the disk alone, with zeros in place of the rest.
  /// In btsnoop the length of the packet and the time follow; a pcapng block begins with its length.
  fileprivate var headByteCount: Int { self == .btsnoop ? 16 : 0 }

  /// The first bytes of a monitor's log, which are the same in each.
  fileprivate var start: [UInt8] {
    switch self {
    case .btsnoop:
      [UInt8](capacity: BTSnoopHeader.byteCount) { BTSnoopHeader(format: .monitor).encode(into: &$0) }
    // The type of a section header is the same in both byte orders.
    case .pcapng: [0x0A, 0x0D, 0x0D, 0x0A]
    }
  }
}
