import BLEWire
import TestKit
import Testing

/// PDUs of the SIG's GATT test suite, as scripted in BlueZ's `unit/test-gatt.c`; PDUs that are not in it
/// follow their layout in Core 5.4, Vol 3, Part F, 3.4.
@Suite struct ATTRoundTripTests {
  private static func encoded(
    _ count: Int, _ body: (inout OutputSpan<UInt8>) -> Void
  ) -> [UInt8] { [UInt8](encoding: count, body) }

  static let cases: [PDUCase] = [
    PDUCase("GAD/BV-01-C error", "01 10 9700 0a", minimum: 5) { (pdu) throws(WireError) in
      let error = try ErrorResponse(validating: pdu.span)
      return encoded(pdu.count) { error.encode(into: &$0) }
    },
    PDUCase("GAC/BV-01-C MTU request", "02 0002", minimum: 3, exchangeMTU),
    PDUCase("GAD/BV-01-C MTU response", "03 0002", minimum: 3, exchangeMTU),
    PDUCase("GAD/BV-06-C find information", "04 1300 1600", minimum: 5) { (pdu) throws(WireError) in
      let request = try FindInformationRequest(validating: pdu.span)
      return encoded(pdu.count) { request.encode(into: &$0) }
    },
    PDUCase("GAD/BV-02-C find by type value", "06 0100 ffff 0028 0018", minimum: 7) {
      (pdu) throws(WireError) in
      let request = try FindByTypeValueRequest(validating: pdu.span)
      return encoded(pdu.count) { request.encode(into: &$0) }
    },
    PDUCase("GAD/BV-03-C read by type", "08 0100 ffff 0228", minimum: 7, readByType),
    PDUCase("128-bit read by type", "08 0100 ffff efcdab89674523010000000009b00000", minimum: 7, readByType),
    PDUCase("GAD/BV-01-C read by group type", "10 0100 ffff 0028", minimum: 7, readByType),
    PDUCase("GAR/BV-01-C read", "0a 0300", minimum: 3) { (pdu) throws(WireError) in
      let request = try ReadRequest(validating: pdu.span)
      return encoded(pdu.count) { request.encode(into: &$0) }
    },
    PDUCase("GAR/BV-04-C read blob", "0c 0300 ff01", minimum: 5) { (pdu) throws(WireError) in
      let request = try ReadBlobRequest(validating: pdu.span)
      return encoded(pdu.count) { request.encode(into: &$0) }
    },
    PDUCase("GAW/BV-03-C write", "12 0700 010203", minimum: 3, write),
    PDUCase("GAW/BV-01-C write command", "52 0700 010203", minimum: 3, write),
    PDUCase("GAW/BV-05-C prepare write", "16 0700 fb01 ffffffffff", minimum: 5, prepareWrite),
    PDUCase("GAW/BV-05-C prepare write echo", "17 0700 fb01 ffffffffff", minimum: 5, prepareWrite),
    PDUCase("GAW/BV-05-C execute", "18 01", minimum: 2, executeWrite),
    PDUCase("GAW/BI-07-C cancel", "18 00", minimum: 2, executeWrite),
    PDUCase("GAN/BV-01-C notification", "1b 0300 010203", minimum: 3) { (pdu) throws(WireError) in
      let update = try HandleValueNotification(validating: pdu.span)
      return encoded(pdu.count) { update.encode(into: &$0) }
    },
    PDUCase("indication", "1d 0300 010203", minimum: 3) { (pdu) throws(WireError) in
      let update = try HandleValueIndication(validating: pdu.span)
      return encoded(pdu.count) { update.encode(into: &$0) }
    },
  ]

  private static let exchangeMTU: PDUCase.Recode = { (pdu) throws(WireError) in
    let exchange = try ExchangeMTU(validating: pdu.span)
    return encoded(pdu.count) { exchange.encode(into: &$0) }
  }
  private static let readByType: PDUCase.Recode = { (pdu) throws(WireError) in
    let request = try ReadByTypeRequest(validating: pdu.span)
    return encoded(pdu.count) { request.encode(into: &$0) }
  }
  private static let write: PDUCase.Recode = { (pdu) throws(WireError) in
    let write = try Write(validating: pdu.span)
    return encoded(pdu.count) { write.encode(into: &$0) }
  }
  private static let prepareWrite: PDUCase.Recode = { (pdu) throws(WireError) in
    let part = try PrepareWrite(validating: pdu.span)
    return encoded(pdu.count) { part.encode(into: &$0) }
  }
  private static let executeWrite: PDUCase.Recode = { (pdu) throws(WireError) in
    let request = try ExecuteWriteRequest(validating: pdu.span)
    return encoded(pdu.count) { request.encode(into: &$0) }
  }

