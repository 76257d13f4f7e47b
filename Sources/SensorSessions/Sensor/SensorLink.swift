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

  public var manufacturer: String? { texts[.manufacturerName] }
  public var model: String? { texts[.modelNumber] }
  public var serialNumber: String? { texts[.serialNumber] }
  public var hardwareRevision: String? { texts[.hardwareRevision] }
  public var firmwareRevision: String? { texts[.firmwareRevision] }
  public var softwareRevision: String? { texts[.softwareRevision] }
}

/// A connected sensor: what discovery found, and reads that it may refuse.
package struct SensorLink: Sendable {
  let connection: Connection
  package let client: GATTClient
  let database: GATTDatabase

  private static let texts: [BluetoothUUID] = [
    .manufacturerName, .modelNumber, .serialNumber, .hardwareRevision, .firmwareRevision, .softwareRevision,
  ]

  /// Finds all attributes: by discovery, where it is not certain that they are where an earlier link found them.
  package init(_ connection: Connection) async throws(HostError) {
    self.connection = connection
    client = GATTClient(connection)
    do throws(GATTError) {
      database = try await client.attributes()
    } catch { throw .gatt(error) }
  }

  package func characteristic(
    _ uuid: BluetoothUUID, in service: BluetoothUUID
  ) -> GATTDatabase.Characteristic? {
    database.characteristic(uuid, in: service)
  }

  /// For a device without what a command is there for.
  package func lacks(_ what: String) -> HostError {
    .unsuitable(
      "\(connection.peer) has no \(what); see what it has with `ringtap gatt \(connection.peer)`")
  }

  /// The value, or `nil` where there is none or the sensor does not give it away.
  func value(of uuid: BluetoothUUID, in service: BluetoothUUID) async throws(HostError) -> [UInt8]? {
    guard let characteristic = characteristic(uuid, in: service), characteristic.properties.contains(.read)
    else {
      return nil
    }
    do throws(GATTError) { return try await client.read(characteristic.valueHandle) } catch {
      guard case .refused = error else { throw .gatt(error) }
      return nil
    }
  }

  /// The same decoded; what cannot be decoded is as good as not there.
  func decoded<Value: CharacteristicValue>(
    _ type: Value.Type, _ uuid: BluetoothUUID, in service: BluetoothUUID
  ) async throws(HostError) -> Value? {
    guard let octets = try await value(of: uuid, in: service) else { return nil }
    return try? Value(decoding: octets.span)
  }

  package func facts() async throws(HostError) -> SensorFacts {
    var facts = SensorFacts()
    for uuid in Self.texts {
      facts.texts[uuid] = try await decoded(DeviceInformationText.self, uuid, in: .deviceInformation)?.text
    }
    facts.battery = try await decoded(BatteryLevel.self, .batteryLevel, in: .battery)
    return facts
  }
}
