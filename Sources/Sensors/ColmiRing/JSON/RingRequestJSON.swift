import BLEWire
import JSONText

/// JSON keys of host data. These are a stable interface.
extension FieldList {
  mutating func members(of sent: RingSentFrame) {
    switch sent {
    case .request(let request): members(of: request)
    case .dangerous(.powerOff): kind("powerOff")
    case .dangerous(.reboot): kind("reboot")
    case .dangerous(.factoryReset): kind("factoryReset")
    case .setting(let setting, let command):
      kind(setting.name + "SettingsWrite")
      member(payloadOf: command)
    case .unknown(let command): members(ofUnknown: command)
    }
  }

  mutating func members(ofUnknown command: RingCommand) {
    kind("unknown", "frame")
    member("command", command.octet(0), words: command.octet(0).digits)
    member(payloadOf: command)
  }

  /// Adds the whole payload of a frame whose layout is unknown.
  mutating func member(payloadOf command: RingCommand) {
    member("payload", hex: (1..<15).map { command.octet($0) })
  }

  private mutating func members(of request: RingRequest) {
    kind(request.kind, request.title)
    switch request {
    case .setTime(let time, let language): members(of: time, language)
    case .phoneName(let name):
      member("clientMajor", name.clientMajor)
      member("clientMinor", name.clientMinor)
      member("name", name.name)
    case .writePreferences(let preferences): members(of: preferences)
    case .heartRateLog(let timestamp):
      member("timestamp", timestamp)
      member("wallClock", "\(CivilTime(timestamp).text) (local clock read as UTC)")
    case .writeHeartRateLogSettings(let settings): members(of: settings)
    case .writeAutomaticMeasurement(let measurement): member("enabled", measurement.isEnabled)
    case .stressLog(let daysAgo), .heartRateVariabilityLog(let daysAgo), .activityLog(let daysAgo),
      .unnamedLog(let daysAgo):
      member("daysAgo", daysAgo)
    case .readTouch(let argument): member("argument", argument)
    case .writeTouch(let appType, let strength):
      member("appType", appType)
      member("strength", strength)
    case .measure(let measurement, let action):
      member("type", measurement.rawValue)
      member("action", action.rawValue)
    case .stopMeasuring(let measurement, let value):
      member("type", measurement.rawValue)
      member("lastValue", value)
    case .sport(let action, let sport):
      member("action", action.rawValue)
      member("type", sport.rawValue)
    case .rawStream(.start): member("variant", "A1 04", .hidden)
    case .rawStream(.startLong): member("variant", "A1 04 04")
    case .rawStream, .camera, .battery, .readSetting, .deleteSetting, .readPreferences, .blinkTwice,
      .readHeartRateLogSettings, .realtimeHeartRate, .goals, .readAutomaticMeasurement, .deviceSupport,
      .todayTotals, .findDevice, .messageFilter:
      break
    }
  }

  private mutating func members(of time: RingDateTime, _ language: RingLanguage) {
    member("year", time.date.year)
    member("month", time.date.month)
    member("day", time.date.day)
    member("hour", time.hour)
    member("minute", time.minute)
    member("second", time.second)
    member("language", language.rawValue)
  }

  mutating func members(of preferences: RingPreferences) {
    member("is12h", preferences.uses12HourClock ? 1 : 0)
    member("imperial", preferences.usesImperialUnits ? 1 : 0)
    member("gender", preferences.gender.rawValue)
    member("age", preferences.ageYears)
    member("heightCm", preferences.heightCentimeters)
    member("weightKg", preferences.weightKilograms)
    member("systolic", preferences.systolicPressure)
    member("diastolic", preferences.diastolicPressure)
    member("hrAlarm", preferences.heartRateAlarm)
  }

  mutating func members(of settings: RingHeartRateLogSettings) {
    member("enabled", settings.isEnabled)
    member("intervalMinutes", settings.intervalMinutes)
    if settings.startIntervalMinutes != 0 { member("startInterval", settings.startIntervalMinutes) }
    if settings.lowAlarm != 0 { member("lowAlarm", settings.lowAlarm) }
    if settings.highAlarm != 0 { member("highAlarm", settings.highAlarm) }
    if settings.alarmSwitch != 0 { member("alarmSwitch", settings.alarmSwitch) }
  }

  mutating func members(ofSent message: RingBigData) {
    switch RingFirmwareRequest(message) {
    case .start:
      kind("dfuStart")
      member("crc16", message.checksum.upperCaseText)
    case .initialise(let image):
      kind("dfuInit")
      member("initType", image.type)
      member("length", image.byteCount)
      member("fileCrc16", image.checksum.upperCaseText)
      member("fileSum16", image.sum.upperCaseText)
    case nil:
      kind("bigDataRequest")
      member("dataId", message.id)
      member("payload", hex: message.payload)
      // The checksum of an empty payload is constant, so it is omitted.
      if !message.payload.isEmpty { member("crc16", message.checksum.upperCaseText) }
    }
  }

