import BLEStack
import BLEWire
import TestKit
import Testing

/// Responds from a list of request → reply, and records each request.
actor Answers: ATTRequester {
  private(set) var mtu: Int
  private var replies: ArraySlice<String>
  private(set) var requests: [String] = []
  /// MTU in force after the reply with that number, because of a simultaneous exchange by the peer.
  private var changes: [Int: Int]

  init(mtu: Int = 23, _ replies: [String], changes: [Int: Int] = [:]) {
    self.mtu = mtu
    self.replies = replies[...]
    self.changes = changes
  }

  func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8] {
    requests.append(hexOf(request))
    if let changed = changes[requests.count] { mtu = changed }
    guard let reply = replies.popFirst().map(octetsOf) else {
      throw .timedOut(ATTOpcode(rawValue: request[0]))
    }
    if reply[0] == 0x01 {
      throw .refused(
        ErrorResponse(
          request: ATTOpcode(rawValue: reply[1]), handle: .none, code: ATTErrorCode(rawValue: reply[4])))
    }
    return reply
  }

  func send(_ command: [UInt8]) async throws(GATTError) { requests.append(hexOf(command)) }
}

func isMalformed(_ body: () async throws(GATTError) -> Void) async -> Bool {
  do throws(GATTError) {
    try await body()
    return false
  } catch {
    if case .malformed = error { return true }
    return false
  }
}

/// Reference `att-gatt-conformance.md`, 4: handles in a response must be inside the requested range and
/// increase.
@Suite struct GATTGuardTests {
  private static let service = HandleRange(start: AttributeHandle(0x10), end: AttributeHandle(0x20))

  @Test(arguments: [
    ("does not rise", "1106 1000 1300 0018 0100 0300 0118"),
    ("repeats", "1106 1000 1300 0018 1000 1300 0018"),
    ("overlaps", "1106 1000 1300 0018 1300 1500 0118"), ("ends before its start", "1106 1000 0f00 0018"),
    ("starts at 0", "1106 0000 0f00 0018"), ("is empty", "1106"), ("is ragged", "1106 1000 1300 0018 14"),
    ("has entries of 5", "1105 1000 1300 00"), ("has entries of 0", "1100 1000 1300 0018"),
    ("has only an opcode", "11"), ("has a UUID of 4 octets", "1108 1000 1300 00180000"),
  ])
  func refusesGroups(_ what: String, _ reply: String) async {
    let server = Answers([reply])
    #expect(
      await isMalformed { () async throws(GATTError) in _ = try await server.discoverServices(.primary) })
    #expect(await server.requests.count == 1)
  }

  /// The second response goes back to the first handle: without the guard, discovery would never end.
  @Test func refusesAWalkThatTurnsBack() async {
    let server = Answers(Array(repeating: "1106 1000 1300 0018", count: 10))
    #expect(
      await isMalformed { () async throws(GATTError) in _ = try await server.discoverServices(.primary) })
    #expect(await server.requests == ["100100ffff0028", "101400ffff0028"])
  }

  @Test(arguments: ["0707 0000", "07 1000 0f00", "07 1000 1300 10", "07", "07 1000 1300 0100 0200"])
  func refusesFoundGroups(_ reply: String) async {
    let server = Answers([reply])
    #expect(
      await isMalformed { () async throws(GATTError) in
        _ = try await server.discoverPrimaryServices(.heartRate)
      })
  }

  @Test(arguments: [
    ("before the range", "0907 0f00 02 1000 002a"), ("after the range", "0907 2100 02 2200 002a"),
    ("not rising", "0907 1300 02 1400 002a 1100 02 1200 012a"), ("empty", "0907"),
    ("ragged", "0907 1100 02 1200 00"),
    ("entry of 3", "0903 1100 02"), ("entry of 1", "0901 11"), ("entry of 9", "0909 1100 02 1200 002a0000"),
  ])
  func refusesCharacteristics(_ what: String, _ reply: String) async {
    let server = Answers([reply])
    #expect(
      await isMalformed { () async throws(GATTError) in
        _ = try await server.discoverCharacteristics(in: Self.service)
      })
    #expect(await server.requests.count == 1)
  }

  @Test(arguments: [
    ("before the range", "0501 1200 0229"), ("after the range", "0501 2100 0229"),
    ("not rising", "0501 1400 0229 1400 0129"), ("empty", "0501"), ("ragged", "0501 1400 02"),
    ("format 3", "0503 1400 0229"), ("format 0", "0500 1400 0229"), ("wide, ragged", "0502 1400 0229"),
  ])
  func refusesDescriptors(_ what: String, _ reply: String) async {
    let server = Answers([reply])
    let characteristic = GATTDatabase.Characteristic(
      handle: AttributeHandle(0x11), properties: .notify, valueHandle: AttributeHandle(0x12),
      endHandle: AttributeHandle(0x20), uuid: .heartRate)
    #expect(
      await isMalformed { () async throws(GATTError) in
        _ = try await server.discoverDescriptors(of: characteristic)
      })
  }

  @Test(arguments: ["0907 0200 1000 1f00 0f", "0905 0200 1000 1f", "090a 0200 1000 1f00 0f18 0000"])
  func refusesIncludes(_ reply: String) async {
    let server = Answers([reply])
    #expect(
      await isMalformed { () async throws(GATTError) in _ = try await server.findIncludedServices(in: .all) })
  }

  /// Discovery stops after FFFF and never wraps around.
  @Test func stopsAtTheLastHandle() async throws {
    let services = Answers(["1106 0100 ffff 0018"])
    #expect(try await services.discoverServices(.primary).count == 1)
    #expect(await services.requests.count == 1)

    let last = Answers(["0501 ffff 0229"])
    let characteristic = GATTDatabase.Characteristic(
      handle: AttributeHandle(0xFFFD), properties: .notify, valueHandle: AttributeHandle(0xFFFE),
      endHandle: .last, uuid: .heartRate)
    #expect(try await last.discoverDescriptors(of: characteristic).count == 1)
    #expect(await last.requests == ["04ffffffff"])
  }

  /// A value handle at the end of its range leaves no room for descriptors: no request is sent.
  @Test(arguments: [0x20, 0xFFFF] as [UInt16])
  func asksForNoDescriptorsBehindTheEnd(_ end: UInt16) async throws {
    let server = Answers([])
    let characteristic = GATTDatabase.Characteristic(
      handle: AttributeHandle(end - 1), properties: .read, valueHandle: AttributeHandle(end),
      endHandle: AttributeHandle(end), uuid: .deviceName)
    #expect(try await server.discoverDescriptors(of: characteristic).isEmpty)
    #expect(await server.requests.isEmpty)
  }

  /// Servers without secondary services may refuse the group type.
  @Test(arguments: ["01 10 0100 0a", "01 10 0100 10"])
  func takesNoServicesAsAnEnd(_ reply: String) async throws {
    #expect(try await Answers([reply]).discoverServices(.secondary).isEmpty)
  }

  @Test func passesOtherRefusalsOn() async {
    let server = Answers(["01 10 0100 05"])
    await #expect(throws: GATTError.self) { try await server.discoverServices(.primary) }
  }
}

