/// A value that a ring's frame cannot carry.
public enum RingValueError: Error, Hashable, Sendable, BitwiseCopyable {
  /// Not a day of the calendar, or not within 2000 … 2099.
  case dateOutOfRange
  case timeOutOfRange
  /// Not ASCII, or longer than the 12 octets that there are.
  case phoneName
}

/// Language of a ring's display; most rings have none. Section 3, 0x01.
public struct RingLanguage: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let chinese = RingLanguage(rawValue: 0)
  public static let english = RingLanguage(rawValue: 1)
}

/// The name of the host, with the version of the program on it. Section 3, 0x04.
public struct RingPhoneName: Hashable, Sendable {
  public static let maximumByteCount = 12

  public let clientMajor: UInt8
  public let clientMinor: UInt8
  /// ASCII, at most 12 octets.
  public let name: String

  /// - Parameters: the version is the maker's app's unless given: the ring was never seen with another.
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

/// About whom the ring is worn by. Section 3, 0x0A; one octet each.
public struct RingPreferences: Hashable, Sendable, BitwiseCopyable {
  /// By Gadgetbridge. Another program has female 0 and male 1; no capture decides.
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
  /// Reference for estimates, in mmHg.
  public var systolicPressure: UInt8
  /// Reference for estimates, in mmHg.
  public var diastolicPressure: UInt8
  /// In beats per minute; 0 is off.
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

/// Whether and how often the ring measures the heart rate by itself. Section 3, 0x16; one octet each.
///
/// Some firmware forgets it at midnight: write it again after connecting.
public struct RingHeartRateLogSettings: Hashable, Sendable, BitwiseCopyable {
  public var isEnabled: Bool
  /// Multiples of 5 up to 60 are the maker's range.
  public var intervalMinutes: UInt8
  /// 5 on one ring; what it means is not known. 0 where absent.
  public var startIntervalMinutes: UInt8 = 0
  /// In beats per minute; 0 where absent.
  public var lowAlarm: UInt8 = 0
  /// In beats per minute; 0 where absent.
  public var highAlarm: UInt8 = 0
  /// As sent; 0 where absent.
  public var alarmSwitch: UInt8 = 0

  public init(isEnabled: Bool, intervalMinutes: UInt8) {
    self.isEnabled = isEnabled
    self.intervalMinutes = intervalMinutes
  }
}

/// What the ring can measure by itself at intervals of its own; each has a switch. Section 3.
public enum RingAutomaticSensor: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
  case spO2 = 0x2C
  case stress = 0x36
  case heartRateVariability = 0x38
  /// Its frames have a 3 before the action.
  case temperature = 0x3A
}

/// The switch of such a measurement.
public struct RingAutomaticMeasurement: Hashable, Sendable, BitwiseCopyable {
  public let sensor: RingAutomaticSensor
  public let isEnabled: Bool

  public init(_ sensor: RingAutomaticSensor, isEnabled: Bool) {
    self.sensor = sensor
    self.isEnabled = isEnabled
  }
}

/// Settings whose records are not published: they can be read and deleted, and their replies stay octets.
/// Section 3.
public enum RingSetting: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
  case display = 0x05
  case doNotDisturb = 0x06
  case bloodPressureSchedule = 0x0C
  case units = 0x19
  case menstruation = 0x2B
}

/// Octet 1 of the frames of settings.
public enum RingSettingAction: UInt8, Hashable, Sendable, BitwiseCopyable {
  case read = 1
  case write = 2
  case delete = 3
}

/// What is measured on demand. Section 3, 0x69.
public struct RingMeasurement: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// In beats per minute.
  public static let heartRate = RingMeasurement(rawValue: 1)
  /// No known ring has hardware for it.
  public static let bloodPressure = RingMeasurement(rawValue: 2)
  /// In per cent.
  public static let spO2 = RingMeasurement(rawValue: 3)
  public static let fatigue = RingMeasurement(rawValue: 4)
  public static let healthCheck = RingMeasurement(rawValue: 5)
  public static let realtimeHeartRate = RingMeasurement(rawValue: 6)
  /// No known ring has hardware for it.
  public static let electrocardiogram = RingMeasurement(rawValue: 7)
  /// 0 … 100.
  public static let stress = RingMeasurement(rawValue: 8)
  /// No known ring has hardware for it.
  public static let bloodSugar = RingMeasurement(rawValue: 9)
  /// In milliseconds.
  public static let heartRateVariability = RingMeasurement(rawValue: 10)
}

/// What to do about a measurement. Section 3, 0x69.
///
/// To start one the maker's app sends `start0` for the heart rate and `start25` for all else; `start` works
/// too.
public struct RingMeasurementAction: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let start0 = RingMeasurementAction(rawValue: 0)
  public static let start = RingMeasurementAction(rawValue: 1)
  public static let pause = RingMeasurementAction(rawValue: 2)
  /// Keeps a measurement alive that would end by itself after a minute.
  public static let resume = RingMeasurementAction(rawValue: 3)
  public static let stop = RingMeasurementAction(rawValue: 4)
  public static let start25 = RingMeasurementAction(rawValue: 0x25)
}

/// What a workout is told. Section 3, 0x77.
public enum RingSportAction: UInt8, Hashable, Sendable, BitwiseCopyable {
  case start = 1
  case pause = 2
  case resume = 3
  case end = 4
}

/// Kind of a workout. Section 3, 0x77.
public struct RingSport: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let walk = RingSport(rawValue: 4)
  public static let run = RingSport(rawValue: 7)
  public static let hike = RingSport(rawValue: 8)
  public static let cycle = RingSport(rawValue: 9)
  public static let other = RingSport(rawValue: 10)
}
