public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Remaining charge of a battery.
///
/// Battery Service 1.1, 3.1; Battery Level (0x2A19).
public struct BatteryLevel: CharacteristicValue, BitwiseCopyable {
  /// Charge in percent, 0 … 100.
  public let percent: UInt8

  /// Creates a value.
  ///
  /// - Parameter percent: 0 … 100.
  public init(percent: UInt8) {
    precondition(percent <= 100, "a battery is at most full")
    self.percent = percent
  }

  /// Decodes a value.
  ///
  /// - Throws: `truncated`; `invalidValue` for a value above 100, which is reserved.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .battery)
    let percent = try reader.u8()
    guard percent <= 100 else { throw WireError(.battery, offset: 0, .invalidValue(UInt32(percent))) }
    self.percent = percent
  }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(percent) }
}

/// Four two-bit codes for the state of a battery. They come from early drafts of the service, but some
/// devices still have them.
///
/// Battery Power State (0x2A1A).
public struct BatteryPowerState: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .battery)
    rawValue = try reader.u8()
  }

  /// 0 unknown, 1 not supported, 2 not present, 3 present.
  public var present: UInt8 { rawValue & 3 }
  /// 0 unknown, 1 not supported, 2 not discharging, 3 discharging.
  public var discharging: UInt8 { rawValue >> 2 & 3 }
  /// 0 unknown, 1 not chargeable, 2 not charging, 3 charging.
  public var charging: UInt8 { rawValue >> 4 & 3 }
  /// 0 unknown, 1 not supported, 2 good, 3 critically low.
  public var level: UInt8 { rawValue >> 6 }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(rawValue) }
}

/// Power supply and charging of a battery.
///
/// Battery Service 1.1, 3.2; Battery Level Status (0x2BED).
public struct BatteryLevelStatus: CharacteristicValue, BitwiseCopyable {
  /// The 16-bit Power State field.
  public struct PowerState: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt16
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    public var isBatteryPresent: Bool { rawValue & 1 != 0 }
    /// 0 no, 1 yes, 2 unknown, 3 reserved.
    public var wiredExternalPower: UInt8 { bits(1, 2) }
    /// 0 no, 1 yes, 2 unknown, 3 reserved.
    public var wirelessExternalPower: UInt8 { bits(3, 2) }
    /// 0 unknown, 1 charging, 2 discharging (active), 3 discharging (inactive).
    public var chargeState: UInt8 { bits(5, 2) }
    /// 0 unknown, 1 good, 2 low, 3 critical.
    public var chargeLevel: UInt8 { bits(7, 2) }
    /// 0 unknown or not charging, 1 constant current, 2 constant voltage, 3 trickle, 4 float.
    public var chargingType: UInt8 { bits(9, 3) }
    /// Bit 0 battery, bit 1 external power source, bit 2 other.
    public var chargingFaults: UInt8 { bits(12, 3) }

    private func bits(_ first: UInt16, _ count: UInt16) -> UInt8 {
      UInt8(truncatingIfNeeded: rawValue >> first & (1 << count - 1))
    }
  }

  /// Received flags, including reserved bits. Bit 0: identifier; bit 1: level; bit 2: additional status.
  public let flags: UInt8
  public let powerState: PowerState
  /// Identifier of the battery, if there are several.
  public let identifier: UInt16?
  /// Charge in percent. Values above 100 are reserved but kept, because the other fields are valid.
  public let level: UInt8?
  /// Bits 0 and 1: service required (0 no, 1 yes, 2 unknown); bit 2: the battery is faulty.
  public let additionalStatus: UInt8?
  public let trailingByteCount: Int

  public init(
    powerState: PowerState, identifier: UInt16? = nil, level: UInt8? = nil, additionalStatus: UInt8? = nil
  ) {
    flags = (identifier == nil ? 0 : 1) | (level == nil ? 0 : 2) | (additionalStatus == nil ? 0 : 4)
    self.powerState = powerState
    self.identifier = identifier
    self.level = level
    self.additionalStatus = additionalStatus
    trailingByteCount = 0
  }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .battery)
    flags = try reader.u8()
    powerState = PowerState(rawValue: try reader.u16())
    identifier = flags & 1 != 0 ? try reader.u16() : nil
    level = flags & 2 != 0 ? try reader.u8() : nil
    additionalStatus = flags & 4 != 0 ? try reader.u8() : nil
    trailingByteCount = reader.left
  }

  public var encodedByteCount: Int {
    3 + (identifier == nil ? 0 : 2) + (level == nil ? 0 : 1) + (additionalStatus == nil ? 0 : 1)
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags)
    output.append(u16: powerState.rawValue)
    if let identifier { output.append(u16: identifier) }
    if let level { output.append(level) }
    if let additionalStatus { output.append(additionalStatus) }
  }
}

#if !hasFeature(Embedded)
  extension BatteryLevel: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("batteryLevelPercent", percent, .words("battery"))
    }
  }

  extension BatteryPowerState: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("present", name(present, in: ["unknown", "notSupported", "notPresent", "present"]))
      fields.member(
        "discharging", name(discharging, in: ["unknown", "notSupported", "notDischarging", "discharging"]))
      fields.member("charging", name(charging, in: ["unknown", "notChargeable", "notCharging", "charging"]))
      fields.member("level", name(level, in: ["unknown", "notSupported", "good", "criticallyLow"]))
    }
  }

  extension BatteryLevelStatus: SensorValueFields {
    private static let externalPower = ["no", "yes", "unknown"]
    private static let chargeStates = ["unknown", "charging", "dischargingActive", "dischargingInactive"]
    private static let chargeLevels = ["unknown", "good", "low", "critical"]

    package func describe(into fields: inout FieldList) {
      fields.member("batteryPresent", (powerState.isBatteryPresent ? "present" : "notPresent"))
      fields.member("wiredExternalPower", name(powerState.wiredExternalPower, in: Self.externalPower))
      fields.member("wirelessExternalPower", name(powerState.wirelessExternalPower, in: Self.externalPower))
      fields.member("chargeState", name(powerState.chargeState, in: Self.chargeStates))
      fields.member("chargeLevel", name(powerState.chargeLevel, in: Self.chargeLevels))
      fields.member("chargingTypeCode", powerState.chargingType)
      fields.member("chargingFaultBits", powerState.chargingFaults)
      if let identifier { fields.member("identifier", identifier) }
      if let level { fields.member("batteryLevelPercent", level) }
      if let additionalStatus {
        fields.member("serviceRequired", name(additionalStatus & 3, in: ["no", "yes", "unknown"]))
        fields.member("batteryFault", additionalStatus & 4 != 0)
      }
      fields.members(trailing: trailingByteCount)
    }
  }
#endif
