import BLEWire
import TestKit
import Testing

/// A PDU from a specification, a capture or another stack's test, with its codec.
struct PDUCase: Sendable, CustomTestStringConvertible {
  typealias Recode = @Sendable ([UInt8]) throws(WireError) -> [UInt8]

  let name: String
  let octets: [UInt8]
  /// Size of the shortest PDU of this kind in bytes. Every shorter one must be rejected.
  let minimum: Int
  /// Decodes a PDU and encodes it again.
  let recode: Recode

  init(_ name: String, _ hex: String, minimum: Int, _ recode: @escaping Recode) {
    self.name = name
    self.octets = octetsOf(hex)
    self.minimum = minimum
    self.recode = recode
  }

  var testDescription: String { name }

  /// Expects that decoding and encoding returns the same bytes.
  func checkRoundTrip() throws {
    #expect(try recode(octets) == octets)
  }

  /// Expects that each truncated PDU is rejected or is a valid shorter PDU.
  func checkTruncations(_ layer: WireError.Layer) {
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      do throws(WireError) {
        let again = try recode(cut)
        #expect(count >= minimum, "\(count) octets are not enough")
        #expect(again == cut)
      } catch {
        #expect(error.layer == layer)
        #expect((0...count).contains(error.offset))
      }
    }
  }
}
