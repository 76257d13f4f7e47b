public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Revolution counts of a wheel and a crank, each with the time of the last revolution.
///
/// Cycling Speed and Cadence Service 1.0, 3.1; CSC Measurement (0x2A5B).
public struct CyclingSpeed: CharacteristicValue, BitwiseCopyable {
  /// Cumulative number of wheel revolutions, and the time of the last revolution.
  public struct Wheel: Hashable, Sendable, BitwiseCopyable {
    public let revolutions: UInt32
    /// Time of the last revolution in 1/1024 s; wraps every 64 s.
    public let lastEventTicks: UInt16

    public init(revolutions: UInt32, lastEventTicks: UInt16) {
      (self.revolutions, self.lastEventTicks) = (revolutions, lastEventTicks)
    }
  }

  public struct Crank: Hashable, Sendable, BitwiseCopyable {
    /// Cumulative number of revolutions; wraps.
    public let revolutions: UInt16
    /// Time of the last revolution in 1/1024 s; wraps every 64 s.
    public let lastEventTicks: UInt16

    public init(revolutions: UInt16, lastEventTicks: UInt16) {
      (self.revolutions, self.lastEventTicks) = (revolutions, lastEventTicks)
    }
  }

  /// Change between two measurements. If neither revolutions nor time changed, the measurement is a
  /// repetition; it does not mean that the bicycle stopped.
  ///
  /// If the sensor restarted or the wheel rolled back, the counts imply a rate that is not possible for a
  /// wheel or crank. `isPossible` is then `false`, and there is no rate.
  public struct Change: Hashable, Sendable, BitwiseCopyable {
    public let revolutions: UInt32
    /// Change of the time, in 1/1024 s.
    public let ticks: UInt16
    /// Maximum possible revolutions per minute.
    let limit: Double

    /// Revolutions per minute; `nil` if no time has passed or the change is not possible.
    public var perMinute: Double? { ticks == 0 || !isPossible ? nil : rate }
    public var isPossible: Bool { ticks == 0 || rate <= limit }
    private var rate: Double { Double(revolutions) * 1024 * 60 / Double(ticks) }
  }

  /// Maximum revolutions per minute of a wheel, for 190 km/h and a circumference of 2.1 m.
  public static let fastestWheel = 1_500.0
  /// Maximum revolutions per minute of a crank; track sprinters reach 270.
  public static let fastestCrank = 300.0

  /// Received flags. Bit 0: wheel; bit 1: crank.
  public let flags: UInt8
  public let wheel: Wheel?
  public let crank: Crank?
  public let trailingByteCount: Int

  public init(wheel: Wheel?, crank: Crank?) {
    flags = (wheel == nil ? 0 : 1) | (crank == nil ? 0 : 2)
    (self.wheel, self.crank, trailingByteCount) = (wheel, crank, 0)
  }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .cyclingSpeed)
    flags = try reader.u8()
    wheel = flags & 1 != 0 ? Wheel(revolutions: try reader.u32(), lastEventTicks: try reader.u16()) : nil
    crank = flags & 2 != 0 ? Crank(revolutions: try reader.u16(), lastEventTicks: try reader.u16()) : nil
    trailingByteCount = reader.left
  }

  /// Returns the change of the crank since an earlier measurement, across wraps of the counters; `nil` if a
  /// measurement lacks the crank.
  public func crankChange(since earlier: CyclingSpeed) -> Change? {
    guard let crank, let before = earlier.crank else { return nil }
    return Change(
      revolutions: UInt32(crank.revolutions &- before.revolutions),
      ticks: crank.lastEventTicks &- before.lastEventTicks, limit: Self.fastestCrank)
  }

  /// Returns the change of the wheel since an earlier measurement, across wraps of the counters; `nil` if a
  /// measurement lacks the wheel.
  public func wheelChange(since earlier: CyclingSpeed) -> Change? {
    guard let wheel, let before = earlier.wheel else { return nil }
    return Change(
      revolutions: wheel.revolutions &- before.revolutions,
      ticks: wheel.lastEventTicks &- before.lastEventTicks, limit: Self.fastestWheel)
  }

  public var encodedByteCount: Int { 1 + (wheel == nil ? 0 : 6) + (crank == nil ? 0 : 4) }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags)
    if let wheel {
      output.append(u32: wheel.revolutions)
      output.append(u16: wheel.lastEventTicks)
    }
    if let crank {
      output.append(u16: crank.revolutions)
      output.append(u16: crank.lastEventTicks)
    }
  }
}

/// Features of a cycling sensor. CSC Feature (0x2A5C); bit 0: wheel; bit 1: crank; bit 2: several sensor
/// locations.
public struct CyclingSpeedFeatures: CharacteristicValue, OptionSet, BitwiseCopyable {
  public let rawValue: UInt16
  public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let wheel = CyclingSpeedFeatures(rawValue: 1 << 0)
  public static let crank = CyclingSpeedFeatures(rawValue: 1 << 1)
  public static let severalLocations = CyclingSpeedFeatures(rawValue: 1 << 2)

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .cyclingSpeed)
    rawValue = try reader.u16()
  }

  public var encodedByteCount: Int { 2 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(u16: rawValue) }
}

#if !hasFeature(Embedded)
  extension CyclingSpeed: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("cumulativeWheelRevolutions", wheel?.revolutions)
      fields.member("lastWheelEventTime1024ths", wheel?.lastEventTicks)
      fields.member("cumulativeCrankRevolutions", crank?.revolutions)
      fields.member("lastCrankEventTime1024ths", crank?.lastEventTicks)
      fields.members(trailing: trailingByteCount)
    }
  }

  extension CyclingSpeed {
    /// Adds the change since an earlier measurement.
    package func describe(since before: CyclingSpeed, into fields: inout FieldList) {
      if let change = crankChange(since: before) {
        fields.member("deltaCrankRevolutions", change.revolutions)
        fields.member("deltaTime1024ths", change.ticks)
        fields.member("cadenceRevolutionsPerMinute", change.perMinute)
        if !change.isPossible { fields.member("crankRestart", true) }
      }
      if let change = wheelChange(since: before) {
        fields.member("deltaWheelRevolutions", change.revolutions)
        fields.member(crank == nil ? "deltaTime1024ths" : "deltaWheelTime1024ths", change.ticks)
        fields.member("wheelRevolutionsPerMinute", change.perMinute)
        if !change.isPossible { fields.member("wheelRestart", true) }
      }
    }
  }

  extension CyclingSpeedFeatures: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("wheelRevolutionsSupported", contains(.wheel))
      fields.member("crankRevolutionsSupported", contains(.crank))
      fields.member("multipleSensorLocationsSupported", contains(.severalLocations))
    }
  }
#endif
