package import BLEHost
public import BLESensors
package import BLEStack
public import BLEWire
import Synchronization

/// Who a sensor is, as far as it tells.
public struct SensorFacts: Hashable, Sendable {
  /// Texts of Device Information by characteristic; a sensor has some of the six.
  public var texts: [BluetoothUUID: String] = [:]
  public var battery: BatteryLevel?
  /// Where a heart-rate sensor is worn.
  public var bodyLocation: BodySensorLocation?
  /// Where a cycling sensor is mounted.
  public var mounting: SensorLocation?
  /// Where a thermometer measures.
  public var temperatureType: TemperatureType?

  /// Nothing is known.
  public init() {}

  public var manufacturer: String? { texts[.manufacturerName] }
  public var model: String? { texts[.modelNumber] }
  public var serialNumber: String? { texts[.serialNumber] }
  public var hardwareRevision: String? { texts[.hardwareRevision] }
  public var firmwareRevision: String? { texts[.firmwareRevision] }
  public var softwareRevision: String? { texts[.softwareRevision] }
}

/// What a stream needs of a service.
package struct SensorNeed: Sendable {
  /// Characteristics with values that the sensor sends. The first is what the stream is about.
  let pushed: [BluetoothUUID]
  /// Characteristics that need only be there.
  let others: [BluetoothUUID]
  let service: BluetoothUUID

  package init(_ pushed: [BluetoothUUID], with others: [BluetoothUUID] = [], of service: BluetoothUUID) {
    (self.pushed, self.others, self.service) = (pushed, others, service)
  }
}

