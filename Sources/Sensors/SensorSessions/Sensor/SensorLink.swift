package import BLEHost
public import BLESensors
package import BLEStack
public import BLEWire
import Synchronization

/// Information that a sensor reports about itself.
public struct SensorFacts: Hashable, Sendable {
  /// Texts of the Device Information service, by characteristic. A sensor may have any of the six texts.
  public var texts: [BluetoothUUID: String] = [:]
  public var battery: BatteryLevel?
  /// Body location of a heart-rate sensor.
  public var bodyLocation: BodySensorLocation?
  /// Mounting location of a cycling sensor.
  public var mounting: SensorLocation?
  /// Measurement location of a thermometer.
  public var temperatureType: TemperatureType?

  /// Creates empty facts.
  public init() {}

  public var manufacturer: String? { texts[.manufacturerName] }
  public var model: String? { texts[.modelNumber] }
  public var serialNumber: String? { texts[.serialNumber] }
  public var hardwareRevision: String? { texts[.hardwareRevision] }
  public var firmwareRevision: String? { texts[.firmwareRevision] }
  public var softwareRevision: String? { texts[.softwareRevision] }
}

/// Characteristics of a service that a stream requires.
package struct SensorNeed: Sendable {
  /// Characteristics that notify or indicate. The first characteristic identifies the service.
  let pushed: [BluetoothUUID]
  /// Characteristics that must exist.
  let others: [BluetoothUUID]
  let service: BluetoothUUID

  package init(_ pushed: [BluetoothUUID], with others: [BluetoothUUID] = [], of service: BluetoothUUID) {
    (self.pushed, self.others, self.service) = (pushed, others, service)
  }
}