  @Test(arguments: cases) func givesTheSameOctetsBack(_ pdu: PDUCase) throws { try pdu.checkRoundTrip() }
  @Test(arguments: cases) func refusesTruncations(_ pdu: PDUCase) { pdu.checkTruncations(.att) }
}

@Suite struct ATTFieldTests {
  @Test func readsAnError() throws {
    let pdu = octetsOf("01 10 9700 0a")
    let error = try ErrorResponse(validating: pdu.span)
    #expect(
      error
        == ErrorResponse(
          request: .readByGroupTypeRequest, handle: AttributeHandle(0x97), code: .attributeNotFound))
    // The length is fixed; an unknown code is kept.
    let long = pdu + [0]
    #expect(throws: WireError(.att, offset: 0, .lengthMismatch(claimed: 5, available: 6))) {
      try ErrorResponse(validating: long.span)
    }
    let unknown = octetsOf("01 77 0000 7f")
    let kept = try ErrorResponse(validating: unknown.span)
    #expect(kept.request.rawValue == 0x77)
    #expect(kept.code.rawValue == 0x7F)
    #expect(kept.handle == .none)
  }

  @Test func readsAndWritesTheMTU() throws {
    let pdu = octetsOf("02 0002")
    #expect(try ExchangeMTU(validating: pdu.span) == ExchangeMTU(request: 512))
    let response = [UInt8](encoding: 3) { ExchangeMTU(response: 247).encode(into: &$0) }
    #expect(response == octetsOf("03 f700"))
  }

  @Test func readsFindInformation16() throws {
    let pdu = octetsOf("05 01 1300 0229 1400 0329")
    let response = try FindInformationResponse(validating: pdu.span)
    let (count, first, second) = (response.count, response[0], response[1])
    #expect(count == 2)
    #expect(first == (AttributeHandle(0x13), .clientCharacteristicConfiguration))
    #expect(second == (AttributeHandle(0x14), BluetoothUUID(0x2903)))
  }

  @Test func readsFindInformation128() throws {
    let pdu = octetsOf("05 02 15f0 efcdab89674523010000000009b00000")
    let response = try FindInformationResponse(validating: pdu.span)
    let (count, first) = (response.count, response[0])
    #expect(count == 1)
    #expect(first.handle == AttributeHandle(0xF015))
    #expect(first.type.description == "0000b009-0000-0000-0123-456789abcdef")
  }

  @Test(arguments: [
    ("05 00 1300 0229", WireError(.att, offset: 1, .invalidValue(0))),
    ("05 03 1300 0229", WireError(.att, offset: 1, .invalidValue(3))),
    ("05 01", WireError(.att, offset: 2, .lengthMismatch(claimed: 4, available: 0))),
    ("05 01 1300 02", WireError(.att, offset: 2, .lengthMismatch(claimed: 4, available: 3))),
    ("05 02 1300 0229", WireError(.att, offset: 2, .lengthMismatch(claimed: 18, available: 4))),
    ("05", WireError(.att, offset: 1, .truncated(needed: 2, available: 1))),
  ])
  func refusesBadFindInformation(_ hex: String, _ expected: WireError) {
    let pdu = octetsOf(hex)
    #expect(throws: expected) { _ = try FindInformationResponse(validating: pdu.span).count }
  }

  @Test func readsFindByTypeValue() throws {
    let request = octetsOf("06 0100 ffff 0028 0018")
    let asked = try FindByTypeValueRequest(validating: request.span)
    let (range, type, value) = (asked.range, asked.type, array(asked.value))
    #expect(range == .all)
    #expect(type == .primaryService)
    #expect(value == [0x00, 0x18])
    let response = octetsOf("07 0100 0700 1000 ffff")
    let found = try FindByTypeValueResponse(validating: response.span)
    let (count, first, second) = (found.count, found[0], found[1])
    #expect(count == 2)
    #expect(first == HandleRange(start: AttributeHandle(1), end: AttributeHandle(7)))
    #expect(second == HandleRange(start: AttributeHandle(0x10), end: .last))
    for cut in [0, 1, 2, 3, 4, 6, 7, 8] {
      #expect(throws: WireError.self) {
        _ = try FindByTypeValueResponse(validating: response.span.extracting(first: cut)).count
      }
    }
  }

  @Test func readsReadByTypeRequests() throws {
    let short = octetsOf("08 0100 ffff 0328")
    let long = octetsOf("08 0100 ffff fb349b5f80000080001000000328 0000")
    let expected = ReadByTypeRequest(range: .all, type: .characteristic)
    #expect(try ReadByTypeRequest(validating: short.span) == expected)
    #expect(try ReadByTypeRequest(validating: long.span) == expected, "one UUID, two forms")
    let between = octetsOf("08 0100 ffff 03280000")
    #expect(throws: WireError(.att, offset: 5, .lengthMismatch(claimed: 2, available: 4))) {
      try ReadByTypeRequest(validating: between.span)
    }
  }

  @Test func readsReadByTypeResponses() throws {
    // GAD/BV-03-C: an include with its UUID.
    let pdu = octetsOf("09 08 0200 10001f000f18")
    let response = try ReadByTypeResponse(validating: pdu.span)
    let (count, handle, value) = (response.count, response.handle(0), array(response.value(0)))
    #expect(count == 1)
    #expect(handle == AttributeHandle(2))
    #expect(value == octetsOf("10001f000f18"))
    // Entries with empty values are allowed: an entry is a bare handle.
    let bare = octetsOf("09 02 0300 0400")
    let handles = try ReadByTypeResponse(validating: bare.span)
    let (bareCount, second, isEmpty) = (handles.count, handles.handle(1), handles.value(1).isEmpty)
    #expect(bareCount == 2)
    #expect(second == AttributeHandle(4))
    #expect(isEmpty)
  }

  @Test(arguments: [
    ("09 00 0200", WireError(.att, offset: 1, .invalidValue(0))),
    ("09 01 0200", WireError(.att, offset: 1, .invalidValue(1))),
    ("09 07 0200 02 0300 00", WireError(.att, offset: 2, .lengthMismatch(claimed: 7, available: 6))),
    ("09 ff 0200 02 0300 002a", WireError(.att, offset: 2, .lengthMismatch(claimed: 255, available: 7))),
    ("09 07", WireError(.att, offset: 2, .lengthMismatch(claimed: 7, available: 0))),
    ("09", WireError(.att, offset: 1, .truncated(needed: 2, available: 1))),
  ])
  func refusesBadReadByType(_ hex: String, _ expected: WireError) {
    let pdu = octetsOf(hex)
    #expect(throws: expected) { _ = try ReadByTypeResponse(validating: pdu.span).count }
  }

  @Test func readsReadByGroupTypeResponses() throws {
    // GAD/BV-01-C: three services with 16-bit UUIDs, then one with 128 bits.
    let pdu = octetsOf("11 06 1000 1300 0018 2000 2900 b068 3000 3200 1918")
    let response = try ReadByGroupTypeResponse(validating: pdu.span)
    let (count, range, uuid) = (response.count, response.range(2), response.uuid(1))
    #expect(count == 3)
    #expect(range == HandleRange(start: AttributeHandle(0x30), end: AttributeHandle(0x32)))
    #expect(uuid == BluetoothUUID(0x68B0))
    let wide = octetsOf("11 14 9000 9600 efcdab89674523010000000085600000")
    let wideResponse = try ReadByGroupTypeResponse(validating: wide.span)
    let (wideCount, wideUUID) = (wideResponse.count, wideResponse.uuid(0))
    #expect(wideCount == 1)
    #expect(wideUUID?.description == "00006085-0000-0000-0123-456789abcdef")
    // Any other size is not a UUID.
    let odd = octetsOf("11 05 0100 0300 aa")
    let oddUUID = try ReadByGroupTypeResponse(validating: odd.span).uuid(0)
    #expect(oddUUID == nil)
  }

  @Test(arguments: [
    ("11 03 0100 03", WireError(.att, offset: 1, .invalidValue(3))),
    ("11 06 0100 0500 00", WireError(.att, offset: 2, .lengthMismatch(claimed: 6, available: 5))),
    ("11 06", WireError(.att, offset: 2, .lengthMismatch(claimed: 6, available: 0))),
  ])
  func refusesBadReadByGroupType(_ hex: String, _ expected: WireError) {
    let pdu = octetsOf(hex)
    #expect(throws: expected) { _ = try ReadByGroupTypeResponse(validating: pdu.span).count }
  }

  @Test func readsWrites() throws {
    let pdu = octetsOf("16 0700 fb01 ffff")
    let part = try PrepareWrite(validating: pdu.span)
    let (opcode, handle, offset, value) = (part.opcode, part.handle, part.offset, array(part.value))
    #expect(opcode == .prepareWriteRequest)
    #expect(handle == AttributeHandle(7))
    #expect(offset == 507)
    #expect(value == [0xFF, 0xFF])
    let empty = octetsOf("12 0700")
    let isEmpty = try Write(validating: empty.span).value.isEmpty
    #expect(isEmpty)
    for flag: UInt8 in [2, 0xFF] {
      let execute = [0x18, flag]
      #expect(throws: WireError(.att, offset: 1, .invalidValue(UInt32(flag)))) {
        try ExecuteWriteRequest(validating: execute.span)
      }
    }
  }

  @Test func readsMultipleNotifications() throws {
    let pdu = octetsOf("23 0300 0200 aabb 0500 0000 0700 0100 cc")
    var seen: [[UInt8]] = []
    var handles: [UInt16] = []
    try MultipleHandleValueNotification(validating: pdu.span).forEach { update in
      handles.append(update.handle.rawValue)
      seen.append(array(update.value))
    }
    #expect(handles == [3, 5, 7])
    #expect(seen == [[0xAA, 0xBB], [], [0xCC]])
  }

  @Test func keepsTheWholeTuplesOfATornMultipleNotification() {
    let pdu = octetsOf("23 0300 0200 aabb 0700 0100 cc")
    for count in 0..<pdu.count {
      var handles: [UInt16] = []
      let cut = pdu.span.extracting(first: count)
      do throws(WireError) {
        try MultipleHandleValueNotification(validating: cut).forEach { handles.append($0.handle.rawValue) }
        #expect([1, 7].contains(count), "only whole tuples pass")
      } catch {
        #expect(error.layer == .att)
        #expect(![1, 7].contains(count))
      }
      #expect(handles == (count >= 7 ? [3] : []))
    }
  }
}

