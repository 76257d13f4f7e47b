/// A harmless request to a ring: one frame of the command channel.
///
/// `command` is the frame. Requests that switch the ring off or erase it are in `RingDangerousRequest`, so
/// that they cannot be sent by mistake. Sections refer to the protocol's reference: section 3, by opcode.
public enum RingRequest: Hashable, Sendable {
  /// 0x01. Answered by the packet size, then by `RingTimeReply`.
  case setTime(RingDateTime, language: RingLanguage)
  /// 0x02.
  case camera(RingCameraAction)
  /// 0x03.
  case battery
  /// 0x04.
  case phoneName(RingPhoneName)
  case readSetting(RingSetting)
  case deleteSetting(RingSetting)
  /// 0x0A.
  case readPreferences
  case writePreferences(RingPreferences)
  /// 0x10: the LED blinks twice.
  case blinkTwice
  /// 0x15. The timestamp selects a day by the ring's clock, read as UTC; see `RingDate.timestamp`.
  case heartRateLog(timestamp: UInt32)
  /// 0x16.
  case readHeartRateLogSettings
  case writeHeartRateLogSettings(RingHeartRateLogSettings)
  /// 0x1E, on old firmware: starts a measurement, or keeps it alive.
  case realtimeHeartRate
  /// 0x21.
  case goals
  /// 0x2C, 0x36, 0x38, 0x3A.
  case readAutomaticMeasurement(RingAutomaticSensor)
  case writeAutomaticMeasurement(RingAutomaticMeasurement)
  /// 0x37.
  case stressLog(daysAgo: UInt8)
  /// 0x39.
  case heartRateVariabilityLog(daysAgo: UInt8)
  /// 0x3B. The argument's meaning is not published; 0 and 1 have been seen.
  case readTouch(UInt8)
  case writeTouch(appType: UInt8, strength: UInt8)
  /// 0x3C.
  case deviceSupport
  /// 0x43.
  case activityLog(daysAgo: UInt8)
  /// 0x48.
  case todayTotals
  /// 0x50: lights a green LED for ten seconds.
  case findDevice
  /// 0x61: selects which of the host's messages the ring shows.
  case messageFilter
  /// 0x69.
  case measure(RingMeasurement, RingMeasurementAction)
  /// 0x6A. The vendor's app sends the last value that it displayed.
  case stopMeasuring(RingMeasurement, lastValue: UInt8)
  /// 0x77.
  case sport(RingSportAction, RingSport)
  /// 0x7A, of unknown meaning; the reply has the form of a log.
  case unnamedLog(daysAgo: UInt8)
  /// 0xA1, section 5.
  case rawStream(RingRawControl)

  /// The frame to write.
  public var command: RingCommand {
    switch self {
    case .setTime(let time, let language): Self.command(setting: time, language)
    case .camera(let action): RingCommand(RingOpcode.camera, action.rawValue)
    case .battery: .battery
    case .phoneName(let name): Self.command(naming: name)
    case .readSetting(let setting): setting.command(.read)
    case .deleteSetting(let setting): setting.command(.delete)
    case .readPreferences: RingCommand(RingOpcode.preferences, 1)
    case .writePreferences(let preferences): Self.command(writing: preferences)
    case .blinkTwice: RingCommand(RingOpcode.blinkTwice)
    case .heartRateLog(let timestamp):
      RingCommand(
        RingOpcode.heartRateLog, octets: (0..<4).map { UInt8(truncatingIfNeeded: timestamp >> (8 * $0)) })
    case .readHeartRateLogSettings: RingCommand(RingOpcode.heartRateLogSettings, 1)
    case .writeHeartRateLogSettings(let settings): Self.command(writing: settings)
    case .realtimeHeartRate: RingCommand(RingOpcode.realtimeHeartRate, 3)
    case .goals: RingCommand(RingOpcode.goals, 1)
    case .readAutomaticMeasurement(let sensor): sensor.command([1])
    case .writeAutomaticMeasurement(let measurement):
      measurement.sensor.command([2, measurement.isEnabled ? 1 : 0])
    case .stressLog(let daysAgo): RingCommand(RingOpcode.stressLog, daysAgo)
    case .heartRateVariabilityLog(let daysAgo): RingCommand(RingOpcode.heartRateVariabilityLog, daysAgo)
    case .readTouch(let argument): RingCommand(RingOpcode.touch, 1, argument)
    case .writeTouch(let appType, let strength):
      RingCommand(RingOpcode.touch, octets: [2, 1, appType, strength])
    case .deviceSupport: RingCommand(RingOpcode.deviceSupport)
    case .activityLog(let daysAgo):
      // The last slot of a day is 95; the meaning of the other bytes is unknown.
      RingCommand(RingOpcode.activityLog, octets: [daysAgo, 0x0F, 0x00, 0x5F, 0x01])
    case .todayTotals: RingCommand(RingOpcode.todayTotals)
    case .findDevice: RingCommand(RingOpcode.findDevice, 0x55, 0xAA)
    case .messageFilter: RingCommand(RingOpcode.messageFilter)
    case .measure(let measurement, let action):
      RingCommand(RingOpcode.measure, measurement.rawValue, action.rawValue)
    case .stopMeasuring(let measurement, let value):
      RingCommand(RingOpcode.stopMeasuring, measurement.rawValue, value)
    case .sport(let action, let sport): RingCommand(RingOpcode.sport, action.rawValue, sport.rawValue)
    case .unnamedLog(let daysAgo): RingCommand(RingOpcode.unnamedLog, 1, daysAgo)
    case .rawStream(let control): control.command
    }
  }

