import BLEWire
package import JSONText
import Physiology

// MARK: - Requests

/// JSON keys of the data that a host sends. The keys are a stable interface.
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

  /// Adds the complete payload of a frame whose layout is unknown.
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
      // The checksum of an empty payload is constant and is omitted.
      if !message.payload.isEmpty { member("crc16", message.checksum.upperCaseText) }
    }
  }

  /// Adds the kind: an identifier for programs and a title for display.
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
  /// Hexadecimal number with prefix: `0x0a`.
  var digits: String { "0x" + hexadecimal(self) }
}

extension UInt16 {
  /// Checksum in hexadecimal: `0x6F99`.
  fileprivate var upperCaseText: String {
    let digits = String(self, radix: 16, uppercase: true)
    return "0x" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}

/// Formats seconds since 1970 as a date and a time of day.
struct CivilTime {
  /// Formatted time: `2025-12-11T22:54:17`.
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

// MARK: - Replies

/// JSON keys of ring data on the command channel. The keys are a stable interface.
extension FieldList {
  package mutating func members(of reply: RingReply) {
    switch reply {
    case .refused(let opcode, let code):
      kind("error", "refusal")
      member("command", opcode, words: opcode.digits)
      member("code", code, words: code.digits)
    case .noData(let kind):
      self.kind("noData")
      member("command", kind.rawValue, words: kind.rawValue.digits)
    case .time(let reply): members(of: reply)
    case .camera(let event): kind(event.kind)
    case .battery(let battery): members(of: battery, kind: "battery")
    case .phoneNameWritten: kind("phoneNameAck")
    case .preferences(let preferences):
      kind("userPreferences")
      members(of: preferences)
    case .preferencesWritten: kind("userPreferencesWriteAck")
    case .heartRateLogSettings(let settings):
      kind("hrLogSettings")
      members(of: settings)
    case .heartRateLogSettingsWritten(let isEnabled):
      kind("hrLogSettingsWriteAck")
      member("enabled", isEnabled)
    case .automaticMeasurement(let measurement):
      kind(measurement.sensor.name + "Settings")
      member("enabled", measurement.isEnabled)
    case .automaticMeasurementWritten(let measurement):
      kind(measurement.sensor.name + "SettingsWriteAck")
      member("enabled", measurement.isEnabled)
    case .packetSize(let byteCount):
      kind("packetSize")
      member("bytes", byteCount)
    case .deviceSupport(let capabilities):
      kind("deviceSupport")
      member("supportsBlePair", capabilities.contains(.bond))
      member("supportsIntervalTemperature", capabilities.contains(.intervalTemperature))
    case .setting(let setting, let command):
      kind(setting.name + "Settings")
      member(payloadOf: command)
    case .touch(let command):
      kind("touchSettings")
      member(payloadOf: command)
    case .messageFilter(let command):
      kind("messageFilter")
      member(payloadOf: command)
    case .unknown(let command): members(ofUnknown: command)
    case .raw(let sample): members(of: sample)
    case .notification(let notification): members(of: notification)
    case .goals, .todayTotals, .measurement, .measurementStopped, .sport, .sportAcknowledged,
      .realtimeHeartRate, .log:
      members(ofNumbers: reply)
    }
  }

  /// Adds the members of replies that consist of numbers.
  private mutating func members(ofNumbers reply: RingReply) {
    switch reply {
    case .goals(let goals):
      kind("goals")
      member("steps", goals.steps)
      member("caloriesCal", goals.calories)
      member("distanceMeters", goals.distanceMeters)
      member("sportMinutes", goals.sportMinutes)
      member("sleepMinutes", goals.sleepMinutes)
    case .todayTotals(let totals):
      kind("todayTotals")
      member("steps", totals.steps)
      member("runningSteps", totals.runningSteps)
      member("caloriesCal", totals.calories)
      member("distanceMeters", totals.distanceMeters)
      member("durationMinutes", totals.activeMinutes)
    case .measurement(let frame):
      kind("realtime")
      member("type", frame.measurement.rawValue)
      member("error", frame.fault.rawValue)
      member("value", frame.value)
      if frame.pulseIntervalMilliseconds != 0 {
        member(
          "intervalMsInferred", frame.pulseIntervalMilliseconds, .words("pulse interval"), unit: "ms")
      }
    case .measurementStopped(let measurement, let value):
      kind("realtimeStopAck")
      member("type", measurement.rawValue)
      member("lastValue", value)
    case .sport(let sample):
      kind("sportSample")
      member("type", sample.sport.rawValue)
      member("status", sample.status)
      member("seconds", sample.seconds)
      member("value", sample.heartRate)
      member("caloriesRaw", sample.calories)
      member("steps", sample.steps)
      member("distanceMeters", sample.distanceMeters)
    case .sportAcknowledged: kind("sportAck")
    case .realtimeHeartRate(let first, let second):
      kind("realtimeHeartRate")
      member("octets", hex: [first, second])
    case .log(let kind):
      self.kind("logFrames")
      member("command", kind.rawValue, words: kind.rawValue.digits)
    default: break
    }
  }

