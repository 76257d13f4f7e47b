/// Error for a value that a ring's frame cannot represent.
public enum RingValueError: Error, Hashable, Sendable, BitwiseCopyable {
  /// The date does not exist, or is outside 2000 to 2099.
  case dateOutOfRange
  case timeOutOfRange
  /// The name is not ASCII, or is longer than 12 bytes.
  case phoneName
}

extension RingValueError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .dateOutOfRange: "the date does not exist, or is outside the years 2000 to 2099"
    case .timeOutOfRange: "the time of day does not exist"
    case .phoneName: "the phone's name is not ASCII, or is longer than 12 bytes"
    }
  }
}

/// Language of a ring's display. Most rings have no display. Section 3, 0x01.
public struct RingLanguage: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let chinese = RingLanguage(rawValue: 0)
  public static let english = RingLanguage(rawValue: 1)
}

/// Name of the host and version of its program. Ring protocol, section 3, 0x04.
public struct RingPhoneName: Hashable, Sendable {
  public static let maximumByteCount = 12

  public let clientMajor: UInt8
  public let clientMinor: UInt8
  /// ASCII, at most 12 bytes.
  public let name: String

  /// Creates a name.
  ///
  /// - Parameters: the default version is that of the vendor's app, the only one observed.
  /// - Throws: `phoneName`.
  public init(clientMajor: UInt8 = 2, clientMinor: UInt8 = 10, name: String) throws(RingValueError) {
    guard name.utf8.count <= Self.maximumByteCount, name.utf8.allSatisfy({ 0x20...0x7E ~= $0 }) else {
      throw .phoneName
    }
    self.clientMajor = clientMajor
    self.clientMinor = clientMinor
    self.name = name
  }
}

/// Properties of the wearer. Ring protocol, section 3, 0x0A; one byte each.
public struct RingPreferences: Hashable, Sendable, BitwiseCopyable {
  /// Values as in Gadgetbridge. Another program uses 0 for female and 1 for male; no capture shows which
  /// program is right.
  public struct Gender: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let male = Gender(rawValue: 0)
    public static let female = Gender(rawValue: 1)
    public static let other = Gender(rawValue: 2)
  }

  public var uses12HourClock: Bool
  public var usesImperialUnits: Bool
  public var gender: Gender
  public var ageYears: UInt8
  public var heightCentimeters: UInt8
  public var weightKilograms: UInt8
  /// Reference blood pressure for estimates, in mmHg.
  public var systolicPressure: UInt8
  /// Reference blood pressure for estimates, in mmHg.
  public var diastolicPressure: UInt8
  /// Alarm threshold in beats per minute; 0 switches the alarm off.
  public var heartRateAlarm: UInt8

  public init(
    uses12HourClock: Bool = false, usesImperialUnits: Bool = false, gender: Gender = .other,
    ageYears: UInt8, heightCentimeters: UInt8, weightKilograms: UInt8, systolicPressure: UInt8 = 120,
    diastolicPressure: UInt8 = 90, heartRateAlarm: UInt8 = 0
  ) {
    self.uses12HourClock = uses12HourClock
    self.usesImperialUnits = usesImperialUnits
    self.gender = gender
    self.ageYears = ageYears
    self.heightCentimeters = heightCentimeters
    self.weightKilograms = weightKilograms
    self.systolicPressure = systolicPressure
    self.diastolicPressure = diastolicPressure
    self.heartRateAlarm = heartRateAlarm
  }
}

/// Settings of the automatic heart-rate measurement. Ring protocol, section 3, 0x16; one byte each.
///
/// Some firmware versions reset the settings at midnight, so write them after each connection.
public struct RingHeartRateLogSettings: Hashable, Sendable, BitwiseCopyable {
  public var isEnabled: Bool
  /// Measurement interval in minutes. The vendor's app permits multiples of 5 up to 60.
  public var intervalMinutes: UInt8
  /// Meaning unknown; 5 on one ring, 0 if absent.
  public var startIntervalMinutes: UInt8 = 0
  /// Threshold of the low alarm in beats per minute; 0 if absent.
  public var lowAlarm: UInt8 = 0
  /// Threshold of the high alarm in beats per minute; 0 if absent.
  public var highAlarm: UInt8 = 0
  /// Alarm on/off byte, not interpreted; 0 if absent.
  public var alarmSwitch: UInt8 = 0