  /// Encodes the time as binary-coded decimals, with the year since 2000.
  private static func command(setting time: RingDateTime, _ language: RingLanguage) -> RingCommand {
    let decimals = [
      UInt8(time.date.year - 2000), time.date.month, time.date.day, time.hour, time.minute, time.second,
    ]
    return RingCommand(
      RingOpcode.setTime, octets: decimals.map { UInt8(binaryCodedDecimal: $0) } + [language.rawValue])
  }

  private static func command(naming name: RingPhoneName) -> RingCommand {
    RingCommand(RingOpcode.phoneName, octets: [name.clientMajor, name.clientMinor] + Array(name.name.utf8))
  }

  private static func command(writing preferences: RingPreferences) -> RingCommand {
    RingCommand(
      RingOpcode.preferences,
      octets: [
        2, preferences.uses12HourClock ? 1 : 0, preferences.usesImperialUnits ? 1 : 0,
        preferences.gender.rawValue, preferences.ageYears, preferences.heightCentimeters,
        preferences.weightKilograms, preferences.systolicPressure, preferences.diastolicPressure,
        preferences.heartRateAlarm,
      ])
  }

  private static func command(writing settings: RingHeartRateLogSettings) -> RingCommand {
    RingCommand(
      RingOpcode.heartRateLogSettings,
      octets: [
        2, settings.isEnabled ? 1 : 2, settings.intervalMinutes, settings.startIntervalMinutes,
        settings.lowAlarm, settings.highAlarm, settings.alarmSwitch,
      ])
  }
}

/// Requests that the host cannot undo, or that need a charger to recover. Ask the user first.
public enum RingDangerousRequest: Hashable, Sendable, BitwiseCopyable, CaseIterable {
  /// `08 01`: the ring is off until it is charged. Some programs call it reboot. The ring sends no reply.
  case powerOff
  /// `08 00`, according to one source. The ring sends no reply.
  case reboot
  /// `FF 66 66`: erases logs and settings.
  case factoryReset

  public var command: RingCommand {
    switch self {
    case .powerOff: RingCommand(RingOpcode.power, 1)
    case .reboot: RingCommand(RingOpcode.power, 0)
    case .factoryReset: RingCommand(RingOpcode.factoryReset, 0x66, 0x66)
    }
  }
}

/// Camera mode, in which the ring reports a gesture to release the shutter. Section 3, 0x02.
public enum RingCameraAction: UInt8, Hashable, Sendable, BitwiseCopyable {
  case enter = 4
  /// Keeps the mode alive and polls for a gesture.
  case keepAlive = 5
  case leave = 6
}

/// Control of the raw stream. Section 5.1.
public enum RingRawControl: Hashable, Sendable, BitwiseCopyable, CaseIterable {
  /// Switches the optical sensor on, according to one disassembly.
  case optical
  case stop
  /// Requests one frame of each subtype. The optical values do not change.
  case snapshot
  /// `A1 04`.
  case start
  /// `A1 04 04`, which has no known difference from `start`.
  case startLong

  var command: RingCommand {
    switch self {
    case .optical: RingCommand(RingCommand.rawStreamOpcode, 1)
    case .stop: .rawStop
    case .snapshot: RingCommand(RingCommand.rawStreamOpcode, 3)
    case .start: .rawStart
    case .startLong: RingCommand(RingCommand.rawStreamOpcode, 4, 4)
    }
  }
}

/// Byte 0 of a frame. Section 3.
package enum RingOpcode {
  package static let setTime: UInt8 = 0x01
  package static let camera: UInt8 = 0x02
  package static let battery = RingCommand.batteryOpcode
  package static let phoneName: UInt8 = 0x04
  package static let power: UInt8 = 0x08
  package static let preferences: UInt8 = 0x0A
  package static let blinkTwice: UInt8 = 0x10
  package static let heartRateLog: UInt8 = 0x15
  package static let heartRateLogSettings: UInt8 = 0x16
  package static let realtimeHeartRate: UInt8 = 0x1E
  package static let goals: UInt8 = 0x21
  package static let packetSize: UInt8 = 0x2F
  package static let stressLog: UInt8 = 0x37
  package static let heartRateVariabilityLog: UInt8 = 0x39
  package static let touch: UInt8 = 0x3B
  package static let deviceSupport: UInt8 = 0x3C
  package static let activityLog: UInt8 = 0x43
  package static let todayTotals: UInt8 = 0x48
  package static let findDevice: UInt8 = 0x50
  package static let messageFilter: UInt8 = 0x61
  package static let measure: UInt8 = 0x69
  package static let stopMeasuring: UInt8 = 0x6A
  package static let notification: UInt8 = 0x73
  package static let sport: UInt8 = 0x77
  package static let sportSample: UInt8 = 0x78
  package static let unnamedLog: UInt8 = 0x7A
  package static let rawStream = RingCommand.rawStreamOpcode
  package static let factoryReset: UInt8 = 0xFF
}

extension RingSetting {
  /// Frames of the display setting have a 3 before the action.
  fileprivate func command(_ action: RingSettingAction) -> RingCommand {
    self == .display ? RingCommand(rawValue, 3, action.rawValue) : RingCommand(rawValue, action.rawValue)
  }
}

extension RingAutomaticSensor {
  fileprivate func command(_ octets: [UInt8]) -> RingCommand {
    RingCommand(rawValue, octets: self == .temperature ? [3] + octets : octets)
  }
}

extension RingCommand {
  init(_ opcode: UInt8, octets: [UInt8]) { self.init(opcode, payload: octets.span) }

  /// Copies a borrowed frame.
  public init(copying frame: borrowing RingFrame) { self.init(frame.opcode, payload: frame.payload) }
}
