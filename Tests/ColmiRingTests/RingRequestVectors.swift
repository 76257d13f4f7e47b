import BLEWire
import ColmiRing
import Foundation
import TestKit
import Testing

/// A vector of the protocol's reference: packets of hosts and rings with their meaning and source.
struct RingRequestVector: Decodable, CustomTestStringConvertible {
  /// Members from which requests are made. `ProgramTests` compares the meaning of replies as JSON.
  struct Expectation: Decodable {
    var kind: String
    var year: Int?
    var month: Int?
    var day: Int?
    var hour: Int?
    var minute: Int?
    var second: Int?
    var language: UInt8?
    var clientMajor: UInt8?
    var clientMinor: UInt8?
    var name: String?
    var enabled: Bool?
    var intervalMinutes: UInt8?
    var is12h: Int?
    var imperial: Int?
    var gender: UInt8?
    var age: UInt8?
    var heightCm: UInt8?
    var weightKg: UInt8?
    var systolic: UInt8?
    var diastolic: UInt8?
    var hrAlarm: UInt8?
    var daysAgo: UInt8?
    var timestamp: UInt32?
    var variant: String?
    var type: UInt8?
    var action: UInt8?
    var lastValue: UInt8?
    var dataId: UInt8?
    var payload: String?
    var initType: UInt8?
    var length: UInt32?
    var fileCrc16: String?
    var fileSum16: String?
    var image: String?
  }

  var name: String
  var direction: String
  var channel: String
  var packets: [String]
  var expect: Expectation

  var testDescription: String { name }
  var frames: [[UInt8]] { packets.map(octetsOf) }

  static let all: [RingRequestVector] = readVectors()

  static func named(_ name: String) throws -> RingRequestVector {
    try #require(all.first { $0.name == name })
  }

  /// Vectors of one direction and channel.
  static func of(_ direction: String, _ channel: String) -> [RingRequestVector] {
    all.filter { $0.direction == direction && $0.channel == channel }
  }
}

extension [UInt8] {
  /// The frame with a correct checksum.
  var resummed: [UInt8] {
    var frame = self
    frame[15] = frame[..<15].reduce(0, &+)
    return frame
  }
}

/// The 16 bytes of a frame to send.
func octets(of command: RingCommand) -> [UInt8] {
  [UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) }
}

/// All arrays that differ from `octets` in at most one of the first `count` bytes.
func everyOctetAtEveryPlace(of octets: [UInt8], count: Int) -> [[UInt8]] {
  (0..<count).flatMap { index in
    (UInt8.min...UInt8.max).map { octet in
      var changed = octets
      changed[index] = octet
      return changed
    }
  }
}
