public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Typed characteristic value: the bytes of a read, a write, a notification or an indication.
///
/// A decoded value keeps everything that is needed to encode the same bytes, including reserved bits. Bytes
/// after the last known field, which a peer may send, are counted but not kept.
public protocol CharacteristicValue: Hashable, Sendable {
  /// Decodes a value.
  ///
  /// - Throws: `WireError` with the layer of the service and the offset of the invalid field.
  init(decoding value: Span<UInt8>) throws(WireError)

  var encodedByteCount: Int { get }

  /// Appends exactly `encodedByteCount` bytes.
  func encode(into output: inout OutputSpan<UInt8>)
}

extension CharacteristicValue {
  /// The encoded value as a new array, for control operations and tests.
  public var octets: [UInt8] { [UInt8](encoding: encodedByteCount) { encode(into: &$0) } }
}

/// A characteristic of a service, with the type of its value.
public struct Characteristic<Value: CharacteristicValue>: Hashable, Sendable {
  public let uuid: BluetoothUUID
  public let service: BluetoothUUID

  public init(_ uuid: BluetoothUUID, in service: BluetoothUUID) {
    (self.uuid, self.service) = (uuid, service)
  }
}

/// Bluetooth Assigned Numbers, 3.8, and the services that specify the characteristics.
extension Characteristic where Value == DeviceInformationText {
  public static var manufacturerName: Self { Self(.manufacturerName, in: .deviceInformation) }
  public static var modelNumber: Self { Self(.modelNumber, in: .deviceInformation) }
  public static var serialNumber: Self { Self(.serialNumber, in: .deviceInformation) }
  public static var hardwareRevision: Self { Self(.hardwareRevision, in: .deviceInformation) }
  public static var firmwareRevision: Self { Self(.firmwareRevision, in: .deviceInformation) }
  public static var softwareRevision: Self { Self(.softwareRevision, in: .deviceInformation) }
}

extension Characteristic where Value == BatteryLevel {
  public static var batteryLevel: Self { Self(.batteryLevel, in: .battery) }
}

extension Characteristic where Value == BodySensorLocation {
  public static var bodySensorLocation: Self { Self(.bodySensorLocation, in: .heartRate) }
}

extension Characteristic where Value == SensorLocation {
  /// Mounting location of a cycling sensor.
  public static var sensorLocation: Self { Self(.sensorLocation, in: .cyclingSpeedAndCadence) }
}

extension Characteristic where Value == TemperatureType {
  public static var temperatureType: Self { Self(.temperatureType, in: .healthThermometer) }
}

/// Reads the fields of a value one after the other and checks each against the remaining bytes.
struct FieldReader: ~Escapable {
  let bytes: Span<UInt8>
  let layer: WireError.Layer
  /// Offset of the next field.
  private(set) var offset = 0

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>, _ layer: WireError.Layer) {
    self.bytes = bytes
    self.layer = layer
  }

  /// Number of remaining bytes.
  var left: Int { bytes.count - offset }

  /// Consumes the next field and returns its offset.
  mutating func take(_ byteCount: Int) throws(WireError) -> Int {
    guard left >= byteCount else {
      throw WireError(layer, offset: offset, .truncated(needed: byteCount, available: left))
    }
    offset += byteCount
    return offset - byteCount
  }

  mutating func u8() throws(WireError) -> UInt8 { bytes[try take(1)] }
  mutating func u16() throws(WireError) -> UInt16 { bytes.u16(at: try take(2)) }
  mutating func u24() throws(WireError) -> UInt32 { bytes.u24(at: try take(3)) }
  mutating func u32() throws(WireError) -> UInt32 { bytes.u32(at: try take(4)) }
  mutating func u64() throws(WireError) -> UInt64 { bytes.u64(at: try take(8)) }
  mutating func s16() throws(WireError) -> Int16 { Int16(bitPattern: try u16()) }
}

#if !hasFeature(Embedded)
  /// A characteristic value that describes itself as fields, for JSON and text. The names of the fields include
  /// units.
  package protocol SensorValueFields: CharacteristicValue, FieldSource {}

  extension FieldList {
    /// Adds the number of bytes after the last known field, if there are any.
    mutating func members(trailing byteCount: Int) {
      if byteCount > 0 { member("trailingBytes", byteCount) }
    }
  }

  /// Returns the name of a code, or `reserved`.
  func name(_ code: UInt8, in names: [String]) -> String {
    Int(code) < names.count ? names[Int(code)] : "reserved"
  }
#endif
