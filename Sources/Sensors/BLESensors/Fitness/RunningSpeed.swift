public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Speed and cadence of a runner.
///
/// Running Speed and Cadence Service 1.0, 3.1; RSC Measurement (0x2A53).
public struct RunningSpeed: CharacteristicValue, BitwiseCopyable {
  /// Received flags. Bit 0: stride length; bit 1: total distance; bit 2: running instead of walking.
  public let flags: UInt8
  /// Speed in 1/256 m/s.
  public let speed256ths: UInt16
  /// Cadence in steps per minute of one foot. Some sensors count both feet.
  public let cadencePerMinute: UInt8
  public let strideCentimeters: UInt16?
  public let distanceDecimeters: UInt32?
  public let trailingByteCount: Int

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .runningSpeed)
    flags = try reader.u8()
    speed256ths = try reader.u16()
    cadencePerMinute = try reader.u8()
    strideCentimeters = flags & 1 != 0 ? try reader.u16() : nil
    distanceDecimeters = flags & 2 != 0 ? try reader.u32() : nil
    trailingByteCount = reader.left
  }

  public var isRunning: Bool { flags & 4 != 0 }
  public var metersPerSecond: Double { Double(speed256ths) / 256 }
  public var strideMeters: Double? { strideCentimeters.map { Double($0) / 100 } }
  public var distanceMeters: Double? { distanceDecimeters.map { Double($0) / 10 } }

  public var encodedByteCount: Int {
    4 + (strideCentimeters == nil ? 0 : 2) + (distanceDecimeters == nil ? 0 : 4)
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags)
    output.append(u16: speed256ths)
    output.append(cadencePerMinute)
    if let strideCentimeters { output.append(u16: strideCentimeters) }
    if let distanceDecimeters { output.append(u32: distanceDecimeters) }
  }
}

/// Features of a running sensor. RSC Feature (0x2A54); bit 0: stride length; bit 1: total distance; bit 2:
/// walking or running; bit 3: calibration; bit 4: several sensor locations.
public struct RunningSpeedFeatures: CharacteristicValue, OptionSet, BitwiseCopyable {
  public let rawValue: UInt16
  public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let strideLength = RunningSpeedFeatures(rawValue: 1 << 0)
  public static let totalDistance = RunningSpeedFeatures(rawValue: 1 << 1)
  public static let walkingOrRunning = RunningSpeedFeatures(rawValue: 1 << 2)
  public static let calibration = RunningSpeedFeatures(rawValue: 1 << 3)
  public static let severalLocations = RunningSpeedFeatures(rawValue: 1 << 4)

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .runningSpeed)
    rawValue = try reader.u16()
  }

  public var encodedByteCount: Int { 2 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(u16: rawValue) }
}

#if !hasFeature(Embedded)
  extension RunningSpeed: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("speedMetersPerSecond", metersPerSecond)
      fields.member("cadencePerMinute", cadencePerMinute)
      fields.member("strideLengthMeters", strideMeters)
      fields.member("totalDistanceMeters", distanceMeters)
      fields.member("running", isRunning)
      fields.members(trailing: trailingByteCount)
    }
  }

  extension RunningSpeedFeatures: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("strideLengthSupported", contains(.strideLength))
      fields.member("totalDistanceSupported", contains(.totalDistance))
      fields.member("walkingOrRunningSupported", contains(.walkingOrRunning))
      fields.member("calibrationSupported", contains(.calibration))
      fields.member("multipleSensorLocationsSupported", contains(.severalLocations))
    }
  }
#endif
