public import BLEWire

/// Revolutions of a wheel and a crank, each with the time of the last one.
///
/// Cycling Speed and Cadence Service 1.0, 3.1; CSC Measurement (0x2A5B).
public struct CyclingSpeed: CharacteristicValue, BitwiseCopyable {
  /// Revolutions since some time, and when the last one ended.
  public struct Wheel: Hashable, Sendable, BitwiseCopyable {
    public let revolutions: UInt32
    /// In 1/1024 s; wraps every 64 s.
    public let lastEventTicks: UInt16

    public init(revolutions: UInt32, lastEventTicks: UInt16) {
      (self.revolutions, self.lastEventTicks) = (revolutions, lastEventTicks)
    }
  }

  public struct Crank: Hashable, Sendable, BitwiseCopyable {
    /// Wraps.
    public let revolutions: UInt16
    /// In 1/1024 s; wraps every 64 s.
    public let lastEventTicks: UInt16

    public init(revolutions: UInt16, lastEventTicks: UInt16) {
      (self.revolutions, self.lastEventTicks) = (revolutions, lastEventTicks)
    }
  }

  /// What happened between two measurements. Without a revolution and without time it is a repetition, not a stop.
  ///
  /// Counts of a sensor that began anew, or of a wheel that rolled back, give a change that no wheel and no crank can make:
  /// `isPossible` is `false`, and there is no rate.
  public struct Change: Hashable, Sendable, BitwiseCopyable {
    public let revolutions: UInt32
    /// In 1/1024 s.
    public let ticks: UInt16
    /// Revolutions a minute that it can do.
    let limit: Double

    /// Revolutions a minute; `nil` without time, and of a change that is not possible.
    public var perMinute: Double? { ticks == 0 || !isPossible ? nil : rate }
    public var isPossible: Bool { ticks == 0 || rate <= limit }
    private var rate: Double { Double(revolutions) * 1024 * 60 / Double(ticks) }
  }

  /// Revolutions a minute that a wheel can do: 190 km/h on one of 2.1 m.
  public static let fastestWheel = 1_500.0
  /// Revolutions a minute that a crank can do: sprinters on a track reach 270.
  public static let fastestCrank = 300.0

  /// As sent. Bit 0 wheel, bit 1 crank.
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

  /// Of the crank, since `earlier`; counters wrap.
  public func crankChange(since earlier: CyclingSpeed) -> Change? {
    guard let crank, let before = earlier.crank else { return nil }
    return Change(
      revolutions: UInt32(crank.revolutions &- before.revolutions),
      ticks: crank.lastEventTicks &- before.lastEventTicks, limit: Self.fastestCrank)
  }

  /// Of the wheel, since `earlier`; counters wrap.
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

/// What a cyclist's sensor can do. CSC Feature (0x2A5C): bit 0 wheel, 1 crank, 2 several sensor locations.
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
