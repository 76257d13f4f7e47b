import BLEEmulation
import BLELinux
import BLESensors
import BLEStack
import BLEWire
import Dialogues
import Synchronization
import TestKit
import TestPeer

@testable import BLEHost

/// Performs a dialogue's action with the client, and describes the result in the syntax of its expectation.
struct DialogueRun {
  struct Unreadable: Error, CustomStringConvertible {
    let description: String
  }

  let dialogue: ATTDialogue
  let link: DialogueLink
  let connection: Connection
  let security = CountingSecurity()

  private var words: ArraySlice<String> { dialogue.action.dropFirst().filter { $0 != "secured" }[...] }
  private var isSecured: Bool { dialogue.action.last == "secured" }

  /// The expected lines, with repeated bytes expanded.
  var expected: [String] { dialogue.expectation.map { Self.plain($0) } }

  func result() async throws -> [String] { try await outcome().map { Self.plain($0) } }

  private func outcome() async throws -> [String] {
    let start = link.clock.monotonic()
    do throws(GATTError) {
      if isSecured { await connection.onRefusal { [security] _, _ in security.raise() } }
      return try await perform(connection)
    } catch {
      switch error {
      case .refused(let response): return ["error \(hexOf([response.code.rawValue]))"]
      case .writeNotVerified(let handle): return ["not-verified \(handle.text)"]
      case .timedOut:
        let passed = start.duration(to: link.clock.monotonic())
        return ["timeout \(passed.components.seconds) s"]
      default: return ["\(error)"]
      }
    }
  }

  // MARK: Actions

  private func perform(_ client: some ATTRequester) async throws(GATTError) -> [String] {
    switch dialogue.action[0] {
    case "exchange-mtu":
      try await client.exchangeMTU(Int(words[0]) ?? 0)
      return []
    case "discover-services", "find-includes", "discover-characteristics", "discover-descriptors", "discover":
      return try await discover(client)
    case "read", "read-from", "read-type", "read-joined", "read-multiple", "details":
      return try await read(client)
    case "write", "write-long", "write-together", "write-command", "write-signed", "write-signed-encrypted":
      try await write(client)
      return dialogue.expectation.isEmpty ? [] : ["written"]
    case "subscribe": return try await subscribe()
    case "attributes": return try await attributes()
    default: return ["no such action: \(dialogue.action[0])"]
    }
  }

  private func discover(_ client: some ATTRequester) async throws(GATTError) -> [String] {
    switch dialogue.action[0] {
    case "discover-services":
      if let uuid = words.first.flatMap({ BluetoothUUID($0) }) {
        return try await client.discoverPrimaryServices(uuid).map(line)
      }
      return try await client.discoverServices(.primary).map(line)
    case "find-includes": return try await client.findIncludedServices(in: range(words[0])).map(line)
    case "discover-characteristics":
      if words.count > 1, let uuid = BluetoothUUID(words[1]) {
        return try await client.discoverCharacteristics(uuid, in: range(words[0])).map(line)
      }
      return try await client.discoverCharacteristics(in: range(words[0])).map(line)
    case "discover-descriptors":
      let range = range(words[0])
      let characteristic = GATTDatabase.Characteristic(
        handle: AttributeHandle(range.start.rawValue - 2), properties: .read,
        valueHandle: AttributeHandle(range.start.rawValue - 1), endHandle: range.end, uuid: .deviceName)
      return try await client.discoverDescriptors(of: characteristic).map(line)
    default:
      let services = try await client.discoverDatabase().services
      let characteristics = services.flatMap(\.characteristics)
      return services.map(line) + services.flatMap(\.includes).map(line) + characteristics.map(line)
        + characteristics.flatMap(\.descriptors).map(line)
    }
  }

