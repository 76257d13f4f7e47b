import BLEWire
import TestKit
import Testing

/// A PDU from a specification, a capture or another stack's test, with the codec that is to know it.
struct PDUCase: Sendable, CustomTestStringConvertible {
  typealias Recode = @Sendable ([UInt8]) throws(WireError) -> [UInt8]

  let name: String
  let octets: [UInt8]
  /// Octets of the shortest PDU of this kind: every shorter one must be refused.
  let minimum: Int
  /// Decodes and encodes again.
  let recode: Recode

  init(_ name: String, _ hex: String, minimum: Int, _ recode: @escaping Recode) {
    self.name = name
    self.octets = octetsOf(hex)
    self.minimum = minimum
    self.recode = recode
  }

  var testDescription: String { name }

  /// The same octets come out.
  func checkRoundTrip() throws {
    #expect(try recode(octets) == octets)
  }

  /// A cut PDU is refused, or is a whole shorter one: never anything in between, and never a trap.
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
