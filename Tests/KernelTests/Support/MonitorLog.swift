import Foundation
import Testing

/// A btsnoop log of format 2001, read by nothing of ours: RFC 1761, and `doc/btsnoop-protocol.rst` of BlueZ.
struct MonitorLog {
  struct Record: Equatable {
    var opcode: Int
    /// 0xFFFF where it belongs to none.
    var adapter: Int
    var drops: Int
    /// Since the format's epoch.
    var microseconds: Int
    var payload: [UInt8]

    /// Opcodes of BlueZ's document.
    static let (newIndex, deleteIndex, aclReceived, indexInformation) = (0, 1, 5, 10)
  }

  private(set) var records: [Record] = []
  /// Octets after the last whole record.
  private(set) var tornByteCount = 0

  init(_ path: String) throws {
    let octets = [UInt8](try Data(contentsOf: URL(filePath: path)))
    func number(_ offset: Int, _ count: Int) -> Int {
      octets[offset..<offset + count].reduce(0) { $0 << 8 | Int($1) }
    }
    try #require(octets.count >= 16, "\(path) has no header")
    try #require(octets.prefix(8) == Array("btsnoop\0".utf8)[...])
    try #require(number(8, 4) == 1 && number(12, 4) == 2001)
    var offset = 16
    while octets.count - offset >= 24, octets.count - offset - 24 >= number(offset + 4, 4) {
      let included = number(offset + 4, 4)
      #expect(number(offset, 4) == included)
      records.append(
        Record(
          opcode: number(offset + 10, 2), adapter: number(offset + 8, 2), drops: number(offset + 12, 4),
          microseconds: number(offset + 16, 8), payload: Array(octets[offset + 24..<offset + 24 + included])))
      offset += 24 + included
    }
    tornByteCount = octets.count - offset
  }
}
