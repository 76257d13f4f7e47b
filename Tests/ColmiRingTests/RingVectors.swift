import Foundation
import TestKit
import Testing

/// A frame from a ring with its meaning and its published source.
struct RingVector: Decodable, CustomTestStringConvertible {
  struct Expectation: Decodable {
    var kind: String
    var subtype: Int?
    var value: Int?
    var max: Int?
    var min: Int?
    var diff: Int?
    var x: Int?
    var y: Int?
    var z: Int?
    var magnitudeG: Double?
    var command: Int?
    var code: Int?
    var reason: String?
    var variant: String?
  }

  var name: String
  var source: String
  var packets: [String]
  var expect: Expectation

  var testDescription: String { name }
  var octets: [UInt8] { octetsOf(packets[0]) }

  static let all: [RingVector] = readVectors()

  static func of(kind: String) -> [RingVector] { all.filter { $0.expect.kind == kind } }
}

/// Reads the reference's vectors.
func readVectors<Vector: Decodable>() -> [Vector] {
  let file = Place.fixture("ColmiRingTests/Fixtures/ring-vectors.json")
  do {
    return try JSONDecoder().decode([Vector].self, from: Data(contentsOf: URL(filePath: file)))
  } catch {
    fatalError("\(file): \(error)")
  }
}