/// Connected sensor: its identity, and the attributes that its stream requires.
package final class SensorLink: Sendable {
  package let connection: Connection
  /// Services that have the first required characteristic; those in which it notifies or indicates are
  /// preferred. Empty if there is no such service.
  private let services: [GATTDatabase.Service]
  private let listening = Mutex<[Listening]>([])

  /// Subscription to values of one type. Values are taken from the first characteristic that sends any.
  private struct Listening: Sendable {
    let uuid: BluetoothUUID
    let service: BluetoothUUID
    let source: RawSource
    let sink: Connection.Sink
    var characteristics: [GATTDatabase.Characteristic]
  }

  private static let texts: [Characteristic<DeviceInformationText>] = [
    .manufacturerName, .modelNumber, .serialNumber, .hardwareRevision, .firmwareRevision, .softwareRevision,
  ]

  /// Finds the services with the first characteristic of a need, for the first need with such a service.
  /// Discovers services unless the services of an earlier link are known to be valid. If no such service is
  /// found by UUID, all services are discovered.
  package init(_ connection: Connection, _ needs: SensorNeed...) async throws(HostError) {
    self.connection = connection
    var (able, unable): ([GATTDatabase.Service], [GATTDatabase.Service]) = ([], [])
    do throws(GATTError) {
      for search in [ServiceSearch.uuid, .allServices] where able.isEmpty {
        for need in needs where able.isEmpty {
          let found = try await connection.attributes(
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

  /// Returns equivalent characteristics: all that notify or indicate, or all characteristics of this type if
  /// none does.
  private func candidates(
    _ uuid: BluetoothUUID, in service: BluetoothUUID
  ) -> [GATTDatabase.Characteristic] {
    let all = GATTDatabase(services: services).characteristics(uuid, in: service)
    let able = all.filter(\.canPush)
    return able.isEmpty ? all : able
  }

  /// Subscribes to a characteristic. If several characteristics are equivalent, values are taken from the
  /// first characteristic that sends any.
  ///
  /// - Throws: the device's error if it refuses all subscriptions.
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

  /// Subscribes to equivalent characteristics.
  ///
  /// - Returns: the characteristics that accepted the subscription; empty if there are no candidates.
  private func subscribe(
    to candidates: [GATTDatabase.Characteristic], _ entry: Listening
  ) async throws(HostError) -> [GATTDatabase.Characteristic] {
    var (taken, failure): ([GATTDatabase.Characteristic], GATTError?) = ([], nil)
    for candidate in candidates {
      do throws(GATTError) {
        taken.append(try await connection.subscribe(candidate, entry.sink).characteristic)
      } catch {
        guard case .refused = error, candidates.count > 1 else { throw .gatt(error) }
        failure = error
      }
    }
    if taken.isEmpty, let failure { throw .gatt(failure) }
    return taken
  }

  /// Reports equivalent characteristics of the stream in a remark. If the stream is silent, also subscribes
  /// to them.
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

  /// Unsubscribes from all characteristics.
  package func stopListening() async {
    for entry in listening.withLock({ $0 }) {
      for characteristic in entry.characteristics { try? await connection.unsubscribe(all: characteristic) }
    }
  }

  /// Returns the error for a device that lacks a feature required by a command.
  package func lacks(_ what: String) -> HostError {
    .unsuitable(
      "\(connection.peer) has no \(what); see what it has with `ringtap gatt \(connection.peer)`")
  }

  /// Discovers all attributes and reads the sensor's identity. Call this when the stream runs.
  ///
  /// - Returns: `nil` if the attributes have changed. The stream must then be restarted.
  package func facts() async throws(HostError) -> SensorFacts? {
    guard let database = try await findAll() else { return nil }
    try await listenFurther(database)
    let reader = FactsReader(connection: connection, database: database)
    let strays = await connection.statistics.strayResponses
    let facts = try await read(reader)
    // If there were stray responses, a late response may have been matched to the wrong request, so read
    // again. The connection now holds each response for a moment before it accepts the response.
    let hasStrays = await connection.statistics.strayResponses != strays
    return try await noteFirmware(hasStrays ? try await read(reader) : facts)
  }

  /// Reports the firmware revision, and verifies the attributes if an earlier program stored another
  /// revision.
  ///
  /// - Returns: `nil` if the attributes have changed.
  private func noteFirmware(_ facts: SensorFacts) async throws(HostError) -> SensorFacts? {
    if let recalled = await connection.recalledFirmware, recalled != facts.firmwareRevision {
      let changes = await connection.attributeChangeCount
      do throws(GATTError) { try await connection.verify() } catch { throw .gatt(error) }
      guard await connection.attributeChangeCount == changes else { return nil }
    }
    if let revision = facts.firmwareRevision { await connection.noteFirmware(revision) }
    return facts
  }

  /// Discovers all attributes. If the device refuses this, discovers the services with device information one
  /// by one.
  private func findAll() async throws(HostError) -> GATTDatabase? {
    do throws(GATTError) {
      do throws(GATTError) { return try await connection.complete() } catch {
        guard case .refused = error else { throw error }
      }
      let own = services.first.map { [$0.uuid] } ?? []
      return try await connection.complete(of: own + [.deviceInformation, .battery])
    } catch { throw .gatt(error) }
  }

  private func read(_ reader: FactsReader) async throws(HostError) -> SensorFacts {
    var facts = SensorFacts()
    for text in Self.texts { facts.texts[text.uuid] = try await reader.value(of: text)?.text }
    facts.battery = try await reader.value(of: .batteryLevel)
    facts.bodyLocation = try await reader.value(of: .bodySensorLocation)
    facts.mounting = try await reader.value(of: .sensorLocation)
    facts.temperatureType = try await reader.value(of: .temperatureType)
    return facts
  }
}

/// Reads the information that a sensor reports about itself.
private struct FactsReader: Sendable {
  let connection: Connection
  let database: GATTDatabase

  /// Reads and decodes a value. Returns `nil` if the value is missing or cannot be decoded, or if the device
  /// refuses to read it.
  func value<Value>(of wanted: Characteristic<Value>) async throws(HostError) -> Value? {
    guard let characteristic = database.characteristic(wanted.uuid, in: wanted.service, with: .read),
      characteristic.properties.contains(.read)
    else { return nil }
    do throws(GATTError) {
      // Do not delay a caller that stops the stream.
      if Task.isCancelled { throw .cancelled }
      let octets = try await connection.read(characteristic.valueHandle)
      return try? Value(decoding: octets.span)
    } catch {
      guard case .refused = error else { throw .gatt(error) }
      return nil
    }
  }
}
