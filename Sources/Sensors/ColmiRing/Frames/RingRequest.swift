public import BLEWire

/// Harmless request to a ring, sent as one frame of the command channel (`command`).
///
/// Requests that switch the ring off or erase it are in `RingDangerousRequest`, so that they cannot be sent
/// by mistake.
public enum RingRequest: Hashable, Sendable {
  /// Opcode 0x01. The ring replies with the packet size, then with `RingTimeReply`.
  case setTime(RingDateTime, language: RingLanguage)
  /// Opcode 0x02.
  case camera(RingCameraAction)
  /// Opcode 0x03.
  case battery
  /// Opcode 0x04.
  case phoneName(RingPhoneName)
  case readSetting(RingSetting)
  case deleteSetting(RingSetting)
  /// Opcode 0x0A.
  case readPreferences
  case writePreferences(RingPreferences)
  /// Opcode 0x10: the LED blinks twice.
  case blinkTwice
  /// Opcode 0x15. The timestamp selects a day on the ring's clock; see `RingDate.timestamp`.
  case heartRateLog(timestamp: UInt32)
  /// Opcode 0x16.
  case readHeartRateLogSettings
  case writeHeartRateLogSettings(RingHeartRateLogSettings)
  /// Opcode 0x1E, on old firmware: starts a measurement, or keeps it alive.
  case realtimeHeartRate
  /// Opcode 0x21.
  case goals
  /// Opcodes 0x2C, 0x36, 0x38, 0x3A.
  case readAutomaticMeasurement(RingAutomaticSensor)
  case writeAutomaticMeasurement(RingAutomaticMeasurement)
  /// Opcode 0x37.
  case stressLog(daysAgo: UInt8)
  /// Opcode 0x39.
  case heartRateVariabilityLog(daysAgo: UInt8)
  /// Opcode 0x3B. The meaning of the argument is not published; 0 and 1 have been observed.
  case readTouch(UInt8)
  case writeTouch(appType: UInt8, strength: UInt8)
  /// Opcode 0x3C.
  case deviceSupport
  /// Opcode 0x43.
  case activityLog(daysAgo: UInt8)
  /// Opcode 0x48.
  case todayTotals
  /// Opcode 0x50: lights a green LED for ten seconds.
  case findDevice
  /// Opcode 0x61: selects the kinds of the host's messages that the ring shows.
  case messageFilter
  /// Opcode 0x69.
  case measure(RingMeasurement, RingMeasurementAction)
  /// Opcode 0x6A. The vendor's app sends the last value that it displayed.
  case stopMeasuring(RingMeasurement, lastValue: UInt8)
  /// Opcode 0x77.
  case sport(RingSportAction, RingSport)
  /// Opcode 0x7A. The meaning is unknown; the reply has the form of a log.
  case unnamedLog(daysAgo: UInt8)
  /// Opcode 0xA1, section 5.
  case rawStream(RingRawControl)

  /// Frame to send.
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
      // The last slot of a day is 95. The meaning of the other bytes is unknown.
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

  /// Returns the frame that sets the time. All fields are binary-coded decimals; the year counts from 2000.
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

/// Requests with effects that the host cannot undo, or after which the ring needs a charger. Ask the user
/// before sending them.
public enum RingDangerousRequest: Hashable, Sendable, BitwiseCopyable, CaseIterable {
  /// `08 01`: switches the ring off until it is charged. Some programs call this reboot. The ring sends no
  /// reply.
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

/// Camera mode, in which the ring reports a gesture to release the shutter. Ring protocol, section 3, 0x02.
public enum RingCameraAction: UInt8, Hashable, Sendable, BitwiseCopyable {
  case enter = 4
  /// Keeps the mode alive and polls for a gesture.
  case keepAlive = 5
  case leave = 6
}

/// Control of the raw stream. Ring protocol, section 5.1.
public enum RingRawControl: Hashable, Sendable, BitwiseCopyable, CaseIterable {
  /// Switches the optical sensor on, according to one disassembly.
  case optical
  case stop
  /// Requests one frame of each subtype. The optical values do not change between snapshots.
  case snapshot
  /// Starts the stream with `A1 04`.
  case start
  /// Starts the stream with `A1 04 04`, which has no known difference from `start`.
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

/// Opcodes: byte 0 of a frame. Ring protocol, section 3.
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
  /// Frames of the display setting have a byte 3 before the action.
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

// MARK: - Reading frames that a host sent

/// Frame sent by a host, decoded for emulated rings and for reading logs.
public enum RingSentFrame: Hashable, Sendable {
  case request(RingRequest)
  case dangerous(RingDangerousRequest)
  /// Writes a setting whose record layout is not published.
  case setting(RingSetting, RingCommand)
  /// Unknown command, or an unknown form of a known command.
  case unknown(RingCommand)