@Suite struct GATTLongValueTests {
  private static let full = String(repeating: "aa", count: 22)

  /// GAR BV-04: after a value of exactly m·(MTU−1) bytes, an empty blob, Not Long, or Invalid Offset marks
  /// the end.
  @Test(arguments: ["0d", "01 0c 0300 0b", "01 0c 0300 07"])
  func endsAFullValue(_ reply: String) async throws {
    let server = Answers(["0b" + Self.full, reply])
    #expect(try await server.read(AttributeHandle(3)).count == 22)
    #expect(await server.requests == ["0a0300", "0c03001600"])
  }

  /// A value has at most 512 bytes, however much a server sends.
  @Test func endsAnEndlessValue() async throws {
    let server = Answers(["0b" + Self.full] + Array(repeating: "0d" + Self.full, count: 100))
    let value = try await server.read(AttributeHandle(3))
    #expect(value.count >= 512)
    #expect(await server.requests.count == 24)
  }

  @Test func passesOnARefusalInTheMiddle() async {
    let server = Answers(["0b" + Self.full, "01 0c 0300 05"])
    await #expect(throws: GATTError.self) { try await server.read(AttributeHandle(3)) }
  }

  /// The peer's MTU exchange may overlap with a read: a response that was full when it was sent may not be
  /// the complete value.
  @Test(arguments: [
    (1, ["0b" + full, "0d" + full + "bb"]), (2, ["0b" + full, "0d" + full, "0d bb"]),
    (3, ["0b" + full, "0d" + full, "0d bb"]),
  ])
  func readsOnWhenTheMTUChanges(_ number: Int, _ replies: [String]) async throws {
    let server = Answers(replies, changes: [number: 247])
    #expect(hexOf(try await server.read(AttributeHandle(3))) == Self.full + Self.full + "bb")
  }

