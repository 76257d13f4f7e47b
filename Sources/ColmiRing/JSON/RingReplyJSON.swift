import JSONText
import Physiology

/// Keys of what rings send on the command channel, as programs rely on them.
extension JSONLine {
  package mutating func members(of reply: RingReply) {
    switch reply {
    case .refused(let opcode, let code):
      member("kind", "error")
      member("command", opcode)
      member("code", code)
    case .noData(let kind):
      member("kind", "noData")
      member("command", kind.rawValue)
    case .time(let reply): members(of: reply)
    case .camera(let event): member("kind", event.kind)
    case .battery(let battery): members(of: battery, kind: "battery")
    case .phoneNameWritten: member("kind", "phoneNameAck")
    case .preferences(let preferences):
      member("kind", "userPreferences")
      members(of: preferences)
    case .preferencesWritten: member("kind", "userPreferencesWriteAck")
    case .heartRateLogSettings(let settings):
      member("kind", "hrLogSettings")
      members(of: settings)
    case .heartRateLogSettingsWritten(let isEnabled):
      member("kind", "hrLogSettingsWriteAck")
      member("enabled", isEnabled)
    case .automaticMeasurement(let measurement):
      member("kind", measurement.sensor.name + "Settings")
      member("enabled", measurement.isEnabled)
    case .automaticMeasurementWritten(let measurement):
      member("kind", measurement.sensor.name + "SettingsWriteAck")
      member("enabled", measurement.isEnabled)
    case .packetSize(let byteCount):
      member("kind", "packetSize")
      member("bytes", byteCount)
    case .deviceSupport(let capabilities):
      member("kind", "deviceSupport")
      member("supportsBlePair", capabilities.contains(.bond))
      member("supportsIntervalTemperature", capabilities.contains(.intervalTemperature))
    case .setting(let setting, let command):
      member("kind", setting.name + "Settings")
      member("payload", hexOf: (1..<15).map { command.octet($0) })
    case .unknown(let command): members(ofUnknown: command)
    case .raw(let sample): members(of: sample)
    case .notification(let notification): members(of: notification)
    case .goals, .todayTotals, .measurement, .measurementStopped, .sport, .sportAcknowledged,
      .realtimeHeartRate, .log:
      members(ofNumbers: reply)
    }
  }

  /// Replies that are a row of numbers.
  private mutating func members(ofNumbers reply: RingReply) {
    switch reply {
    case .goals(let goals):
      member("kind", "goals")
      member("steps", goals.steps)
      member("caloriesCal", goals.calories)
      member("distanceMeters", goals.distanceMeters)
      member("sportMinutes", goals.sportMinutes)
      member("sleepMinutes", goals.sleepMinutes)
    case .todayTotals(let totals):
      member("kind", "todayTotals")
      member("steps", totals.steps)
      member("runningSteps", totals.runningSteps)
      member("caloriesCal", totals.calories)
      member("distanceMeters", totals.distanceMeters)
      member("durationMinutes", totals.activeMinutes)
    case .measurement(let frame):
      member("kind", "realtime")
      member("type", frame.measurement.rawValue)
      member("error", frame.fault.rawValue)
      member("value", frame.value)
      if frame.pulseIntervalMilliseconds != 0 {
        member("intervalMsInferred", frame.pulseIntervalMilliseconds)
      }
    case .measurementStopped(let measurement, let value):
      member("kind", "realtimeStopAck")
      member("type", measurement.rawValue)
      member("lastValue", value)
    case .sport(let sample):
      member("kind", "sportSample")
      member("type", sample.sport.rawValue)
      member("status", sample.status)
      member("seconds", sample.seconds)
      member("value", sample.heartRate)
      member("caloriesRaw", sample.calories)
      member("steps", sample.steps)
      member("distanceMeters", sample.distanceMeters)
    case .sportAcknowledged: member("kind", "sportAck")
    case .realtimeHeartRate(let first, let second):
      member("kind", "realtimeHeartRate")
      member("octets", hexOf: [first, second])
    case .log(let kind):
      member("kind", "logFrames")
      member("command", kind.rawValue)
    default: break
    }
  }

  private mutating func members(of reply: RingTimeReply) {
    let named: [(String, RingCapabilities)] = [
      ("temperature", .temperature), ("plate", .plate), ("bloodOxygen", .bloodOxygen), ("weather", .weather),
      ("newSleepProtocol", .newSleepProtocol), ("manualHeart", .manualHeartRate),
      ("bloodSugar", .bloodSugar), ("pressure", .stress), ("hrv", .heartRateVariability),
    ]
    member("kind", "setTimeResponse")
    for (name, capability) in named { member(name, reply.capabilities.contains(capability)) }
  }

  private mutating func members(of battery: RingBattery, kind: String) {
    member("kind", kind)
    member("level", battery.percent)
    member("charging", battery.isCharging)
  }

  private mutating func members(of notification: RingNotification) {
    switch notification {
    case .battery(let battery): members(of: battery, kind: "batteryNotification")
    case .activity(let activity):
      member("kind", "liveActivity")
      member("steps", activity.steps)
      member("caloriesCal", activity.calories)
      member("distanceMeters", activity.distanceMeters)
    default:
      member("kind", "notification")
      member("subtype", notification.subtype)
      if case .stressStored(let value) = notification { member("value", value) }
      member("meaning", notification.meaning)
    }
  }

  package mutating func members(of sample: RingRawSample) {
    member("kind", "raw")
    switch sample {
    case .spO2(let sample):
      member("subtype", 1)
      members(value: sample.value, sample.max, sample.min, sample.diff)
    case .ppg(let sample):
      member("subtype", 2)
      members(value: sample.value, sample.max, sample.min, sample.diff)
    case .accelerometer(let sample):
      member("subtype", 3)
      member("x", sample.x)
      member("y", sample.y)
      member("z", sample.z)
      member("magnitudeG", (sample.acceleration.magnitude * 1000).rounded() / 1000)
    case .unknown(let subtype): member("subtype", subtype)
    }
  }

  private mutating func members(value: UInt16, _ maximum: UInt16, _ minimum: UInt16, _ difference: UInt16) {
    member("value", value)
    member("max", maximum)
    member("min", minimum)
    member("diff", difference)
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
