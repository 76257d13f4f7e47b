public import BLEWire

/// A frame sent by a host, for emulated rings and for reading logs.
public enum RingSentFrame: Hashable, Sendable {
  case request(RingRequest)
  case dangerous(RingDangerousRequest)
  /// Writes a setting whose record layout is not published.
  case setting(RingSetting, RingCommand)
  /// An unknown command, or an unknown form of a known one.
  case unknown(RingCommand)

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

  /// Returns the command of an opcode without arguments.
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
  /// Frames of the display setting have a 3 before the action. The vendor's app omits the action in a read.
  fileprivate func action(_ bytes: Span<UInt8>) -> RingSettingAction? {
    guard self == .display else { return RingSettingAction(rawValue: bytes[1]) }
    guard bytes[1] == 3 else { return nil }
    return bytes[2] == 0 ? .read : RingSettingAction(rawValue: bytes[2])
  }
}

extension RingPreferences {
  /// Decodes preferences; the layout is the same in both directions.
  init(_ bytes: Span<UInt8>) {
    self.init(
      uses12HourClock: bytes[2] != 0, usesImperialUnits: bytes[3] != 0, gender: Gender(rawValue: bytes[4]),
      ageYears: bytes[5], heightCentimeters: bytes[6], weightKilograms: bytes[7], systolicPressure: bytes[8],
      diastolicPressure: bytes[9], heartRateAlarm: bytes[10])
  }
}

extension RingHeartRateLogSettings {
  /// Decodes settings; the layout is the same in both directions.
  init(_ bytes: Span<UInt8>) {
    self.init(isEnabled: bytes[2] == 1, intervalMinutes: bytes[3])
    startIntervalMinutes = bytes[4]
    lowAlarm = bytes[5]
    highAlarm = bytes[6]
    alarmSwitch = bytes[7]
  }
}