  private mutating func members(of reply: RingTimeReply) {
    let named: [(String, RingCapabilities)] = [
      ("temperature", .temperature), ("plate", .plate), ("bloodOxygen", .bloodOxygen), ("weather", .weather),
      ("newSleepProtocol", .newSleepProtocol), ("manualHeart", .manualHeartRate),
      ("bloodSugar", .bloodSugar), ("pressure", .stress), ("hrv", .heartRateVariability),
    ]
    kind("setTimeResponse")
    for (name, capability) in named { member(name, reply.capabilities.contains(capability)) }
  }

  private mutating func members(of battery: RingBattery, kind: String) {
    self.kind(kind)
    member("level", battery.percent, unit: "%")
    member("charging", battery.isCharging)
  }

  private mutating func members(of notification: RingNotification) {
    switch notification {
    case .battery(let battery): members(of: battery, kind: "batteryNotification")
    case .activity(let activity):
      kind("liveActivity")
      member("steps", activity.steps)
      member("caloriesCal", activity.calories)
      member("distanceMeters", activity.distanceMeters)
    default:
      kind("notification")
      member("subtype", notification.subtype)
      if case .stressStored(let value) = notification { member("value", value) }
      member("meaning", notification.meaning)
    }
  }
}

extension RingRawSample: FieldSource {
  package func describe(into fields: inout FieldList) {
    switch self {
    case .spO2(let sample):
      fields.kind("raw", "SpO2")
      Self.describe(1, sample.value, sample.max, sample.min, sample.diff, into: &fields)
    case .ppg(let sample):
      fields.kind("raw", "PPG")
      Self.describe(2, sample.value, sample.max, sample.min, sample.diff, into: &fields)
    case .accelerometer(let sample):
      fields.kind("raw", "accelerometer")
      fields.member("subtype", 3, .hidden)
      fields.member("x", sample.x)
      fields.member("y", sample.y)
      fields.member("z", sample.z)
      fields.member("magnitudeG", (sample.acceleration.magnitude * 1000).rounded() / 1000)
    case .unknown(let subtype):
      fields.kind("raw", "raw frame")
      fields.member("subtype", subtype)
    }
  }

  private static func describe(
    _ subtype: Int, _ value: UInt16, _ maximum: UInt16, _ minimum: UInt16, _ difference: UInt16,
    into fields: inout FieldList
  ) {
    fields.member("subtype", subtype, .hidden)
    fields.member("value", value, .none)
    fields.member("max", maximum)
    fields.member("min", minimum)
    fields.member("diff", difference)
  }
}

extension RingCameraEvent {
  fileprivate var kind: String {
    switch self {
    case .acknowledged: "cameraAck"
    case .entered: "cameraEntered"
    case .gesture: "cameraGesture"
    case .finished: "cameraFinished"
    }
  }
}

extension RingNotification {
  fileprivate var meaning: String {
    switch self {
    case .newHeartRate: "new heart-rate data"
    case .newSpO2: "new SpO2 data"
    case .newActivity: "new activity data"
    case .newTemperature: "new temperature data"
    case .sportEnded: "sport ended"
    case .newBloodSugar: "new blood sugar data"
    case .stressStored: "stress sample stored (inferred)"
    case .battery: "battery"
    case .activity: "activity"
    case .unknown: "unknown"
    }
  }
}

// MARK: - Logs

/// JSON keys of logs. The keys are a stable interface.
extension FieldList {
  package mutating func members(of log: RingDayLog) {
    kind(log.kind.logName)
    member("packetCount", log.frameCount)
    member("intervalMinutes", log.intervalMinutes)
    switch log.day {
    case .timestamp(let timestamp):
      member("timestamp", timestamp)
      member("timestampUTC", CivilTime(timestamp).text + "Z")
    case .daysAgo(let days): member("daysAgo", days)
    case nil: nullMember(log.kind == .heartRate ? "timestamp" : "daysAgo")
    }
    if log.kind == .heartRate { member("slotCount", log.samples.count) }
    member(
      "nonZero",
      array: { line in
        for entry in log.entries { line.row(entry.slot, Int(entry.value)) }
      })
    if !log.isComplete { member("complete", false) }
  }

  package mutating func members(of log: RingActivityLog) {
    kind("activityLog")
    member("recordCount", log.recordCount)
    switch log.calorieUnit {
    case .tenCalories: member("newCalorieUnit", true)
    case .unknown: member("newCalorieUnit", false)
    case nil: nullMember("newCalorieUnit")
    }
    member("totalSteps", log.steps)
    member("totalDistanceMeters", log.distanceMeters)
    member(
      "records",
      array: { line in
        for record in log.records {
          line.object { $0.members(of: record, total: log.recordCount) }
        }
      })
    if !log.isComplete { member("complete", false) }
  }

