public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Notification of a heart-rate sensor: rate, skin contact, energy, and the intervals between beats.
///
/// Heart Rate Service 1.0, 3.1; GATT Specification Supplement, Heart Rate Measurement (0x2A37). A rate of 0
/// means that the device has not detected the pulse yet.
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
    /// The sensor cannot detect contact, or does not report it on this connection.
    case notSupported
    case notDetected
    case detected
  }

  /// Received flags, including reserved bits.
  public let flags: Flags
  /// Heart rate in beats per minute.
  public let beatsPerMinute: UInt16
  /// Energy in kilojoules since the last reset, at most 65,535. Most sensors send it with every tenth
  /// measurement, so `nil` does not mean 0.
  public let energyExpendedKilojoules: UInt16?
  /// Intervals between beats. May be empty even if the flag is set.
  public let rrIntervals: RRIntervals
  /// Number of bytes after the last complete field. 1 means half an interval.
  public let trailingByteCount: Int

  /// Creates a measurement.
  ///
  /// - Parameters:
  ///   - beatsPerMinute: heart rate; encoded in one byte if possible, otherwise in two bytes.
  ///   - contact: whether the sensor has skin contact, if it can detect contact.
  ///   - energyExpendedKilojoules: energy since the last reset; `nil` if not counted.
  ///   - rrIntervals: intervals between beats; `nil` for a sensor that does not send intervals.
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

  /// Decodes a measurement.
  ///
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

  /// Decodes a value that was truncated in the log: the rate, and as much of energy and intervals as
  /// possible.
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

/// Intervals between successive heartbeats in one measurement, oldest first, in 1/1024 s.
///
/// Stored inline, so that a measurement can be queued without allocation.
public struct RRIntervals: Sendable, BitwiseCopyable {
  /// Maximum number of intervals. It is limited by the longest attribute value: 512 bytes (Core 5.4, Vol 3,
  /// Part F, 3.2.9) minus the flags and the shortest rate.
  public static let capacity = 255
  public static let ticksPerSecond = 1024.0

  private var storage = InlineArray<255, UInt16>(repeating: 0)
  public private(set) var count = 0

  public init() {}

  /// Creates a list of intervals.
  ///
  /// - Parameter ticks: intervals in 1/1024 s; at most `capacity` intervals.
  public init(_ ticks: some Sequence<UInt16>) {
    for tick in ticks { append(tick) }
  }

  /// Appends an interval in 1/1024 s.
  ///
  /// - Precondition: `count` is less than `capacity`.
  public mutating func append(_ ticks: UInt16) {
    precondition(count < Self.capacity, "too many intervals for one value")
    storage[count] = ticks
    count += 1
  }

  public var indices: Range<Int> { 0..<count }

  /// Interval in 1/1024 s, as received. It can be 0.
  public subscript(index: Int) -> UInt16 {
    precondition(index < count, "no such interval")
    return storage[index]
  }

  public func seconds(_ index: Int) -> Double { Double(self[index]) / Self.ticksPerSecond }
}

extension RRIntervals: Hashable {
  public static func == (a: RRIntervals, b: RRIntervals) -> Bool {
    a.count == b.count && a.indices.allSatisfy { a[$0] == b[$0] }
  }

  public func hash(into hasher: inout Hasher) {
    for index in indices { hasher.combine(self[index]) }
  }
}

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

/// Command to a heart-rate sensor.
///
/// Heart Rate Service 1.0, 3.3; Heart Rate Control Point (0x2A39). The only defined command is the reset; a
/// sensor rejects others with the ATT error `controlPointNotSupported`.
public struct HeartRateCommand: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  /// Application error code for a reserved command.
  public static let controlPointNotSupported: UInt8 = 0x80

  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Command that sets the energy expended to 0.
  public static let resetEnergyExpended = HeartRateCommand(rawValue: 1)

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .heartRate)
    rawValue = try reader.u8()
  }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(rawValue) }
}

