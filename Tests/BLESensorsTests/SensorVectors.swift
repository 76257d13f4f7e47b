import BLEWire
import Foundation
import TestKit
import Testing

/// Any JSON value, for comparing a decoder's output with the expected output.
indirect enum JSONValue: Decodable, Hashable, Sendable {
  case null
  case flag(Bool)
  case number(Double)
  case text(String)
  case array([JSONValue])
  case object([String: JSONValue])

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let flag = try? container.decode(Bool.self) {
      self = .flag(flag)
    } else if let number = try? container.decode(Double.self) {
      self = .number(number)
    } else if let text = try? container.decode(String.self) {
      self = .text(text)
    } else if let array = try? container.decode([JSONValue].self) {
      self = .array(array)
    } else {
      self = .object(try container.decode([String: JSONValue].self))
    }
  }

  var number: Double? { if case .number(let number) = self { number } else { nil } }
  var text: String? { if case .text(let text) = self { text } else { nil } }
  var array: [JSONValue]? { if case .array(let array) = self { array } else { nil } }
  var object: [String: JSONValue]? { if case .object(let object) = self { object } else { nil } }

  /// Whether both are equal, apart from the rounding of scaled numbers.
  func matches(_ other: JSONValue) -> Bool {
    switch (self, other) {
    case (.number(let a), .number(let b)): abs(a - b) <= 1e-6 * max(1e-3, abs(b))
    case (.array(let a), .array(let b)): a.count == b.count && zip(a, b).allSatisfy { $0.matches($1) }
    case (.object(let a), .object(let b)):
      Set(a.keys) == Set(b.keys) && a.allSatisfy { key, value in b[key].map { value.matches($0) } == true }
    default: self == other
    }
  }
}

/// A value of a standard or vendor sensor with its meaning and its published source.
struct SensorVector: Decodable, Sendable, CustomTestStringConvertible {
  var name: String
  var service: String
  var characteristic: String
  var operation: String?
  var value: String?
  var frames: [String]?
  var expect: [String: JSONValue]

  var testDescription: String { name }
  var octets: [[UInt8]] { (frames ?? value.map { [$0] } ?? []).map(octetsOf) }
  /// `nil` for the data of an advertisement.
  var uuid: BluetoothUUID? { BluetoothUUID(characteristic) }

  static let all: [SensorVector] = {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "Fixtures/sensor-test-vectors.json")
    do {
      return try JSONDecoder().decode([SensorVector].self, from: Data(contentsOf: file))
    } catch {
      fatalError("\(file.path): \(error)")
    }
  }()
}