  /// Adds the kind: an identifier for programs, and a title for display.
  mutating func kind(_ kind: String, _ title: String? = nil) {
    member("kind", kind, .none, words: title ?? Field.words(of: kind))
  }
}

extension RingRequest {
  fileprivate var kind: String {
    switch self {
    case .setTime: "setTime"
    case .camera(.enter): "cameraModeEnter"
    case .camera(.keepAlive): "cameraModeKeepAlive"
    case .camera(.leave): "cameraModeExit"
    case .battery: "batteryRequest"
    case .phoneName: "phoneName"
    case .readSetting(let setting): setting.name + "SettingsRead"
    case .deleteSetting(let setting): setting.name + "SettingsDelete"
    case .readPreferences: "userPreferencesRead"
    case .writePreferences: "userPreferencesWrite"
    case .blinkTwice: "blinkTwice"
    case .heartRateLog: "heartRateLogRequest"
    case .readHeartRateLogSettings: "hrLogSettingsRead"
    case .writeHeartRateLogSettings: "hrLogSettingsWrite"
    case .realtimeHeartRate: "realtimeHeartRate"
    case .goals: "goalsRead"
    case .readAutomaticMeasurement(let sensor): sensor.name + "SettingsRead"
    case .writeAutomaticMeasurement(let measurement): measurement.sensor.name + "SettingsWrite"
    case .stressLog: "stressLogRequest"
    case .heartRateVariabilityLog: "hrvLogRequest"
    case .readTouch: "touchSettingsRead"
    case .writeTouch: "touchSettingsWrite"
    case .deviceSupport: "deviceSupportRequest"
    case .activityLog: "activityRequest"
    case .todayTotals: "todayTotalsRequest"
    case .findDevice: "findDevice"
    case .messageFilter: "messageFilterRead"
    case .measure: "realtimeStart"
    case .stopMeasuring: "realtimeStop"
    case .sport: "sport"
    case .unnamedLog: "unnamedLogRequest"
    case .rawStream(let control): control.kind
    }
  }
}

extension RingRequest {
  /// Title for display; `nil` if the words of `kind` are sufficient.
  fileprivate var title: String? {
    switch self {
    case .rawStream(.start), .rawStream(.startLong): "start the raw stream"
    case .rawStream(.stop): "stop the raw stream"
    case .battery, .heartRateLog, .stressLog, .heartRateVariabilityLog, .deviceSupport, .activityLog,
      .todayTotals, .unnamedLog:
      Field.words(of: String(kind.dropLast("Request".count)))
    default: nil
    }
  }
}

extension RingRawControl {
  fileprivate var kind: String {
    switch self {
    case .optical: "rawOptical"
    case .stop: "rawStop"
    case .snapshot: "rawSnapshot"
    case .start, .startLong: "rawStart"
    }
  }
}

extension RingAutomaticSensor {
  /// First word of `kind`.
  var name: String {
    switch self {
    case .spO2: "spo2"
    case .stress: "stress"
    case .heartRateVariability: "hrv"
    case .temperature: "temperature"
    }
  }
}

extension RingSetting {
  /// First word of `kind`.
  var name: String {
    switch self {
    case .display: "display"
    case .doNotDisturb: "doNotDisturb"
    case .bloodPressureSchedule: "bloodPressureSchedule"
    case .units: "units"
    case .menstruation: "menstruation"
    }
  }
}

extension UInt8 {
  /// Hexadecimal with prefix: `0x0a`.
  var digits: String { "0x" + hexadecimal(self) }
}

extension UInt16 {
  /// Hexadecimal as used for checksums: `0x6F99`.
  var upperCaseText: String {
    let digits = String(self, radix: 16, uppercase: true)
    return "0x" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}

/// Formats seconds since 1970 as a date and a time of day.
struct CivilTime {
  /// The formatted time: `2025-12-11T22:54:17`.
  let text: String

  init(_ timestamp: UInt32) {
    let date = CivilDate(daysSince1970: Int(timestamp / 86_400))
    let seconds = Int(timestamp % 86_400)
    let day = Self.text(date.year, date.month, date.day)
    let time = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(Self.twoDigits)
    text = day + "T" + time.joined(separator: ":")
  }

  static func text(_ year: Int, _ month: Int, _ day: Int) -> String {
    "\(year)-\(twoDigits(month))-\(twoDigits(day))"
  }

  private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
