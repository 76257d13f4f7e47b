import BLEStack
import BLEWire
import Testing

/// Valid and invalid responses of servers to the procedures that read and write several attributes.
@Suite struct GATTProcedureGuardTests {
  private static let handles = [AttributeHandle(3), AttributeHandle(7)]

  private func failure<T>(_ body: () async throws(GATTError) -> T) async -> GATTError? {
    do throws(GATTError) {
      _ = try await body()
      return nil
    } catch { return error }
  }

  @Test(arguments: ["21 0100 01 0100 02 0100 03", "21 0100 01 01", "21 0000 0000 0000"])
  func refusesOtherValuesThanAskedFor(_ reply: String) async {
    #expect(
      await isMalformed { () async throws(GATTError) in _ = try await Answers([reply]).read(Self.handles) })
  }

  @Test func marksWhatDidNotFit() async throws {
    let values = try await Answers(["21 1300" + String(repeating: "aa", count: 19)]).read(Self.handles)
    #expect(values.map(\.handle) == Self.handles)
    #expect(values.map(\.isWhole) == [true, false])
    #expect(values.map(\.value.count) == [19, 0])
  }

  /// Eleven handles fit the smallest MTU.
  @Test func asksForNoMoreHandlesThanFit() async {
    let many = (1...12).map { AttributeHandle($0) }
    let server = Answers(["0f", "0f"])
    #expect(
      await failure { () async throws(GATTError) in try await server.readJoined(many) }
        == .valueTooLong(byteCount: 25, limit: 23))
    #expect(await server.requests == [])
    #expect(
      await failure { () async throws(GATTError) in try await server.readJoined(many.dropLast()) } == nil)
    #expect(await server.requests.map(\.utf8.count) == [46])
  }

  @Test(arguments: [
    "0903 1f00 01", "0903 4100 01", "0903 2000 01 2000 02", "0903 2100 01 2000 02", "0902", "0901 20",
    "0903 2000",
  ])
  func refusesValuesByType(_ reply: String) async {
    let range = HandleRange(start: AttributeHandle(0x20), end: AttributeHandle(0x40))
    #expect(
      await isMalformed { () async throws(GATTError) in
        _ = try await Answers([reply]).readValues(of: .batteryLevel, in: range)
      })
  }

  /// An entry has room for 19 bytes at the smallest MTU: a value of that size may be longer.
  @Test func doesNotTrustAFullEntry() async throws {
    let (full, short) = (String(repeating: "aa", count: 19), String(repeating: "bb", count: 18))
    let server = Answers(["0915 0300" + full, "0914 0500" + short, "01 08 0600 0a"])
    let values = try await server.readValues(of: .batteryLevel)
    #expect(values.map(\.isWhole) == [false, true])
  }

  /// A value that must not be read is not omitted silently.
  @Test func passesOnARefusalBehindOtherValues() async {
    let server = Answers(["0903 0300 01", "01 08 0500 02"])
    #expect(
      await failure { () async throws(GATTError) in try await server.readValues(of: .batteryLevel) }
        == .refused(ErrorResponse(request: .readByTypeRequest, handle: .none, code: .readNotPermitted)))
  }

  @Test func sendsNothingOfATooLongWrite() async {
    let server = Answers([])
    let writes = [
      AttributeWrite([1], to: AttributeHandle(3)),
      AttributeWrite([UInt8](repeating: 0, count: 500), to: AttributeHandle(7), at: 13),
    ]
    #expect(
      await failure { () async throws(GATTError) in try await server.writeTogether(writes) }
        == .valueTooLong(byteCount: 513, limit: 512))
    #expect(await server.requests == [])
  }

  @Test func preparesAnEmptyValue() async throws {
    let server = Answers(["17 0300 0200", "19"])
    try await server.writeLong([], to: AttributeHandle(3), at: 2)
    #expect(await server.requests == ["1603000200", "1801"])
  }

  /// Descriptors that may not be read are omitted; malformed ones cause an error.
  @Test func readsWhatDescriptorsSay() async throws {
    let characteristic = GATTDatabase.Characteristic(
      handle: AttributeHandle(2), properties: [.read, .extendedProperties], valueHandle: AttributeHandle(3),
      endHandle: AttributeHandle(6), uuid: .batteryLevel,
      descriptors: [
        GATTDatabase.Descriptor(handle: AttributeHandle(4), uuid: .characteristicExtendedProperties),
        GATTDatabase.Descriptor(handle: AttributeHandle(5), uuid: .characteristicUserDescription),
        GATTDatabase.Descriptor(handle: AttributeHandle(6), uuid: .characteristicPresentationFormat),
      ])
    let server = Answers(["0b 0100", "0b 4142", "0b 04 00 ad27 01 0000"])
    let details = try await server.readDetails(of: characteristic)
    #expect(details.extendedProperties == .reliableWrite)
    #expect(details.userDescription == "AB")
    #expect(details.formats == [CharacteristicPresentationFormat(format: 4, exponent: 0, unit: 0x27AD)])
    #expect(await server.requests == ["0a0400", "0a0500", "0a0600"])

    let closed = Answers(["01 0a 0400 05", "0b 4142", "01 0a 0600 02"])
    let rest = try await closed.readDetails(of: characteristic)
    #expect(rest.extendedProperties == nil)
    #expect(rest.userDescription == "AB")
    #expect(rest.formats == [])
    #expect(
      await isMalformed { () async throws(GATTError) in
        _ = try await Answers(["0b 01", "0b 4142", "0b"]).readDetails(of: characteristic)
      })
  }
}
