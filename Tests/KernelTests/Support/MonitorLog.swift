import Foundation
import Testing

/// A log of the Linux monitor, read without any of our code: btsnoop of format 2001 by RFC 1761 and BlueZ's
/// `doc/btsnoop-protocol.rst`, or pcapng by `draft-ietf-opsawg-pcapng`.
struct MonitorLog {
  struct Record: Equatable {
    var opcode: Int
    /// Adapter; 0xFFFF if the record belongs to no adapter.
    var adapter: Int
    /// Number of drops: in btsnoop the total so far, in pcapng since the previous record.
    var drops: Int
    /// Time since btsnoop's epoch.
    var microseconds: Int
    var payload: [UInt8]

    /// Opcodes from BlueZ's document.
    static let (newIndex, deleteIndex, aclReceived, indexInformation) = (0, 1, 5, 10)
  }

  private(set) var records: [Record] = []
  /// Number of bytes after the last complete record.
  private(set) var tornByteCount = 0

  init(_ path: String) throws {
    let octets = [UInt8](try Data(contentsOf: URL(filePath: path)))
    if octets.starts(with: [0x0A, 0x0D, 0x0D, 0x0A]) {
      try readPcapNG(path, octets)
      return
    }
    func number(_ offset: Int, _ count: Int) -> Int {
      var value = 0
      for place in offset..<offset + count { value = value << 8 | Int(octets[place]) }
      return value
    }
    try #require(octets.count >= 16, "\(path) has no header")
    try #require(octets.prefix(8) == Array("btsnoop\0".utf8)[...])
    try #require(number(8, 4) == 1 && number(12, 4) == 2001)
    var offset = 16
    while octets.count - offset >= 24, octets.count - offset - 24 >= number(offset + 4, 4) {
      let included = number(offset + 4, 4)
      // Written out, because a macro for each of a million records takes longer than all the rest.
      guard number(offset, 4) == included else { throw BadLog(path: path, offset: offset) }
      records.append(
        Record(
          opcode: number(offset + 10, 2), adapter: number(offset + 8, 2), drops: number(offset + 12, 4),
          microseconds: number(offset + 16, 8), payload: Array(octets[offset + 24..<offset + 24 + included])))
      offset += 24 + included
    }
    tornByteCount = octets.count - offset
  }

  /// Reads pcapng in little-endian order, like this machine.
  private mutating func readPcapNG(_ path: String, _ octets: [UInt8]) throws {
    func number(_ offset: Int, _ count: Int) -> Int {
      var value = 0
      for place in (offset..<offset + count).reversed() { value = value << 8 | Int(octets[place]) }
      return value
    }
    var (offset, interfaces) = (0, 0)
    while octets.count - offset >= 12, octets.count - offset >= number(offset + 4, 4) {
      let length = number(offset + 4, 4)
      try #require(length >= 12 && length.isMultiple(of: 4))
      try #require(number(offset + length - 4, 4) == length)
      switch number(offset, 4) {
      case 0x0A0D_0D0A: interfaces = 0
      case 1:
        interfaces += 1
        #expect(number(offset + 8, 2) == 254)
        // if_tsresol: nanoseconds.
        let options = Array(octets[offset + 16..<offset + length - 4])
        #expect(options.indices.contains { options[$0...].starts(with: [9, 0, 1, 0, 9]) })
      case 6:
        let included = number(offset + 20, 4)
        guard number(offset + 8, 4) < interfaces, number(offset + 24, 4) == included else {
          throw BadLog(path: path, offset: offset)
        }
        let frame = Array(octets[offset + 28..<offset + 28 + included])
        let options = offset + 28 + (included + 3) / 4 * 4
        // epb_dropcount is the only possible option.
        let drops = options < offset + length - 4 ? number(options + 4, 8) : 0
        let nanoseconds = number(offset + 12, 4) << 32 | number(offset + 16, 4)
        records.append(
          Record(
            opcode: Int(frame[2]) << 8 | Int(frame[3]), adapter: Int(frame[0]) << 8 | Int(frame[1]),
            drops: drops, microseconds: 0x00DC_DDB3_0F2F_8000 + nanoseconds / 1_000,
            payload: Array(frame[4...])))
      default: break
      }
      offset += length
    }
    tornByteCount = octets.count - offset
  }
}

private struct BadLog: Error {
  var path: String
  /// Offset of the record.
  var offset: Int
}
