import BLECore
import BLEStack
import BLEWire
import Testing

/// The client's half of the SIG's GATT test suite, as BlueZ scripted it.
@Suite struct GATTScriptTests {
  typealias Item = GATTScript.Item

  @Test func hasAllScripts() { #expect(GATTScript.all.count == 39) }

  @Test(arguments: GATTScript.of("exchangeMTU"))
  func exchangesTheMTU(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    try await requester.exchangeMTU(try #require(script.arguments.clientMTU))
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("discoverAllPrimaryServices"))
  func discoversServices(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let found = try await requester.discoverServices(.primary)
    #expect(found.map(item) == script.expect.services)
    #expect(found.allSatisfy { $0.kind == .primary })
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("discoverPrimaryServicesByUUID"))
  func discoversServicesByUUID(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let uuid = try #require(script.arguments.uuid.flatMap { BluetoothUUID($0) })
    let found = try await requester.discoverPrimaryServices(uuid)
    #expect(found.map(item) == script.expect.services)
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("findIncludedServices"))
  func findsIncludedServices(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let found = try await requester.findIncludedServices(in: range(script.arguments))
    #expect(
      found.map {
        Item(
          handle: $0.handle.rawValue, start: $0.range.start.rawValue, end: $0.range.end.rawValue,
          uuid: $0.uuid.description)
      } == script.expect.includes)
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("discoverCharacteristics"))
  func discoversCharacteristics(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let found = try await requester.discoverCharacteristics(in: range(script.arguments))
    #expect(found.map(item) == script.expect.characteristics)
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("discoverDescriptors"))
  func discoversDescriptors(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let range = range(script.arguments)
    let characteristic = GATTDatabase.Characteristic(
      handle: AttributeHandle(range.start.rawValue - 2), properties: .read,
      valueHandle: AttributeHandle(range.start.rawValue - 1), endHandle: range.end, uuid: .deviceName)
    let found = try await requester.discoverDescriptors(of: characteristic)
    #expect(found.map(item) == script.expect.descriptors)
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("discoverDatabase"))
  func discoversTheDatabase(_ script: GATTScript) async throws {
    let database = try await ScriptedRequester(script).discoverDatabase()
    let characteristics = database.services.flatMap(\.characteristics)
    #expect(database.services.map(item) == script.expect.services)
    #expect(characteristics.map(item) == script.expect.characteristics)
    #expect(characteristics.flatMap(\.descriptors).map(item) == script.expect.descriptors)
  }

  @Test(arguments: GATTScript.of("read", "readLong"))
  func reads(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let handle = AttributeHandle(try #require(script.arguments.handle))
    await expecting(script) { () async throws(GATTError) in
      let value = try await requester.read(handle)
      #expect(hexOf(value) == script.expect.value)
    }
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("write", "writeLong"))
  func writes(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let handle = AttributeHandle(try #require(script.arguments.handle))
    let value = octetsOf(try #require(script.arguments.value))
    await expecting(script) { () async throws(GATTError) in try await requester.write(value, to: handle) }
    #expect(await requester.missing == [])
  }

  @Test(arguments: GATTScript.of("writeWithoutResponse"))
  func writesWithoutResponse(_ script: GATTScript) async throws {
    let requester = ScriptedRequester(script)
    let handle = AttributeHandle(try #require(script.arguments.handle))
    try await requester.writeWithoutResponse(octetsOf(try #require(script.arguments.value)), to: handle)
    #expect(await requester.missing == [])
  }

  /// The error of the script reaches the caller, or there is none.
  private func expecting(
    _ script: GATTScript, _ body: () async throws(GATTError) -> Void
  ) async {
    do throws(GATTError) {
      try await body()
      #expect(script.expect.attError == nil)
    } catch {
      guard case .refused(let response) = error else {
        Issue.record("\(error)")
        return
      }
      #expect(response.code.rawValue == script.expect.attError)
    }
  }

  private func range(_ arguments: GATTScript.Arguments) -> HandleRange {
    HandleRange(
      start: AttributeHandle(arguments.start ?? 1), end: AttributeHandle(arguments.end ?? 0xFFFF))
  }

  private func item(_ service: GATTDatabase.Service) -> Item {
    Item(
      start: service.range.start.rawValue, end: service.range.end.rawValue, uuid: service.uuid.description)
  }

  private func item(_ characteristic: GATTDatabase.Characteristic) -> Item {
    Item(
      handle: characteristic.handle.rawValue, properties: characteristic.properties.rawValue,
      valueHandle: characteristic.valueHandle.rawValue, uuid: characteristic.uuid.description)
  }

  private func item(_ descriptor: GATTDatabase.Descriptor) -> Item {
    Item(handle: descriptor.handle.rawValue, uuid: descriptor.uuid.description)
  }
}
