package import JSONText
import Physiology

/// JSON keys of ring data on the command channel. These are a stable interface.
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

  /// Adds replies that consist of numbers.
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
