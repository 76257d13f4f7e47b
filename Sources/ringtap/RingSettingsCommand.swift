import ArgumentParser
import BLEHost
import BLESensors
import RingTap

/// `ringtap ring settings`.
struct RingSettingsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "settings",
    abstract: "Show the ring's settings, and write those that are given.",
    discussion: """
      Shows what the ring answers; what it does not know is left out. Settings whose layout nobody published are shown \
      as octets and cannot be written. Some firmware forgets the heart rate's interval at midnight.

      EXAMPLES
        ringtap ring settings
        ringtap ring settings --heart-rate on --heart-rate-interval 5 --spo2 on
        ringtap ring settings --age 40 --height 180 --weight 75 --json
      """)

  enum Switch: String, CaseIterable, ExpressibleByArgument {
    case on, off
  }

  @OptionGroup var ring: RingOptions
  @Option(help: "Whether the ring measures the heart rate by itself: on or off.") var heartRate: Switch?
  @Option(help: ArgumentHelp("How often, a multiple of 5 up to 60.", valueName: "minutes"))
  var heartRateInterval: UInt8?
  @Option(help: "Whether it measures blood oxygen by itself.") var spo2: Switch?
  @Option(help: "Whether it measures stress by itself.") var stress: Switch?
  @Option(help: "Whether it measures heart rate variability by itself.") var hrv: Switch?
  @Option(help: "Whether it measures temperature by itself.") var temperature: Switch?
  @Option(help: ArgumentHelp("The wearer's age.", valueName: "years")) var age: UInt8?
  @Option(help: ArgumentHelp("The wearer's height.", valueName: "cm")) var height: UInt8?
  @Option(help: ArgumentHelp("The wearer's weight.", valueName: "kg")) var weight: UInt8?

  func validate() throws {
    if let minutes = heartRateInterval, minutes == 0 || minutes > 60 || !minutes.isMultiple(of: 5) {
      throw ValidationError("--heart-rate-interval must be a multiple of 5 up to 60")
    }
  }

  func run() async throws {
    let command = self
    try await ring.withRing { ring in
      try await failing { () async throws(RingError) in try await command.write(ring) }
      for request in Self.reads {
        let reply = try await failing { () async throws(RingError) in try await ring.optional(request) }
        if let reply { try command.ring.show(.reply(reply), Self.lines(reply)) }
      }
    }
  }

  private static let reads: [RingRequest] =
    [.readHeartRateLogSettings, .readPreferences, .goals]
    + RingAutomaticSensor.allCases.map { .readAutomaticMeasurement($0) }
    + RingSetting.allCases.map { .readSetting($0) }

  private func write(_ ring: RingConversation) async throws(RingError) {
    if heartRate != nil || heartRateInterval != nil { try await writeHeartRate(ring) }
    let switches: [(RingAutomaticSensor, Switch?)] = [
      (.spO2, spo2), (.stress, stress), (.heartRateVariability, hrv), (.temperature, temperature),
    ]
    for (sensor, state) in switches {
      guard let state else { continue }
      _ = try await ring.ask(
        .writeAutomaticMeasurement(RingAutomaticMeasurement(sensor, isEnabled: state == .on)))
    }
    if age != nil || height != nil || weight != nil { try await writePreferences(ring) }
  }

  /// What is not given stays as the ring has it.
  private func writeHeartRate(_ ring: RingConversation) async throws(RingError) {
    guard case .heartRateLogSettings(var settings) = try await ring.ask(.readHeartRateLogSettings) else {
      throw .senseless("no settings of the heart rate")
    }
    if let heartRate { settings.isEnabled = heartRate == .on }
    if let heartRateInterval { settings.intervalMinutes = heartRateInterval }
    _ = try await ring.ask(.writeHeartRateLogSettings(settings))
  }

  private func writePreferences(_ ring: RingConversation) async throws(RingError) {
    guard case .preferences(var preferences) = try await ring.ask(.readPreferences) else {
      throw .senseless("no preferences")
    }
    if let age { preferences.ageYears = age }
    if let height { preferences.heightCentimeters = height }
    if let weight { preferences.weightKilograms = weight }
    _ = try await ring.ask(.writePreferences(preferences))
  }

  private static func lines(_ reply: RingReply) -> [String] {
    switch reply {
    case .heartRateLogSettings(let settings):
      return ["heart rate: " + (settings.isEnabled ? "every \(settings.intervalMinutes) min" : "off")]
    case .preferences(let wearer):
      return [
        "wearer: \(wearer.ageYears) years, \(wearer.heightCentimeters) cm, \(wearer.weightKilograms) kg"
      ]
    case .goals(let goals):
      return ["goals: \(goals.steps) steps, \(goals.distanceMeters) m, \(goals.calories / 1000) kcal"]
    case .automaticMeasurement(let measurement):
      return ["\(measurement.sensor.title): \(measurement.isEnabled ? "on" : "off")"]
    case .setting(let setting, let command):
      return ["\(setting): \((1..<15).map { command.octet($0) }.hexText)"]
    default: return []
    }
  }
}

extension RingAutomaticSensor {
  fileprivate var title: String {
    switch self {
    case .spO2: "blood oxygen"
    case .stress: "stress"
    case .heartRateVariability: "heart rate variability"
    case .temperature: "temperature"
    }
  }
}
