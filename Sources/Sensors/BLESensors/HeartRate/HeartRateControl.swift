public import BLEWire

/// Location where the sensor is worn; constant during a connection.
///
/// Heart Rate Service 1.0, 3.2; Body Sensor Location (0x2A38). Other codes are reserved and not errors.
public struct BodySensorLocation: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let other = BodySensorLocation(rawValue: 0)
  public static let chest = BodySensorLocation(rawValue: 1)
  public static let wrist = BodySensorLocation(rawValue: 2)
  public static let finger = BodySensorLocation(rawValue: 3)
  public static let hand = BodySensorLocation(rawValue: 4)
  public static let earLobe = BodySensorLocation(rawValue: 5)
  public static let foot = BodySensorLocation(rawValue: 6)

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .heartRate)
    rawValue = try reader.u8()
  }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(rawValue) }
}

/// A command to a heart-rate sensor.
///
/// Heart Rate Service 1.0, 3.3; Heart Rate Control Point (0x2A39). A sensor rejects every command except the
/// reset with the ATT error `controlPointNotSupported`.
public struct HeartRateCommand: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  /// The application error code for a reserved command.
  public static let controlPointNotSupported: UInt8 = 0x80

  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Sets the energy expended to 0.
  public static let resetEnergyExpended = HeartRateCommand(rawValue: 1)

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .heartRate)
    rawValue = try reader.u8()
  }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(rawValue) }
}