  private mutating func members(of record: RingActivityRecord, total: Int) {
    switch record.date {
    case .valid(let date): member("date", CivilTime.text(Int(date.year), Int(date.month), Int(date.day)))
    case .impossible: nullMember("date")
    }
    member("slot", record.slot)
    member("index", record.index)
    member("total", total)
    member("caloriesRaw", record.calories)
    member("steps", record.steps)
    member("distanceMeters", record.distanceMeters)
  }

  // MARK: Big data

  package mutating func members(of reply: RingBigDataReply, _ message: RingBigData) {
    switch reply {
    case .sleepLog(let records): members(of: records, kind: "sleep", message)
    case .nap(let records): members(of: records, kind: "nap", message)
    case .spO2(let days):
      members(of: message, kind: "spo2Log")
      member(
        "days",
        array: { line in
          for day in days { line.object { $0.members(of: day) } }
        })
    case .temperature(let days):
      members(of: message, kind: "temperatureLog")
      member(
        "days",
        array: { line in
          for day in days { line.object { $0.members(of: day) } }
        })
    case .manualHeartRate(let log):
      members(of: message, kind: "manualHeartRate")
      member("daysAgo", log.daysAgo)
      member(
        "entries",
        array: { line in
          for entry in log.entries { line.row(Int(entry.minute), Int(entry.beatsPerMinute)) }
        })
    case .intervalTemperature(let packet):
      members(of: message, kind: "intervalTemperature")
      member("daysAgo", packet.daysAgo)
      member("intervalMinutes", packet.intervalMinutes)
      member("packetCount", packet.packetCount)
      member("index", packet.index)
      member(
        "centiCelsius",
        array: { line in
          for sample in packet.samples { line.value(sample) }
        })
    case .status(_, let code):
      members(of: message, kind: "bigDataStatus")
      member("status", code)
    case .firmware(let reply):
      kind("dfuResponse")
      member("command", reply.command)
      member("status", reply.status.rawValue)
    case .unknown:
      members(of: message, kind: "bigData")
      member("payload", hex: message.payload)
    }
  }

  private mutating func members(of message: RingBigData, kind: String) {
    self.kind(kind)
    member("dataId", message.id)
    member("payloadLength", message.payload.count)
    member("crc16", message.checksum.upperCaseText)
    member("crcValid", message.isChecksumValid)
  }

  private mutating func members(of records: [RingSleep], kind: String, _ message: RingBigData) {
    members(of: message, kind: kind)
    member("recordCount", records.count)
    member(
      "records",
      array: { line in
        for record in records { line.object { $0.members(of: record) } }
      })
  }

  private mutating func members(of record: RingSleep) {
    member("daysAgo", record.daysAgo)
    member("byteCount", record.byteCount)
    member("startMinute", record.startMinute)
    member("endMinute", record.endMinute)
    member(
      "stages",
      array: { line in
        for span in record.stages { line.row(Int(span.stage.rawValue), Int(span.minutes)) }
      })
    member("stageMinutesSum", record.stageMinutes)
  }

  private mutating func members(of day: RingSpO2Day) {
    member("daysAgo", day.daysAgo)
    member(
      "hours",
      array: { line in
        for hour in day.hours { line.row(Int(hour.hour), Int(hour.minimum), Int(hour.maximum)) }
      })
  }

  private mutating func members(of day: RingTemperatureDay) {
    member("daysAgo", day.daysAgo)
    member("intervalMinutes", day.intervalMinutes)
    member(readings: day.readings)
  }

  /// Adds the temperatures of a day, combined from several packets.
  package mutating func members(of log: RingIntervalTemperatureLog) {
    kind("intervalTemperatureLog")
    member("daysAgo", log.daysAgo)
    member("intervalMinutes", log.intervalMinutes)
    member(readings: log.readings)
    if !log.isComplete { member("complete", false) }
  }

  /// Adds readings as pairs of minute of the day and degrees Celsius.
  private mutating func member(readings: [RingTemperatureDay.Reading]) {
    member(
      "readings",
      array: { line in
        for reading in readings {
          line.array {
            $0.value(reading.minute)
            $0.value(reading.celsius)
          }
        }
      })
  }

  /// Adds a description of how messages were reassembled from notifications.
  mutating func members(ofReassembly events: [RingBigDataReassembler.Event]) {
    let messages = events.compactMap { event -> RingBigData? in
      switch event {
      case .message(let message), .failed(.checksum(let message)): message
      case .raw, .failed: nil
      }
    }
    let failures = events.filter { if case .failed = $0 { true } else { false } }.count
    guard let first = messages.first else { return invalid(.length(claimed: 0, available: 0)) }
    kind("reassembly")
    member("frames", messages.count)
    member("dataId", first.id)
    member("payloadLength", first.payload.count)
    member("crcValid", messages.allSatisfy(\.isChecksumValid))
    let others = failures - messages.filter { !$0.isChecksumValid }.count
    if others > 0 { member("failures", others) }
  }
}

extension RingLogKind {
  fileprivate var logName: String {
    switch self {
    case .heartRate: "heartRateLog"
    case .stress: "stressLog"
    case .heartRateVariability: "hrvLog"
    case .activity: "activityLog"
    case .unnamed: "unnamedLog"
    }
  }
}