  /// Decodes a frame.
  ///
  /// - Throws: `invalidValue` at the byte that is invalid for a known command.
  public init(decoding frame: borrowing RingFrame) throws(WireError) {
    let bytes = frame.bytes
    if let request = Self.dangerous(bytes) {
      self = .dangerous(request)
    } else if let request = try Self.request(bytes) {
      self = .request(request)
    } else if let setting = RingSetting(rawValue: bytes[0]), setting.action(bytes) == .write {
      self = .setting(setting, RingCommand(copying: frame))
    } else {
      self = .unknown(RingCommand(copying: frame))
    }
  }

  private static func dangerous(_ bytes: Span<UInt8>) -> RingDangerousRequest? {
    switch (bytes[0], bytes[1], bytes[2]) {
    case (RingOpcode.power, 0, _): .reboot
    case (RingOpcode.power, 1, _): .powerOff
    case (RingOpcode.factoryReset, 0x66, 0x66): .factoryReset
    default: nil
    }
  }

  private static func request(_ bytes: Span<UInt8>) throws(WireError) -> RingRequest? {
    if let setting = RingSetting(rawValue: bytes[0]) { return self.setting(setting, bytes) }
    if let sensor = RingAutomaticSensor(rawValue: bytes[0]) { return automatic(sensor, bytes) }
    switch bytes[0] {
    case RingOpcode.setTime: return try time(bytes)
    case RingOpcode.camera: return RingCameraAction(rawValue: bytes[1]).map { .camera($0) }
    case RingOpcode.phoneName: return try name(bytes)
    case RingOpcode.preferences: return preferences(bytes)
    case RingOpcode.heartRateLog: return .heartRateLog(timestamp: bytes.u32(at: 1))
    case RingOpcode.heartRateLogSettings: return heartRateLogSettings(bytes)
    case RingOpcode.stressLog: return .stressLog(daysAgo: bytes[1])
    case RingOpcode.heartRateVariabilityLog: return .heartRateVariabilityLog(daysAgo: bytes[1])
    case RingOpcode.touch:
      switch bytes[1] {
      case 1: return .readTouch(bytes[2])
      case 2: return .writeTouch(appType: bytes[3], strength: bytes[4])
      default: return nil
      }
    case RingOpcode.activityLog: return .activityLog(daysAgo: bytes[1])
    case RingOpcode.findDevice: return .findDevice
    case RingOpcode.measure:
      return .measure(RingMeasurement(rawValue: bytes[1]), RingMeasurementAction(rawValue: bytes[2]))
    case RingOpcode.stopMeasuring:
      return .stopMeasuring(RingMeasurement(rawValue: bytes[1]), lastValue: bytes[2])
    case RingOpcode.sport:
      return RingSportAction(rawValue: bytes[1]).map { .sport($0, RingSport(rawValue: bytes[2])) }
    case RingOpcode.unnamedLog: return .unnamedLog(daysAgo: bytes[2])
    case RingOpcode.rawStream: return rawControl(bytes).map { .rawStream($0) }
    default: return bare(bytes[0])
    }
  }

  /// Returns the request with this opcode and no arguments; `nil` if no request matches.
  private static func bare(_ opcode: UInt8) -> RingRequest? {
    switch opcode {
    case RingOpcode.battery: .battery
    case RingOpcode.blinkTwice: .blinkTwice
    case RingOpcode.realtimeHeartRate: .realtimeHeartRate
    case RingOpcode.goals: .goals
    case RingOpcode.deviceSupport: .deviceSupport
    case RingOpcode.messageFilter: .messageFilter
    case RingOpcode.todayTotals: .todayTotals
    default: nil
    }
  }

