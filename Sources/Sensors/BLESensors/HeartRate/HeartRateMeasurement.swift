public import BLEWire

/// One notification of a heart-rate sensor: rate, skin contact, energy, and the intervals between beats.
///
/// Heart Rate Service 1.0, 3.1; GATT Specification Supplement, Heart Rate Measurement (0x2A37). A rate of 0
/// is normal until the device has detected the pulse; it is not a heart rate.
public struct HeartRateMeasurement: CharacteristicValue, BitwiseCopyable {
  public struct Flags: OptionSet, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let rateIs16Bit = Flags(rawValue: 1 << 0)
    /// Valid only together with `contactSupported`.
    public static let contactDetected = Flags(rawValue: 1 << 1)
    public static let contactSupported = Flags(rawValue: 1 << 2)
    public static let hasEnergyExpended = Flags(rawValue: 1 << 3)
    public static let hasRRIntervals = Flags(rawValue: 1 << 4)
  }

  public enum SensorContact: Hashable, Sendable, BitwiseCopyable {
    /// The sensor cannot detect contact, or does not do so on this connection.
    case notSupported
    case notDetected
    case detected
  }

  /// Flags as sent, including reserved bits.
  public let flags: Flags
  /// Beats per minute.
  public let beatsPerMinute: UInt16
  /// Energy in kilojoules since the last reset, at most 65,535. Most sensors send it with every tenth
  /// measurement, so `nil` does not mean 0.
  public let energyExpendedKilojoules: UInt16?
  /// The intervals; empty if none were sent, which is possible even if the flag is set.
  public let rrIntervals: RRIntervals
  /// Number of bytes after the last field; 1 means half an interval.
  public let trailingByteCount: Int

  /// - Parameters:
  ///   - beatsPerMinute: sent as one byte if it fits, else as two.
  ///   - contact: whether the sensor touches the skin, if it can detect that.
  ///   - energyExpendedKilojoules: energy since the last reset; `nil` if not counted.
  ///   - rrIntervals: `nil` for a sensor that does not send them.
  public init(
    beatsPerMinute: UInt16, contact: SensorContact = .notSupported, energyExpendedKilojoules: UInt16? = nil,
    rrIntervals: RRIntervals? = nil
  ) {
    var flags: Flags = beatsPerMinute > 255 ? .rateIs16Bit : []
    switch contact {
    case .notSupported: break
    case .notDetected: flags.insert(.contactSupported)
    case .detected: flags.formUnion([.contactSupported, .contactDetected])
    }
    if energyExpendedKilojoules != nil { flags.insert(.hasEnergyExpended) }
    if rrIntervals != nil { flags.insert(.hasRRIntervals) }
    self.flags = flags
    self.beatsPerMinute = beatsPerMinute
    self.energyExpendedKilojoules = energyExpendedKilojoules
    self.rrIntervals = rrIntervals ?? RRIntervals()
    trailingByteCount = 0
  }

  /// - Throws: `truncated` if a field whose flag is set does not fit. Intervals may be absent.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .heartRate)
    flags = Flags(rawValue: try reader.u8())
    beatsPerMinute = flags.contains(.rateIs16Bit) ? try reader.u16() : UInt16(try reader.u8())
    energyExpendedKilojoules = flags.contains(.hasEnergyExpended) ? try reader.u16() : nil
    var rrIntervals = RRIntervals()
    if flags.contains(.hasRRIntervals) {
      while reader.left >= 2, rrIntervals.count < RRIntervals.capacity {
        rrIntervals.append(try reader.u16())
      }
    }
    self.rrIntervals = rrIntervals
    trailingByteCount = reader.left
  }

  /// Decodes the start of a truncated value, as in a log whose writer truncated the record: the rate, and as
  /// much of energy and intervals as is present.
  ///
  /// - Returns: `nil` if the rate is incomplete.
  public init?(cut value: Span<UInt8>) {
    var reader = FieldReader(value, .heartRate)
    guard let flags = (try? reader.u8()).map(Flags.init),
      let rate = flags.contains(.rateIs16Bit) ? try? reader.u16() : (try? reader.u8()).map({ UInt16($0) })
    else { return nil }
    (self.flags, beatsPerMinute) = (flags, rate)
    energyExpendedKilojoules = flags.contains(.hasEnergyExpended) ? try? reader.u16() : nil
    var rrIntervals = RRIntervals()
    if flags.contains(.hasRRIntervals), !flags.contains(.hasEnergyExpended) || energyExpendedKilojoules != nil
    {
      while rrIntervals.count < RRIntervals.capacity, let interval = try? reader.u16() {
        rrIntervals.append(interval)
      }
    }
    self.rrIntervals = rrIntervals
    trailingByteCount = reader.left
  }

  public var contact: SensorContact {
    guard flags.contains(.contactSupported) else { return .notSupported }
    return flags.contains(.contactDetected) ? .detected : .notDetected
  }

  public var encodedByteCount: Int {
    (flags.contains(.rateIs16Bit) ? 3 : 2) + (flags.contains(.hasEnergyExpended) ? 2 : 0) + 2
      * rrIntervals.count
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags.rawValue)
    if flags.contains(.rateIs16Bit) {
      output.append(u16: beatsPerMinute)
    } else {
      output.append(UInt8(truncatingIfNeeded: beatsPerMinute))
    }
    if let energyExpendedKilojoules { output.append(u16: energyExpendedKilojoules) }
    for index in rrIntervals.indices { output.append(u16: rrIntervals[index]) }
  }
}