  private func read(_ client: some ATTRequester) async throws(GATTError) -> [String] {
    switch dialogue.action[0] {
    case "read": return ["value " + hexOf(try await client.read(handle(words[0])))]
    case "read-from":
      return ["value " + hexOf(try await client.read(handle(words[0]), from: UInt16(words[1]) ?? 0))]
    case "read-type":
      let values = try await client.readValues(of: BluetoothUUID(words[0]) ?? .include, in: range(words[1]))
      // The test suite's own notation for an empty list.
      return values.isEmpty ? ["error 0a"] : values.map(line)
    case "read-joined": return ["value " + hexOf(try await client.readJoined(words.map(handle)))]
    case "read-multiple": return try await client.read(words.map(handle)).map(line)
    default: return try await details(client)
    }
  }

  /// Reads descriptors. The words are the value's handle, then those of the presentation formats; if there
  /// are several, the last is the aggregate format.
  private func details(_ client: some ATTRequester) async throws(GATTError) -> [String] {
    let handles = words.map(handle)
    let descriptors = handles.indices.dropFirst().map { index in
      let isAggregate = handles.count > 2 && index == handles.count - 1
      return GATTDatabase.Descriptor(
        handle: handles[index],
        uuid: isAggregate ? .characteristicAggregateFormat : .characteristicPresentationFormat)
    }
    let characteristic = GATTDatabase.Characteristic(
      handle: AttributeHandle(handles[0].rawValue - 1), properties: .read, valueHandle: handles[0],
      endHandle: handles[handles.count - 1], uuid: .measurementInterval, descriptors: descriptors)
    let formats = try await client.readDetails(of: characteristic).formats
    let value = try await client.read(handles[0])
    do throws(WireError) { return try formats.texts(of: value.span).map { "text \($0)" } } catch {
      throw .malformed(error)
    }
  }

  private func write(_ client: some ATTRequester) async throws(GATTError) {
    let handles = words.filter { $0.hasPrefix("0x") }.map(handle)
    let last = words.count == 3 && dialogue.action[0] == "write-long" ? Int(words[2]) : nil
    let values = words.prefix(last == nil ? words.count : 2).filter { !$0.hasPrefix("0x") }.map(octets)
    switch dialogue.action[0] {
    case "write": try await client.write(values[0], to: handles[0])
    case "write-long": try await client.writeLong(values[0], to: handles[0], at: last ?? 0)
    case "write-together":
      try await client.writeTogether(zip(handles, values).map { AttributeWrite($1, to: $0) })
    case "write-command": try await client.writeWithoutResponse(values[0], to: handles[0])
    case "write-signed": try await client.writeSigned(values[0], to: handles[0], by: KnownSigner())
    default:
      try await client.writeSigned(values[0], to: handles[0], by: KnownSigner(), encryption: .on)
    }
  }

  /// Discovers attributes like a job, and subscribes to changes. `multiple` sets bit 2 of the features;
  /// `changing` discovers again when they have changed; a handle is read at the end.
  private func attributes() async throws(GATTError) -> [String] {
    let features: ClientFeatures =
      words.contains("multiple") ? [.robustCaching, .multipleNotifications] : .robustCaching
    await connection.enable(features)
    var lines = try await connection.attributes().services.map(line)
    if words.contains("changing") {
      await connection.attributesChanged(since: 0)
      lines.append("changed")
      lines += try await connection.attributes().services.map(line)
    }
    if let word = words.first(where: { $0.hasPrefix("0x") }) {
      lines.append("value " + hexOf(try await connection.read(handle(word))))
    }
    return lines
  }

  /// Subscribes. The words are a value handle, the way, and the handle of Client Supported Features if bit 2
  /// must be set first.
  private func subscribe() async throws(GATTError) -> [String] {
    let database = try await connection.discover()
    guard let characteristic = database.characteristic(valueHandle: handle(words[0])) else { return [] }
    let way: ServerPush = words[1] == "indication" ? .indication : .notification
    if words.count == 4 { try await connection.write([0x04], to: handle(words[3])) }
    let values = Values(wanted: dialogue.expectation.count)
    for other in dialogue.expectation.map({ $0.split(separator: " ")[1] }) where other != words[0] {
      _ = await connection.addSubscriber(handle(String(other))) { value, _ in values.take(value, way) }
    }
    _ = try await connection.subscribe(characteristic, by: way) { notification, _ in
      values.take(notification, way)
    }
    return await values.lines()
  }

