import BLEEmulation
public import BLEHost
import BLEStack
import BLEWire
import Recording

extension Radio {
  /// Opens an emulation, in this process, of one sensor of a kind, as if the sensor were in range.
  ///
  /// ```swift
  /// let radio = try await Radio.open(emulating: .heartRate)
  /// ```
  ///
  /// The sensor starts sending when a central first subscribes on a link. A custom kind sends the values of
  /// its `emulation`.
  ///
  /// - Parameters:
  ///   - kind: the kind to emulate.
  ///   - rate: values per second, above 0. For a ring, the total of all three kinds of frames. The default is
  ///     1, and 300 for a ring.
  /// - Throws: the system's error if no descriptor or thread is available.
  public static func open<Sample>(
    emulating kind: SensorKind<Sample>, valuesPerSecond rate: Double? = nil
  ) async throws(HostError) -> Radio {
    switch kind.emulation {
    case .specification(let text):
      return try await open("virtual:" + text + (rate.map { ",rate=\($0)" } ?? ""))
    case .values(let name, let service, let characteristic, let value):
      var configuration = EmulatedSensor.Configuration()
      configuration.ticksPerSecond = rate ?? configuration.ticksPerSecond
      let model = CharacteristicModel(
        name: name, service: service, characteristic: characteristic, value: value)
      return try await open(emulating: [EmulatedSensor(model, configuration)])
    }
  }
}

/// A sensor that notifies one characteristic: the emulation of a custom `SensorKind`.
private struct CharacteristicModel: SensorModel {
  var name: String
  var address = DeviceAddress(bits: 0x70CB_0D00_5E45, type: .public)
  let service: BluetoothUUID
  let characteristic: BluetoothUUID
  let value: @Sendable (Int) -> [UInt8]

  var services: [GATTServiceDescription] {
    .genericServices(name: name) + [
      GATTServiceDescription(
        service, characteristics: [GATTCharacteristicDescription(characteristic, .notify)])
    ]
  }

  /// Flags (general discoverable, no BR/EDR), and the complete list of service UUIDs. Core Supplement 11,
  /// Part A, 1.
  var advertisingData: [UInt8] {
    let isShort = service.short != nil
    let uuid =
      isShort ? [service.octet(12), service.octet(13)] : (0..<16).map { service.octet($0) }
    return [2, 0x01, 0x06, UInt8(uuid.count + 1), isShort ? 0x03 : 0x07] + uuid
  }

  /// The complete local name.
  var scanResponse: [UInt8] { [UInt8(name.utf8.count + 1), 0x09] + name.utf8 }

  mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    [SensorValue(characteristic, Array(value(tick.number).prefix(tick.valueByteCount)))]
  }
}