  /// Core 5.4, Vol 3, Part F, 3.2.9: at most 512 bytes.
  @Test func refusesATooLongWrite() async {
    let server = Answers([])
    await #expect(throws: GATTError.valueTooLong(byteCount: 513, limit: 512)) {
      try await server.write([UInt8](repeating: 0, count: 513), to: AttributeHandle(3))
    }
    await #expect(throws: GATTError.valueTooLong(byteCount: 21, limit: 20)) {
      try await server.writeWithoutResponse([UInt8](repeating: 0, count: 21), to: AttributeHandle(3))
    }
    #expect(await server.requests.isEmpty)
  }

  /// GAW BV-05 at the smallest MTU: MTU−5 bytes per part, consecutive offsets, then `1801`.
  @Test func splitsALongWrite() async throws {
    let value = (0..<21).map { UInt8($0) }
    let first = "16 0700 0000" + hexOf(value[..<18])
    let second = "16 0700 1200" + hexOf(value[18...])
    let server = Answers(["17" + first.dropFirst(2), "17" + second.dropFirst(2), "19"])
    try await server.write(value, to: AttributeHandle(7))
    #expect(await server.requests == [first, second, "1801"].map { hexOf(octetsOf($0)) })
  }

  /// GAW BI-32: if the echo differs, `1800` is sent, and the caller gets "not written".
  @Test(arguments: [
    "17 0700 0000 ff0102030405060708090a0b0c0d0e0f1011", "17 0700 0100 000102030405060708090a0b0c0d0e0f1011",
    "17 0800 0000 000102030405060708090a0b0c0d0e0f1011", "17 0700 0000 00", "17",
  ])
  func cancelsAWriteThatIsEchoedWrongly(_ echo: String) async {
    let server = Answers([echo, "19"])
    await #expect(throws: GATTError.writeNotVerified(AttributeHandle(7))) {
      try await server.write((0..<21).map { UInt8($0) }, to: AttributeHandle(7))
    }
    #expect(await server.requests.last == "1800")
  }

  @Test func cancelsAWriteThatIsRefused() async {
    let server = Answers(["01 16 0700 09", "19"])
    await #expect(throws: GATTError.self) {
      try await server.write([UInt8](repeating: 1, count: 21), to: AttributeHandle(7))
    }
    #expect(await server.requests.last == "1800")
    #expect(await server.requests.count == 2)
  }
}

/// Core 5.4, Vol 3, Part F, 3.4.2: once per connection; a server without support is not an error.
@Suite struct GATTExchangeMTUTests {
  @Test func goesOnWhenRefused() async throws {
    let server = Answers(["01 02 0000 06"])
    try await server.exchangeMTU(517)
    #expect(await server.requests == ["020502"])
  }

  @Test func reportsOtherErrors() async {
    let server = Answers(["01 02 0000 0e"])
    await #expect(throws: GATTError.self) { try await server.exchangeMTU(517) }
  }

  /// Some peers never respond to a second exchange: embassy-rs/trouble#619, zephyrproject-rtos/zephyr#44069.
  @Test func isSkippedAfterThePeersOwn() async throws {
    let server = Answers(mtu: 247, [])
    try await server.exchangeMTU(517)
    #expect(await server.requests.isEmpty)
  }
}

/// Discovery of one known service, 4.4.2, its characteristics, 4.6.1, and their descriptors, 4.7.1.
@Suite struct GATTDiscoverServiceTests {
  @Test func findsWhatTheWalkFinds() async throws {
    let server = Answers([
      "07 0500 0800", "09 07 0600 0a 0700 292a", "01 08 0700 0a", "05 01 0800 0129",
    ])
    let found = try #require(try await server.discoverServices(.heartRate).first)
    #expect(found.range == HandleRange(start: AttributeHandle(5), end: AttributeHandle(8)))
    let characteristic = try #require(found.characteristics.first)
    #expect(found.characteristics.count == 1)
    #expect(characteristic.handle == AttributeHandle(6))
    #expect(characteristic.valueHandle == AttributeHandle(7))
    #expect(characteristic.endHandle == AttributeHandle(8))
    #expect(characteristic.uuid == .manufacturerName)
    #expect(characteristic.descriptors.map(\.handle) == [AttributeHandle(8)])
  }

  @Test func isEmptyWithoutTheService() async throws {
    #expect(try await Answers(["01 06 0100 0a"]).discoverServices(.heartRate).isEmpty)
  }

  @Test func refusesABadDeclaration() async {
    let server = Answers(["07 0500 0800", "09 05 0600 0a 0700"])
    #expect(
      await isMalformed { () async throws(GATTError) in _ = try await server.discoverServices(.heartRate) })
  }
}
