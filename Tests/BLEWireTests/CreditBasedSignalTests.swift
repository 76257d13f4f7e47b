import BLECore
import BLEWire
import TestKit
import Testing

/// Data of signalling commands that google/bumble 0.0.236 encodes. Core 5.4, Vol 3, Part A, 4.6, 4.7 and 4.22–4.24.
@Suite struct CreditBasedSignalTests {
  static let signals = [
    PDUCase("Connection Request", "8000 4000 6400 1e00 0400", minimum: 10) { (octets) throws(WireError) in
      let request = try CreditBasedConnectionRequest(validating: octets.span)
      return [UInt8](encoding: octets.count) { request.encode(into: &$0) }
    },
    PDUCase("Connection Response", "5100 3c00 1900 0300 0000", minimum: 10) { (octets) throws(WireError) in
      let response = try CreditBasedConnectionResponse(validating: octets.span)
      return [UInt8](encoding: octets.count) { response.encode(into: &$0) }
    },
    PDUCase("Flow Control Credit", "5100 0500", minimum: 4) { (octets) throws(WireError) in
      let credit = try FlowControlCredit(validating: octets.span)
      return [UInt8](encoding: octets.count) { credit.encode(into: &$0) }
    },
    PDUCase("Disconnection", "4000 5100", minimum: 4) { (octets) throws(WireError) in
      let disconnection = try ChannelDisconnection(validating: octets.span)
      return [UInt8](encoding: octets.count) { disconnection.encode(into: &$0) }
    },
  ]

  @Test(arguments: signals) func givesTheSameOctetsBack(_ signal: PDUCase) throws {
    try signal.checkRoundTrip()
  }
  @Test(arguments: signals) func refusesTruncatedSignals(_ signal: PDUCase) {
    signal.checkTruncations(.l2cap)
  }
  @Test(arguments: signals) func refusesLongerSignals(_ signal: PDUCase) {
    #expect(throws: WireError.self) { _ = try signal.recode(signal.octets + [0]) }
  }

  @Test func readsFields() throws {
    let octets = octetsOf("8000 4000 6400 1e00 0400")
    #expect(
      try CreditBasedConnectionRequest(validating: octets.span)
        == CreditBasedConnectionRequest(
          spsm: 0x80, sourceCID: 0x40, parameters: CreditBasedParameters(mtu: 100, mps: 30, credits: 4)))
    let answer = octetsOf("5100 3c00 1900 0300 0200")
    #expect(
      try CreditBasedConnectionResponse(validating: answer.span)
        == CreditBasedConnectionResponse(
          destinationCID: 0x51, parameters: CreditBasedParameters(mtu: 60, mps: 25, credits: 3),
          result: .spsmNotSupported))
  }

  /// MTU and MPS of at least 23, an MPS of at most 65,533.
  @Test func knowsTheRanges() {
    #expect(CreditBasedParameters(mtu: 23, mps: 23, credits: 0).isValid)
    #expect(CreditBasedParameters(mtu: 65_535, mps: 65_533, credits: 65_535).isValid)
    #expect(!CreditBasedParameters(mtu: 22, mps: 23, credits: 1).isValid)
    #expect(!CreditBasedParameters(mtu: 23, mps: 22, credits: 1).isValid)
    #expect(!CreditBasedParameters(mtu: 23, mps: 65_534, credits: 1).isValid)
  }
}
