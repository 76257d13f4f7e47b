import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Decodes the packets of a log into the lines of `ringtap log show --json`.
func decodedLines(_ log: [UInt8]) throws -> [PacketLine] {
  var reader = PacketLogReader()
  var decoder = PacketDecoder()
  var printer = PacketPrinter(style: .json)
  try reader.read(log.span) { record in decoder.decode(record) { printer.print($0) } }
  try reader.finish()
  return try printer.octets.split(separator: UInt8(ascii: "\n")).map {
    try JSONDecoder().decode(PacketLine.self, from: Data($0))
  }
}

/// A line of `log show --json`, parsed by Foundation.
struct PacketLine: Decodable, Hashable {
  struct Attribute: Decodable, Hashable {
    var opcode: Int
    var handle: Int?
    var offset: Int?
    var value: String?
    var parameters: String?
  }

  var index: Int
  var timeNs: UnixNanoseconds
  var direction: String
  var packetType: String
  var connectionHandle: Int?
  var att: Attribute?
  var problem: String?
}

/// Logs of the repository, and logs of real devices if they are available.
enum Logs {
  static var own: [URL] { Place.captures(withSuffix: ".btsnoop").map { URL(filePath: $0) } }

  static var all: [URL] { own + [Place.treadmill].compactMap(\.self).map { URL(filePath: $0) } }

  /// The repository's logs, including copies in other formats: pcapng, compressed.
  static var everyFormat: [URL] {
    Place.captures(withSuffix: "").filter { !$0.hasSuffix(".txt") && !$0.hasSuffix(".md") }
      .map { URL(filePath: $0) }
  }

  /// Bytes of a log after decompression.
  static func octets(of file: URL) throws -> [UInt8] {
    var input = try CompressedInput(path: file.path)
    var octets: [UInt8] = []
    while true {
      let piece = try input.next()
      if piece.isEmpty { return octets }
      octets += piece
    }
  }
}
