import Foundation
import Testing

/// A vector of the ring protocol's reference: packets and their meaning according to the reference's editors.
package struct RingProtocolVector: CustomTestStringConvertible, Sendable {
  package let name: String
  /// `uart` or `bigdata`.
  package let channel: String
  /// `ring->host` or `host->ring`.
  package let direction: String
  package let packets: [[UInt8]]
  /// Expected meaning as canonical JSON.
  package let expect: String

  package var testDescription: String { name }

  package static let all: [RingProtocolVector] = {
    let file = Place.fixture("ColmiRingTests/Fixtures/ring-vectors.json")
    guard let data = FileManager.default.contents(atPath: file),
      let list = try? JSONSerialization.jsonObject(with: data) as? [[String: Any]]
    else { fatalError("cannot read \(file)") }
    return list.map { RingProtocolVector($0) }
  }()

  package static func named(_ name: String) -> RingProtocolVector {
    guard let vector = all.first(where: { $0.name == name }) else { fatalError("there is no vector \(name)") }
    return vector
  }

  private init(_ object: [String: Any]) {
    guard let name = object["name"] as? String, let packets = object["packets"] as? [String],
      let channel = object["channel"] as? String, let direction = object["direction"] as? String,
      var expect = object["expect"] as? [String: Any]
    else { fatalError("not a vector: \(object)") }
    // Keys that are not in the packets: the editors' remark, and the image that a checksum belongs to.
    expect["note"] = nil
    expect["image"] = nil
    self.name = name
    self.channel = channel
    self.direction = direction
    self.packets = packets.map { octetsOf($0) }
    self.expect = canonical(expect)
  }
}

/// Returns an object as JSON with sorted keys. Unlike objects, texts can be compared, and `true` differs from
/// 1.
package func canonical(_ object: [String: Any]) -> String {
  guard let data = try? JSONSerialization.data(withJSONObject: object, options: .sortedKeys) else {
    preconditionFailure("not JSON: \(object)")
  }
  return String(decoding: data, as: UTF8.self)
}