/// Heart rate in advertisements of Xiaomi and Amazfit bands and watches. It is present if the owner has
/// enabled sharing and an exercise is in progress.
///
/// The manufacturer has not published the format. theengs/decoder (`Miband_json.h`) and ble_monitor
/// (`amazfit.py`) decode it in the same way. According to theengs, a rate is present only after `57 01 02`.
/// Some watches, such as the Amazfit Bip S, send scrambled bytes of the same length.
public struct BandAdvertisement: Hashable, Sendable, BitwiseCopyable {
  /// Company identifier of Anhui Huami.
  public static let company: UInt16 = 0x0157
  private static let byteCount = 26
  /// Value of the byte after the company identifier that announces a rate.
  private static let rateKind: UInt8 = 2
  private static let rateOffset = 5
  private static let addressOffset = 20

  /// Heart rate in beats per minute; `nil` if it is not shared.
  public let beatsPerMinute: UInt8?

  /// Decodes an advertisement.
  ///
  /// - Parameters:
  ///   - value: manufacturer-specific data, including the company identifier.
  ///   - address: the advertiser's address. It must match the address at the end of the data, which
  ///     identifies the format.
  /// - Throws: `lengthMismatch` unless there are 26 bytes; `invalidValue` for another company, another device
  ///   or another kind.
  public init(decoding value: Span<UInt8>, from address: DeviceAddress) throws(WireError) {
    guard value.count == Self.byteCount else {
      throw WireError(.heartRate, offset: 0, .lengthMismatch(claimed: Self.byteCount, available: value.count))
    }
    guard value.u16(at: 0) == Self.company else {
      throw WireError(.heartRate, offset: 0, .invalidValue(UInt32(value.u16(at: 0))))
    }
    guard value[2] == Self.rateKind else {
      throw WireError(.heartRate, offset: 2, .invalidValue(UInt32(value[2])))
    }
    let own = value.extracting(Self.addressOffset...)
    // Neither source states the byte order of the address, so both orders are accepted.
    guard
      own.indices.allSatisfy({ own[$0] == address.octet($0) })
        || own.indices.allSatisfy({ own[$0] == address.octet(5 - $0) })
    else { throw WireError(.heartRate, offset: Self.addressOffset, .invalidValue(UInt32(own[0]))) }
    let rate = value[Self.rateOffset]
    beatsPerMinute = rate == 0 || rate >= 0xF0 ? nil : rate
  }
}

#if !hasFeature(Embedded)
  extension HeartRateMeasurement: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("heartRateBpm", beatsPerMinute, words: "\(beatsPerMinute) beats/min\(contactWords)")
      fields.member("heartRateIs16Bit", flags.contains(.rateIs16Bit), .hidden)
      fields.member("sensorContact", contactName, .hidden)
      fields.member("energyExpendedKilojoules", energyExpendedKilojoules)
      // Rounded to the nearest millisecond.
      let milliseconds = rrIntervals.indices.map { "\((Int(rrIntervals[$0]) * 1_000 + 512) / 1_024)" }
      fields.member(
        "rrIntervals1024ths", milliseconds.isEmpty ? .hidden : .ofName,
        words: milliseconds.joined(separator: ", ") + " ms"
      ) { fields in
        for index in rrIntervals.indices { fields.value(rrIntervals[index]) }
      }
      fields.members(trailing: trailingByteCount)
    }

    private var contactWords: String {
      switch contact {
      case .notSupported: ""
      case .notDetected: ", no contact"
      case .detected: ", contact"
      }
    }

    private var contactName: String {
      switch contact {
      case .notSupported: "notSupported"
      case .notDetected: "notDetected"
      case .detected: "detected"
      }
    }
  }

  extension BodySensorLocation: SensorValueFields {
    private static let names = ["other", "chest", "wrist", "finger", "hand", "earLobe", "foot"]

    /// The place in words, such as "ear lobe"; `nil` if it is another one, or reserved.
    package var place: String? {
      self == .other || Int(rawValue) >= Self.names.count
        ? nil : Field.words(of: name(rawValue, in: Self.names))
    }

    package func describe(into fields: inout FieldList) {
      let name = name(rawValue, in: Self.names)
      fields.member("bodySensorLocationCode", rawValue, .hidden)
      fields.member(
        "bodySensorLocation", name, .words("location"),
        words: name == "reserved" ? "reserved (\(rawValue))" : Field.words(of: name))
    }
  }

  extension HeartRateCommand: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("command", (self == .resetEnergyExpended ? "resetEnergyExpended" : "reserved"))
      if self != .resetEnergyExpended { fields.member("commandCode", rawValue) }
    }
  }
#endif
