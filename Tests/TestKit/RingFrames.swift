/// Captured frames of a ring, by their names in the vectors of the sensor tests.
package enum RingFrames {
  package static let named = Dictionary(
    uniqueKeysWithValues: RingProtocolVector.all.map { ($0.name, $0.packets[0]) })

  package static func frame(_ name: String) -> [UInt8] {
    guard let frame = named[name] else { preconditionFailure("no frame \(name)") }
    return frame
  }

  /// One frame of each kind, as in one tick of the ring.
  package static let tick = [frame("raw-spo2-ei-1"), frame("raw-ppg-ei-1"), frame("raw-acc-ei-1")]
  package static let malformed = frame("bad-checksum")
}
