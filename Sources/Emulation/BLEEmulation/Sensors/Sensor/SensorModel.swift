public import BLEStack
public import BLEWire

/// A value that a sensor sends.
public struct SensorValue: Hashable, Sendable {
  public var characteristic: BluetoothUUID
  public var push: ServerPush
  public var octets: [UInt8]

  public init(_ characteristic: BluetoothUUID, _ push: ServerPush, _ octets: [UInt8]) {
    self.characteristic = characteristic
    self.push = push
    self.octets = octets
  }

  /// Creates a notification.
  public init(_ characteristic: BluetoothUUID, _ octets: [UInt8]) {
    self.init(characteristic, .notification, octets)
  }
}

/// A tick of an emulated sensor. Ticks start with the first subscription on a link.
public struct SensorTick: Hashable, Sendable {
  /// Number of the tick, from 0.
  public var number: Int
  /// Seconds since the first subscription, by the sensor's clock.
  public var seconds: Double
  /// Maximum size of a value at the MTU in force, in bytes.
  public var valueByteCount: Int
  /// Whether the sensor is off the body.
  public var isOffBody: Bool
}

/// Identity, measurements and responses of an emulated sensor. `EmulatedSensor` provides the link and the
/// time.
///
/// A characteristic UUID may occur only once in `services`.
public protocol SensorModel: Sendable {
  var name: String { get set }
  var address: DeviceAddress { get set }
  var services: [GATTServiceDescription] { get }
  var advertisingData: [UInt8] { get }
  var scanResponse: [UInt8] { get }

  /// Called before a write is stored. Returns an error code to refuse it.
  func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode?
  /// Called after a write was stored.
  ///
  /// - Returns: Values that the sensor sends in response.
  mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue]
  mutating func measure(_ tick: SensorTick) -> [SensorValue]
  /// Returns a truncated value, which is shorter than its flags announce.
  func malformed(_ value: SensorValue) -> [UInt8]
  /// Called when a central has connected. Must discard the state of the previous link.
  mutating func connected()
  /// Called when the ticks and the sensor's clock start.
  mutating func begin(_ body: BodyTime)
}

extension SensorModel {
  public var scanResponse: [UInt8] { [] }
  public func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode? { nil }
  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] { [] }
  public func malformed(_ value: SensorValue) -> [UInt8] { Array(value.octets.prefix(1)) }
  public mutating func connected() {}
  public mutating func begin(_ body: BodyTime) {}

  /// Returns the advertising data: flags (general discoverable, no BR/EDR), 16-bit services, complete local
  /// name. Core Supplement 11, Part A, 1.
  func advertisement(of services: [UInt16]) -> [UInt8] {
    let list = services.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    return [2, 0x01, 0x06, UInt8(list.count + 1), 0x03] + list + [UInt8(name.utf8.count + 1), 0x09]
      + name.utf8
  }
}

extension [GATTServiceDescription] {
  /// Returns the Device Information and Battery services, which most sensors have.
  static func sensorServices(model: String, batteryPercent: UInt8) -> [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    func text(_ uuid: BluetoothUUID, _ text: String) -> Characteristic {
      Characteristic(uuid, .read, value: [UInt8](text.utf8))
    }
    return [
      GATTServiceDescription(
        .deviceInformation,
        characteristics: [
          text(.manufacturerName, "ringtap"), text(.modelNumber, model), text(.serialNumber, "0001"),
          text(.hardwareRevision, "1.0"), text(.firmwareRevision, "2.0.1"), text(.softwareRevision, "3.0"),
        ]),
      GATTServiceDescription(
        .battery, characteristics: [Characteristic(.batteryLevel, [.read, .notify], value: [batteryPercent])]),
    ]
  }
}

/// Returns a value that rises and falls linearly. The result is the same on every machine.
///
/// - Parameters:
///   - range: from the lower bound at 0 to the upper bound at half a period, and back.
///   - period: in seconds.
func triangle(_ range: ClosedRange<Double>, period: Double, at seconds: Double) -> Double {
  let phase = (seconds / period).truncatingRemainder(dividingBy: 1)
  let share = phase < 0.5 ? 2 * phase : 2 - 2 * phase
  return range.lowerBound + (range.upperBound - range.lowerBound) * share
}
