public import BLEStack
public import BLEWire

/// One value that a sensor pushes.
public struct SensorValue: Hashable, Sendable {
  public var characteristic: BluetoothUUID
  public var push: ServerPush
  public var octets: [UInt8]

  public init(_ characteristic: BluetoothUUID, _ push: ServerPush, _ octets: [UInt8]) {
    self.characteristic = characteristic
    self.push = push
    self.octets = octets
  }

  /// A notification.
  public init(_ characteristic: BluetoothUUID, _ octets: [UInt8]) {
    self.init(characteristic, .notification, octets)
  }
}

/// One step of an emulated sensor's measuring, which begins with the first subscription of a link.
public struct SensorTick: Hashable, Sendable {
  /// From 0.
  public var number: Int
  /// Since the first subscription, by the sensor's clock.
  public var seconds: Double
  /// Octets of a value that the MTU has room for.
  public var valueByteCount: Int
  /// Whether it is to measure nobody.
  public var isOffBody: Bool
}

/// What an emulated sensor is, measures and answers; `EmulatedSensor` gives it a link and the time.
///
/// A characteristic UUID may stand only once in the table.
public protocol SensorModel: Sendable {
  var name: String { get set }
  var address: DeviceAddress { get set }
  var services: [GATTServiceDescription] { get }
  var advertisingData: [UInt8] { get }
  var scanResponse: [UInt8] { get }

  /// Asked before a write is stored: an error code refuses it.
  func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode?
  /// - Returns: what it says to it.
  mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue]
  mutating func measure(_ tick: SensorTick) -> [SensorValue]
  /// The same value with less in it than its first octet promises.
  func malformed(_ value: SensorValue) -> [UInt8]
  /// A central came: nothing of the one before is left.
  mutating func connected()
  /// The ticks begin, and with them the sensor's clock.
  mutating func begin(_ body: BodyTime)
}

extension SensorModel {
  public var scanResponse: [UInt8] { [] }
  public func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode? { nil }
  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] { [] }
  public func malformed(_ value: SensorValue) -> [UInt8] { Array(value.octets.prefix(1)) }
  public mutating func connected() {}
  public mutating func begin(_ body: BodyTime) {}

  /// Flags (general discoverable, no BR/EDR), 16-bit services, complete local name. Core Supplement 11, Part A, 1.
  func advertisement(of services: [UInt16]) -> [UInt8] {
    let list = services.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    return [2, 0x01, 0x06, UInt8(list.count + 1), 0x03] + list + [UInt8(name.utf8.count + 1), 0x09]
      + name.utf8
  }
}

extension [GATTServiceDescription] {
  /// Device Information and Battery, as most sensors have them.
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

/// A number that rises and falls in straight lines: the same on every machine.
///
/// - Parameters:
///   - range: from its least at 0 to its most at half a period, and back.
///   - period: in seconds.
func triangle(_ range: ClosedRange<Double>, period: Double, at seconds: Double) -> Double {
  let phase = (seconds / period).truncatingRemainder(dividingBy: 1)
  let share = phase < 0.5 ? 2 * phase : 2 - 2 * phase
  return range.lowerBound + (range.upperBound - range.lowerBound) * share
}