  // MARK: Words

  private func handle(_ word: String) -> AttributeHandle {
    AttributeHandle(UInt16(word.dropFirst(2), radix: 16) ?? 0)
  }

  private func range(_ word: String) -> HandleRange {
    let ends = word.split(separator: "-").map { handle(String($0)) }
    return HandleRange(start: ends[0], end: ends[1])
  }

  private func octets(_ word: String) -> [UInt8] { octetsOf(Self.plain(word)) }

  /// Expands `aa*3` to `aaaaaa`, and removes the spaces between bytes.
  static func plain(_ line: String) -> String {
    line.split(separator: " ").map { word in
      let parts = word.split(separator: "*")
      guard parts.count == 2, let count = Int(parts[1]) else { return String(word) }
      return parts[0].dropLast(2) + String(repeating: String(parts[0].suffix(2)), count: count)
    }.joined()
  }

  private func line(_ service: GATTDatabase.Service) -> String {
    "service \(text(service.range)) \(text(service.uuid))"
  }

  private func line(_ include: GATTDatabase.Include) -> String {
    "include \(include.handle.text) \(text(include.range)) \(text(include.uuid))"
  }

  private func line(_ characteristic: GATTDatabase.Characteristic) -> String {
    "characteristic \(characteristic.handle.text) \(hexOf([characteristic.properties.rawValue])) "
      + "\(characteristic.valueHandle.text) \(text(characteristic.uuid))"
  }

  private func line(_ descriptor: GATTDatabase.Descriptor) -> String {
    "descriptor \(descriptor.handle.text) \(text(descriptor.uuid))"
  }

  private func line(_ value: AttributeValue) -> String {
    "\(value.isWhole ? "value" : "part") \(value.handle.text) \(hexOf(value.value))"
  }

  private func text(_ range: HandleRange) -> String { "\(range.start.text)-\(range.end.text)" }

  private func text(_ uuid: BluetoothUUID) -> String {
    uuid.short.map { String(AttributeHandle($0).text.dropFirst(2)) } ?? uuid.description
  }
}

/// A link that can raise its security and counts the attempts.
final class CountingSecurity: Sendable {
  private let count = Atomic<Int>(0)

  var raises: Int { count.load(ordering: .relaxed) }

  func raise() -> Bool {
    count.add(1, ordering: .relaxed)
    return true
  }
}

/// Returns the signature that GAW/BV-02-C has for its key and counter 0. The computation of signatures is
/// tested with the Security Manager's functions.
private struct KnownSigner: WriteSigner {
  func signature(of message: [UInt8]) async throws(GATTError) -> [UInt8] {
    // Opcode, handle 7, value 010203.
    guard message == [0xD2, 0x07, 0x00, 0x01, 0x02, 0x03] else { return Array(repeating: 0, count: 12) }
    return [0x00, 0x00, 0x00, 0x00, 0x31, 0x1F, 0x0A, 0xCD, 0x1C, 0x3A, 0x5B, 0x0A]
  }
}

/// Updates in the syntax of an expectation, in order of arrival.
private final class Values: Sendable {
  private let taken = Mutex<[String]>([])
  private let count = Counter()
  private let wanted: Int

  init(wanted: Int) { self.wanted = wanted }

  func take(_ update: borrowing HandleValueNotification, _ way: ServerPush) {
    let value = hexOf(update.value.indices.map { update.value[$0] })
    let name = way == .indication ? "indication" : "notification"
    let line = "\(name) \(update.handle.text) \(value)"
    taken.withLock { $0.append(line) }
    count.add()
  }

  /// Returns when all expected updates have arrived.
  func lines() async -> [String] {
    await count.reaches(wanted)
    return taken.withLock { $0 }
  }
}
