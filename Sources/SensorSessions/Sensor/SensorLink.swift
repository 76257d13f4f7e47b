public import BLECore
package import BLEHost
public import BLESensors
package import BLEStack
import BLEWire

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

/// A connected sensor: what its stream needs of its attributes, and who it is.
package struct SensorLink: Sendable {
  let connection: Connection
  package let client: GATTClient
  /// Of the service that streams: `nil` where the sensor has none.
  private let service: GATTDatabase.Service?

  private static let texts: [BluetoothUUID] = [
    .manufacturerName, .modelNumber, .serialNumber, .hardwareRevision, .firmwareRevision, .softwareRevision,
  ]

  /// Finds characteristics of the first of these services that has the first one wanted, and no more: by discovery, where it
  /// is not certain that they are where an earlier link found them.
  package init(
    _ connection: Connection, _ wanted: (characteristics: [BluetoothUUID], service: BluetoothUUID)...
  ) async throws(HostError) {
    self.connection = connection
    client = GATTClient(connection)
    var service: GATTDatabase.Service?
    do throws(GATTError) {
      for (characteristics, uuid) in wanted where service == nil {
        let found = try await client.attributes(toStream: characteristics, of: uuid)
        if let found, found.characteristics.contains(where: { $0.uuid == characteristics.first }) {
          service = found
        }
      }
    } catch { throw .gatt(error) }
    self.service = service
  }

  package func characteristic(
    _ uuid: BluetoothUUID, in service: BluetoothUUID
  ) -> GATTDatabase.Characteristic? {
    guard let found = self.service, found.uuid == service else { return nil }
    return found.characteristics.first { $0.uuid == uuid }
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
    let found: GATTDatabase?
    do throws(GATTError) { found = try await client.complete() } catch { throw .gatt(error) }
    guard let database = found else { return nil }
    let reader = FactsReader(client: client, database: database)
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
    guard let characteristic = database.characteristic(uuid, in: service),
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