/// A connected sensor: what its stream needs of its attributes, and who it is.
package final class SensorLink: Sendable {
  let connection: Connection
  package let client: GATTClient
  /// With what the stream is about: those whose values can be turned on, if any. Empty: the sensor has none.
  private let services: [GATTDatabase.Service]
  private let listening = Mutex<[Listening]>([])

  /// Values of one type, taken from the first characteristic that sends some.
  private struct Listening: Sendable {
    let uuid: BluetoothUUID
    let service: BluetoothUUID
    let source: RawSource
    let sink: Connection.Sink
    var characteristics: [GATTDatabase.Characteristic]
  }

  private static let texts: [BluetoothUUID] = [
    .manufacturerName, .modelNumber, .serialNumber, .hardwareRevision, .firmwareRevision, .softwareRevision,
  ]

  /// Finds characteristics of the first of these services that has the first one wanted, and no more: by discovery, where it
  /// is not certain that they are where an earlier link found them. A device that names no such service by its UUID is asked for
  /// all services.
  package init(_ connection: Connection, _ needs: SensorNeed...) async throws(HostError) {
    self.connection = connection
    client = GATTClient(connection)
    var (able, unable): ([GATTDatabase.Service], [GATTDatabase.Service]) = ([], [])
    do throws(GATTError) {
      for search in [ServiceSearch.uuid, .allServices] where able.isEmpty {
        for need in needs where able.isEmpty {
          let found = try await client.attributes(
            toStream: need.pushed, with: need.others, of: need.service, by: search)
          let first = need.pushed.first
          able = found.filter { $0.canPush(first) }
          if unable.isEmpty { unable = found.filter { $0.characteristics.contains { $0.uuid == first } } }
        }
      }
    } catch { throw .gatt(error) }
    services = able.isEmpty ? unable : able
  }

  package func characteristic(
    _ uuid: BluetoothUUID, in service: BluetoothUUID
  ) -> GATTDatabase.Characteristic? {
    candidates(uuid, in: service).first
  }

  /// Characteristics that can do the same: those that can send values, else all.
  private func candidates(
    _ uuid: BluetoothUUID, in service: BluetoothUUID
  ) -> [GATTDatabase.Characteristic] {
    let all = GATTDatabase(services: services).characteristics(uuid, in: service)
    let able = all.filter(\.canPush)
    return able.isEmpty ? all : able
  }

  /// Subscribes to a characteristic. Where several can send the same, the values of the first that does are taken.
  ///
  /// - Throws: what the device answers, where it refuses all.
  package func listen(
    to uuid: BluetoothUUID, in service: BluetoothUUID, _ body: @escaping Connection.Sink
  ) async throws(HostError) {
    let source = RawSource()
    let entry = Listening(
      uuid: uuid, service: service, source: source,
      sink: { notification, time in
        if source.isFirst(notification.handle) { body(notification, time) }
      }, characteristics: [])
    let candidates = candidates(uuid, in: service)
    let taken = try await subscribe(to: candidates, entry)
    listening.withLock { listening in
      listening.append(entry)
      listening[listening.count - 1].characteristics = taken
    }
    if candidates.count > 1 {
      await connection.note(.several(uuid, candidates.map(\.valueHandle), taken: nil))
    }
  }

  /// - Returns: those that took it; none where there is none.
  private func subscribe(
    to candidates: [GATTDatabase.Characteristic], _ entry: Listening
  ) async throws(HostError) -> [GATTDatabase.Characteristic] {
    var (taken, failure): ([GATTDatabase.Characteristic], GATTError?) = ([], nil)
    for candidate in candidates {
      do throws(GATTError) {
        taken.append(try await client.subscribe(candidate, entry.sink).characteristic)
      } catch {
        guard case .refused = error, candidates.count > 1 else { throw .gatt(error) }
        failure = error
      }
    }
    if taken.isEmpty, let failure { throw .gatt(failure) }
    return taken
  }

  /// Names characteristics that can do the same as those of the stream, and listens to them too while it is silent.
  private func listenFurther(_ database: GATTDatabase) async throws(HostError) {
    for (index, entry) in listening.withLock({ $0 }).enumerated() {
      let all = database.characteristics(entry.uuid, in: entry.service).filter(\.canPush)
      let others = all.filter { other in
        !entry.characteristics.contains { $0.valueHandle == other.valueHandle }
      }
      guard all.count > 1, !others.isEmpty else { continue }
      let first = entry.source.first
      if first == nil {
        let taken = try await subscribe(to: others, entry)
        listening.withLock { $0[index].characteristics += taken }
      }
      await connection.note(.several(entry.uuid, all.map(\.valueHandle), taken: first))
    }
  }

  /// Tells the sensor to send no more.
  package func stopListening() async {
    for entry in listening.withLock({ $0 }) {
      for characteristic in entry.characteristics { try? await client.unsubscribe(all: characteristic) }
    }
  }

  /// For a device without what a command is there for.
  package func lacks(_ what: String) -> HostError {
    .unsuitable(
      "\(connection.peer) has no \(what); see what it has with `ringtap gatt \(connection.peer)`")
  }

  /// Who the sensor is: finds all its attributes, once the stream runs.
  ///
  /// - Returns: `nil` where they have changed: the stream is started anew then.
  package func facts() async throws(HostError) -> SensorFacts? {
    guard let database = try await findAll() else { return nil }
    try await listenFurther(database)
    let reader = FactsReader(client: client, database: database)
    let strays = await connection.statistics.strayResponses
    let facts = try await read(reader)
    // A late response may have been taken for another's: from now on they are held for a moment.
    let hasStrays = await connection.statistics.strayResponses != strays
    return try await noteFirmware(hasStrays ? try await read(reader) : facts)
  }

  /// Other firmware than an earlier program met may have other attributes.
  ///
  /// - Returns: `nil` if it has.
  private func noteFirmware(_ facts: SensorFacts) async throws(HostError) -> SensorFacts? {
    if let recalled = await connection.recalledFirmware, recalled != facts.firmwareRevision {
      let changes = await connection.attributeChangeCount
      do throws(GATTError) { try await client.verify() } catch { throw .gatt(error) }
      guard await connection.attributeChangeCount == changes else { return nil }
    }
    if let revision = facts.firmwareRevision { await connection.noteFirmware(revision) }
    return facts
  }

  /// All attributes; of a device that refuses to tell them those that have facts, service by service.
  private func findAll() async throws(HostError) -> GATTDatabase? {
    do throws(GATTError) {
      do throws(GATTError) { return try await client.complete() } catch {
        guard case .refused = error else { throw error }
      }
      let own = services.first.map { [$0.uuid] } ?? []
      return try await client.complete(of: own + [.deviceInformation, .battery])
    } catch { throw .gatt(error) }
  }

  private func read(_ reader: FactsReader) async throws(HostError) -> SensorFacts {
    var facts = SensorFacts()
    for uuid in Self.texts {
      facts.texts[uuid] = try await reader.decoded(DeviceInformationText.self, uuid, in: .deviceInformation)?
        .text
    }
    facts.battery = try await reader.decoded(BatteryLevel.self, .batteryLevel, in: .battery)
    facts.bodyLocation = try await reader.decoded(
      BodySensorLocation.self, .bodySensorLocation, in: .heartRate)
    facts.mounting = try await reader.decoded(
      SensorLocation.self, .sensorLocation, in: .cyclingSpeedAndCadence)
    facts.temperatureType = try await reader.decoded(
      TemperatureType.self, .temperatureType, in: .healthThermometer)
    return facts
  }
}

/// Reads what a sensor tells of itself, as far as it does.
private struct FactsReader: Sendable {
  let client: GATTClient
  let database: GATTDatabase

  /// What cannot be decoded, or the sensor does not give away, is as good as not there.
  func decoded<Value: CharacteristicValue>(
    _ type: Value.Type, _ uuid: BluetoothUUID, in service: BluetoothUUID
  ) async throws(HostError) -> Value? {
    guard let characteristic = database.characteristic(uuid, in: service, with: .read),
      characteristic.properties.contains(.read)
    else { return nil }
    do throws(GATTError) {
      // Whoever stops the stream is not kept waiting.
      if Task.isCancelled { throw .cancelled }
      let octets = try await client.read(characteristic.valueHandle)
      return try? Value(decoding: octets.span)
    } catch {
      guard case .refused = error else { throw .gatt(error) }
      return nil
    }
  }
}