  private static func time(_ bytes: Span<UInt8>) throws(WireError) -> RingRequest {
    guard case .valid(let date) = RingLogDate(year: bytes[1], month: bytes[2], day: bytes[3]) else {
      throw WireError(.ring, offset: 1, .invalidValue(bytes.u24(at: 1)))
    }
    guard let hour = bytes[4].binaryCodedDecimal, let minute = bytes[5].binaryCodedDecimal,
      let second = bytes[6].binaryCodedDecimal,
      let time = try? RingDateTime(date: date, hour: hour, minute: minute, second: second)
    else { throw WireError(.ring, offset: 4, .invalidValue(bytes.u24(at: 4))) }
    return .setTime(time, language: RingLanguage(rawValue: bytes[7]))
  }

  private static func name(_ bytes: Span<UInt8>) throws(WireError) -> RingRequest {
    var octets: [UInt8] = []
    for index in 3..<15 where bytes[index] != 0 { octets.append(bytes[index]) }
    let text = String(decoding: octets, as: UTF8.self)
    guard let name = try? RingPhoneName(clientMajor: bytes[1], clientMinor: bytes[2], name: text) else {
      throw WireError(.ring, offset: 3, .invalidValue(UInt32(bytes[3])))
    }
    return .phoneName(name)
  }

  private static func setting(_ setting: RingSetting, _ bytes: Span<UInt8>) -> RingRequest? {
    switch setting.action(bytes) {
    case .read: .readSetting(setting)
    case .delete: .deleteSetting(setting)
    case .write, nil: nil
    }
  }

  private static func automatic(_ sensor: RingAutomaticSensor, _ bytes: Span<UInt8>) -> RingRequest? {
    let offset = sensor == .temperature ? 2 : 1
    switch bytes[offset] {
    case 1: return .readAutomaticMeasurement(sensor)
    case 2:
      return .writeAutomaticMeasurement(RingAutomaticMeasurement(sensor, isEnabled: bytes[offset + 1] == 1))
    default: return nil
    }
  }

  private static func preferences(_ bytes: Span<UInt8>) -> RingRequest? {
    switch bytes[1] {
    case 1: .readPreferences
    case 2: .writePreferences(RingPreferences(bytes))
    default: nil
    }
  }

  private static func heartRateLogSettings(_ bytes: Span<UInt8>) -> RingRequest? {
    switch bytes[1] {
    case 1: .readHeartRateLogSettings
    case 2: .writeHeartRateLogSettings(RingHeartRateLogSettings(bytes))
    default: nil
    }
  }

  private static func rawControl(_ bytes: Span<UInt8>) -> RingRawControl? {
    switch (bytes[1], bytes[2]) {
    case (1, _): .optical
    case (2, _): .stop
    case (3, _): .snapshot
    case (4, 4): .startLong
    case (4, _): .start
    default: nil
    }
  }
}

extension RingSetting {
  /// Frames of the display setting have a byte 3 before the action. The vendor's app omits the action when it
  /// reads the setting.
  fileprivate func action(_ bytes: Span<UInt8>) -> RingSettingAction? {
    guard self == .display else { return RingSettingAction(rawValue: bytes[1]) }
    guard bytes[1] == 3 else { return nil }
    return bytes[2] == 0 ? .read : RingSettingAction(rawValue: bytes[2])
  }
}

extension RingPreferences {
  /// Decodes preferences. The layout is the same in both directions.
  init(_ bytes: Span<UInt8>) {
    self.init(
      uses12HourClock: bytes[2] != 0, usesImperialUnits: bytes[3] != 0, gender: Gender(rawValue: bytes[4]),
      ageYears: bytes[5], heightCentimeters: bytes[6], weightKilograms: bytes[7], systolicPressure: bytes[8],
      diastolicPressure: bytes[9], heartRateAlarm: bytes[10])
  }
}

extension RingHeartRateLogSettings {
  /// Decodes settings. The layout is the same in both directions.
  init(_ bytes: Span<UInt8>) {
    self.init(isEnabled: bytes[2] == 1, intervalMinutes: bytes[3])
    startIntervalMinutes = bytes[4]
    lowAlarm = bytes[5]
    highAlarm = bytes[6]
    alarmSwitch = bytes[7]
  }
}