  public init(isEnabled: Bool, intervalMinutes: UInt8) {
    self.isEnabled = isEnabled
    self.intervalMinutes = intervalMinutes
  }
}

/// Sensors that a ring can measure automatically at intervals. Each can be switched on and off. Ring
/// protocol, section 3.
public enum RingAutomaticSensor: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
  case spO2 = 0x2C
  case stress = 0x36
  case heartRateVariability = 0x38
  /// Frames of this sensor have a byte 3 before the action.
  case temperature = 0x3A
}

/// On/off setting of an automatic measurement.
public struct RingAutomaticMeasurement: Hashable, Sendable, BitwiseCopyable {
  public let sensor: RingAutomaticSensor
  public let isEnabled: Bool

  public init(_ sensor: RingAutomaticSensor, isEnabled: Bool) {
    self.sensor = sensor
    self.isEnabled = isEnabled
  }
}

/// Settings whose record layouts are not published. They can be read and deleted, but their replies are not
/// decoded. Ring protocol, section 3.
public enum RingSetting: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
  case display = 0x05
  case doNotDisturb = 0x06
  case bloodPressureSchedule = 0x0C
  case units = 0x19
  case menstruation = 0x2B
}

/// Action of a setting: byte 1 of its frames.
public enum RingSettingAction: UInt8, Hashable, Sendable, BitwiseCopyable {
  case read = 1
  case write = 2
  case delete = 3
}

/// Kind of measurement on demand. Ring protocol, section 3, 0x69.
public struct RingMeasurement: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The result is in beats per minute.
  public static let heartRate = RingMeasurement(rawValue: 1)
  /// Not supported by the hardware of any known ring.
  public static let bloodPressure = RingMeasurement(rawValue: 2)
  /// The result is in percent.
  public static let spO2 = RingMeasurement(rawValue: 3)
  public static let fatigue = RingMeasurement(rawValue: 4)
  public static let healthCheck = RingMeasurement(rawValue: 5)
  public static let realtimeHeartRate = RingMeasurement(rawValue: 6)
  /// Not supported by the hardware of any known ring.
  public static let electrocardiogram = RingMeasurement(rawValue: 7)
  /// The result is 0 to 100.
  public static let stress = RingMeasurement(rawValue: 8)
  /// Not supported by the hardware of any known ring.
  public static let bloodSugar = RingMeasurement(rawValue: 9)
  /// The result is in milliseconds.
  public static let heartRateVariability = RingMeasurement(rawValue: 10)
}

/// Action of a measurement on demand. Ring protocol, section 3, 0x69.
///
/// To start a measurement, the vendor's app sends `start0` for the heart rate and `start25` for other kinds;
/// `start` also works.
public struct RingMeasurementAction: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let start0 = RingMeasurementAction(rawValue: 0)
  public static let start = RingMeasurementAction(rawValue: 1)
  public static let pause = RingMeasurementAction(rawValue: 2)
  /// Keeps a measurement alive. Otherwise, it ends after a minute.
  public static let resume = RingMeasurementAction(rawValue: 3)
  public static let stop = RingMeasurementAction(rawValue: 4)
  public static let start25 = RingMeasurementAction(rawValue: 0x25)
}

/// Action of a workout. Ring protocol, section 3, 0x77.
public enum RingSportAction: UInt8, Hashable, Sendable, BitwiseCopyable {
  case start = 1
  case pause = 2
  case resume = 3
  case end = 4
}

/// Kind of workout. Ring protocol, section 3, 0x77.
public struct RingSport: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let walk = RingSport(rawValue: 4)
  public static let run = RingSport(rawValue: 7)
  public static let hike = RingSport(rawValue: 8)
  public static let cycle = RingSport(rawValue: 9)
  public static let other = RingSport(rawValue: 10)
}
