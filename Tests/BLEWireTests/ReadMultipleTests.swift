import BLEWire
import TestKit
import Testing

/// Core 5.4, Vol 3, Part F, 3.4.4.7–3.4.4.12 and 3.4.5.4; bytes of GAR/BV-05-C, GAR/BV-08-C and GAW/BV-02-C.
@Suite struct ReadMultipleTests {
  static let cases: [PDUCase] = [
    PDUCase("GAR/BV-05-C read multiple", "0e 0300 0700", minimum: 5, request),
    PDUCase("GAR/BV-08-C read multiple variable", "20 0300 0700 ffff", minimum: 5, request),
    PDUCase("GAW/BV-02-C signed write", "d2 0700 010203 00000000 311f0acd1c3a5b0a", minimum: 15) {
      (pdu) throws(WireError) in
      let write = try SignedWriteCommand(validating: pdu.span)
      return [UInt8](encoding: pdu.count) { write.encode(into: &$0) }
    },
  ]

  private static let request: PDUCase.Recode = { (pdu) throws(WireError) in
    let request = try ReadMultipleRequest(validating: pdu.span)
    let handles = (0..<request.count).map { request[$0] }
    let opcode = request.opcode
    return [UInt8](encoding: pdu.count) { ReadMultipleRequest.encode(opcode, handles.span, into: &$0) }
  }

  @Test(arguments: cases) func givesTheSameOctetsBack(_ pdu: PDUCase) throws { try pdu.checkRoundTrip() }
  @Test(arguments: cases) func refusesTruncations(_ pdu: PDUCase) { pdu.checkTruncations(.att) }

  @Test func namesTheHandles() throws {
    let pdu = octetsOf("0e 0300 0700")
    let request = try ReadMultipleRequest(validating: pdu.span)
    let handles = (0..<request.count).map { request[$0].rawValue }
    #expect(handles == [3, 7])
  }

  @Test func takesASignedWriteApart() throws {
    let pdu = octetsOf("d2 0700 010203 00000000 311f0acd1c3a5b0a")
    let write = try SignedWriteCommand(validating: pdu.span)
    let (handle, value, signature) = (write.handle, array(write.value), array(write.signature))
    #expect(handle == AttributeHandle(7))
    #expect(value == [1, 2, 3])
    #expect(signature == octetsOf("00000000 311f0acd1c3a5b0a"))
    let message = [UInt8](encoding: 6) { write.encodeMessage(into: &$0) }
    #expect(message == octetsOf("d2 0700 010203"))
  }

  /// Values with the attributes' bytes.
  private func values(_ hex: String) -> (values: [String], error: WireError?) {
    let pdu = octetsOf(hex)
    var values: [String] = []
    do throws(WireError) {
      try ReadMultipleVariableResponse(validating: pdu.span).forEach { value, wholeByteCount in
        values.append(
          "\(wholeByteCount):" + array(value).map { String($0, radix: 16) }.joined(separator: ","))
      }
      return (values, nil)
    } catch { return (values, error) }
  }

  @Test(arguments: [
    ("21 0300 010203 0200 0405", ["3:1,2,3", "2:4,5"]), ("21 0000 0100 07 0000", ["0:", "1:7", "0:"]),
    ("21", []), ("21 0300 010203 1e00 bbbb", ["3:1,2,3", "30:bb,bb"]), ("21 ffff", ["65535:"]),
  ])
  func readsValuesWithTheirLengths(_ pdu: String, _ expected: [String]) {
    let found = values(pdu)
    #expect(found.values == expected)
    #expect(found.error == nil)
  }

  @Test func refusesHalfALength() {
    let found = values("21 0100 07 02")
    #expect(found.values == ["1:7"])
    #expect(found.error == WireError(.att, offset: 4, .truncated(needed: 2, available: 1)))
    #expect(values("").error == .truncated(.att, needed: 1, available: 0))
  }

  @Test func putsSeveralUpdatesIntoOnePDU() throws {
    let (first, second) = (octetsOf("aabb"), octetsOf(""))
    let pdu = [UInt8](encoding: 11) {
      $0.append(ATTOpcode.multipleHandleValueNotification.rawValue)
      HandleValueNotification(handle: AttributeHandle(3), value: first.span).encodeTuple(into: &$0)
      HandleValueNotification(handle: AttributeHandle(5), value: second.span).encodeTuple(into: &$0)
    }
    #expect(pdu == octetsOf("23 0300 0200 aabb 0500 0000"))
  }
}

/// Core 5.4, Vol 3, Part G, 3.3.3.1, 3.3.3.5 and 3.3.3.6.
@Suite struct CharacteristicDescriptorTests {
  @Test func readsExtendedProperties() throws {
    let value = octetsOf("0100")
    #expect(try CharacteristicExtendedProperties(validating: value.span) == .reliableWrite)
    let unknown = octetsOf("0380")
    #expect(try CharacteristicExtendedProperties(validating: unknown.span).rawValue == 0x8003)
    let again = [UInt8](encoding: 2) { CharacteristicExtendedProperties(rawValue: 0x8003).encode(into: &$0) }
    #expect(again == unknown)
  }

  /// GPA/BV-12-C: sint16, exponent −5, degree Fahrenheit.
  @Test func readsAPresentationFormat() throws {
    let value = octetsOf("0e fb ac27 01 0201")
    let format = try CharacteristicPresentationFormat(validating: value.span)
    #expect(
      format
        == CharacteristicPresentationFormat(format: 0x0E, exponent: -5, unit: 0x27AC, description: 0x0102))
    let again = [UInt8](encoding: 7) { format.encode(into: &$0) }
    #expect(again == value)
  }

  @Test func readsAnAggregateFormat() throws {
    let value = octetsOf("0500 0400")
    let list = try CharacteristicAggregateFormat(validating: value.span)
    let handles = (0..<list.count).map { list[$0].rawValue }
    #expect(handles == [5, 4])
  }

  @Test func refusesOtherLengths() {
    for count in 0...8 where count != 2 {
      let value = [UInt8](repeating: 1, count: count)
      #expect(throws: WireError.self) { try CharacteristicExtendedProperties(validating: value.span) }
    }
    for count in 0...8 where count != 7 {
      let value = [UInt8](repeating: 1, count: count)
      #expect(throws: WireError.self) { try CharacteristicPresentationFormat(validating: value.span) }
    }
    for count in [0, 1, 3, 5] {
      let value = [UInt8](repeating: 1, count: count)
      var isRefused = false
      do throws(WireError) { _ = try CharacteristicAggregateFormat(validating: value.span).count } catch {
        isRefused = error.reason == .lengthMismatch(claimed: 2, available: count)
      }
      #expect(isRefused)
    }
  }
}