@Suite struct CharacteristicDeclarationTests {
  /// Declarations of the databases behind BlueZ's GATT scripts.
  @Test(
    arguments: [
      ("020300002a", 0x02, 3, "00002a00-0000-1000-8000-00805f9b34fb"),
      ("8215f0efcdab89674523010000000009b00000", 0x82, 0xF015, "0000b009-0000-0000-0123-456789abcdef"),
    ] as [(String, UInt8, UInt16, String)])
  func readsAndWrites(hex: String, properties: UInt8, handle: UInt16, uuid: String) throws {
    let value = octetsOf(hex)
    let declaration = try CharacteristicDeclaration(validating: value.span)
    #expect(declaration.properties.rawValue == properties)
    #expect(declaration.valueHandle.rawValue == handle)
    #expect(declaration.uuid.description == uuid)
    #expect([UInt8](encoding: 19) { declaration.encode(into: &$0) } == value)
    for count in 0..<value.count where count != 5 {
      #expect(throws: WireError.self) {
        try CharacteristicDeclaration(validating: value.span.extracting(first: count))
      }
    }
  }

  @Test func namesItsProperties() {
    #expect(
      CharacteristicProperties(rawValue: 0x3E).names == [
        "read", "writeWithoutResponse", "write", "notify", "indicate",
      ])
    #expect(CharacteristicProperties(rawValue: 0).names.isEmpty)
  }
}
