import BLEWire
import TestKit
import Testing

/// A decoder accepts only the PDU that it is named after and, if the PDU has no part of variable length, only
/// its length. Core 5.4, Vol 3, Part F, 3.4.
@Suite struct ATTStrictnessTests {
  typealias Decode = @Sendable ([UInt8]) throws(WireError) -> Void

  struct PDU: Sendable, CustomTestStringConvertible {
    var octets: [UInt8]
    /// Accepted first bytes: two PDUs with the same fields share a decoder.
    var opcodes: Set<UInt8>
    var decode: Decode

    var testDescription: String { "PDU 0x\(String(octets[0], radix: 16))" }

    init(_ hex: String, _ opcodes: Set<UInt8>, _ decode: @escaping Decode) {
      octets = octetsOf(hex)
      self.opcodes = opcodes
      self.decode = decode
    }
  }

  /// PDUs of fixed length.
  static let fixed: [PDU] = [
    PDU("01 10 9700 0a", [0x01]) { (pdu) throws(WireError) in _ = try ErrorResponse(validating: pdu.span) },
    PDU("02 0002", [0x02, 0x03]) { (pdu) throws(WireError) in _ = try ExchangeMTU(validating: pdu.span) },
    PDU("03 0002", [0x02, 0x03]) { (pdu) throws(WireError) in _ = try ExchangeMTU(validating: pdu.span) },
    PDU("04 1300 1600", [0x04]) { (pdu) throws(WireError) in
      _ = try FindInformationRequest(validating: pdu.span)
    },
    PDU("0a 0300", [0x0A]) { (pdu) throws(WireError) in _ = try ReadRequest(validating: pdu.span) },
    PDU("0c 0300 ff01", [0x0C]) { (pdu) throws(WireError) in _ = try ReadBlobRequest(validating: pdu.span) },
    PDU("18 01", [0x18]) { (pdu) throws(WireError) in _ = try ExecuteWriteRequest(validating: pdu.span) },
  ]

  /// PDUs with a value, a UUID or a list at the end; each has the minimum length.
  static let variable: [PDU] = [
    PDU("05 01 1300 0229", [0x05]) { (pdu) throws(WireError) in
      _ = try FindInformationResponse(validating: pdu.span).count
    },
    PDU("06 0100 ffff 0028", [0x06]) { (pdu) throws(WireError) in
      _ = try FindByTypeValueRequest(validating: pdu.span).value.count
    },
    PDU("07 0100 0700", [0x07]) { (pdu) throws(WireError) in
      _ = try FindByTypeValueResponse(validating: pdu.span).count
    },
    PDU("08 0100 ffff 0328", [0x08, 0x10]) { (pdu) throws(WireError) in
      _ = try ReadByTypeRequest(validating: pdu.span)
    },
    PDU("09 02 0300", [0x09]) { (pdu) throws(WireError) in
      _ = try ReadByTypeResponse(validating: pdu.span).count
    },
    PDU("0e 0300 0700", [0x0E, 0x20]) { (pdu) throws(WireError) in
      _ = try ReadMultipleRequest(validating: pdu.span).count
    },
    PDU("11 04 0100 0300", [0x11]) { (pdu) throws(WireError) in
      _ = try ReadByGroupTypeResponse(validating: pdu.span).count
    },
    PDU("12 0700", [0x12, 0x52]) { (pdu) throws(WireError) in _ = try Write(validating: pdu.span).value.count
    },
    PDU("16 0700 0000", [0x16, 0x17]) { (pdu) throws(WireError) in
      _ = try PrepareWrite(validating: pdu.span).value.count
    },
    PDU("1b 0300", [0x1B]) { (pdu) throws(WireError) in
      _ = try HandleValueNotification(validating: pdu.span).value.count
    },
    PDU("1d 0300", [0x1D]) { (pdu) throws(WireError) in
      _ = try HandleValueIndication(validating: pdu.span).value.count
    },
    PDU("21", [0x21]) { (pdu) throws(WireError) in
      try ReadMultipleVariableResponse(validating: pdu.span).forEach { _, _ in }
    },
    PDU("23", [0x23]) { (pdu) throws(WireError) in
      try MultipleHandleValueNotification(validating: pdu.span).forEach { _ in }
    },
    PDU("d2 0700 00000000 311f0acd1c3a5b0a", [0xD2]) { (pdu) throws(WireError) in
      _ = try SignedWriteCommand(validating: pdu.span).value.count
    },
  ]

  @Test(arguments: fixed + variable) func takesNoOtherPDU(_ pdu: PDU) throws {
    try pdu.decode(pdu.octets)
    for opcode in 0...255 as ClosedRange<UInt8> where !pdu.opcodes.contains(opcode) {
      let other = [opcode] + pdu.octets.dropFirst()
      #expect(throws: WireError(.att, offset: 0, .unexpectedOpcode(opcode))) { try pdu.decode(other) }
    }
  }

  @Test(arguments: fixed) func takesNoOtherLength(_ pdu: PDU) {
    let count = pdu.octets.count
    #expect(throws: WireError(.att, offset: 0, .lengthMismatch(claimed: count, available: count + 1))) {
      try pdu.decode(pdu.octets + [0])
    }
  }

  @Test(arguments: fixed + variable) func takesNoOctetLess(_ pdu: PDU) {
    #expect(throws: WireError.self) { try pdu.decode(pdu.octets.dropLast()) }
  }
}

/// LE Meta events, starting with the subevent. Core 5.4, Vol 4, Part E, 7.7.65.
@Suite struct SubeventStrictnessTests {
  static let events: [ATTStrictnessTests.PDU] = [
    .init("01 00 4000 00 01 b2a1000dcb70 1800 0000 f401 00", [0x01, 0x0A, 0x29]) {
      (event) throws(WireError) in
      _ = try LEConnectionComplete(validating: event.span)
    },
    .init("03 00 4000 1800 0000 f401", [0x03]) { (event) throws(WireError) in
      _ = try LEConnectionUpdateComplete(validating: event.span)
    },
    .init("04 00 4000 ff01000000000000", [0x04]) { (event) throws(WireError) in
      _ = try LEReadRemoteFeaturesComplete(validating: event.span)
    },
    .init("06 4000 1800 2800 0000 f401", [0x06]) { (event) throws(WireError) in
      _ = try LERemoteConnectionParameterRequest(validating: event.span)
    },
    .init("07 4000 fb00 4808 fb00 4808", [0x07]) { (event) throws(WireError) in
      _ = try LEDataLengthChange(validating: event.span)
    },
    .init("0c 00 4000 02 02", [0x0C]) { (event) throws(WireError) in
      _ = try LEPHYUpdateComplete(validating: event.span)
    },
  ]

  @Test(arguments: events) func takesNoOtherSubevent(_ event: ATTStrictnessTests.PDU) throws {
    try event.decode(event.octets)
    for code in 0...255 as ClosedRange<UInt8> where !event.opcodes.contains(code) {
      let other = [code] + event.octets.dropFirst()
      #expect(throws: WireError(.hciEvent, offset: 0, .unexpectedOpcode(code))) { try event.decode(other) }
    }
  }

  /// Later versions of the specification have extended events at their end.
  @Test(arguments: events) func takesNoParameterLess(_ event: ATTStrictnessTests.PDU) throws {
    try event.decode(event.octets + [0])
    let count = event.octets.count
    // The last byte of a Connection Complete, the clock accuracy, is required, too.
    #expect(throws: WireError.truncated(.hciEvent, needed: count, available: count - 1)) {
      try event.decode(event.octets.dropLast())
    }
  }
}
