import ArgumentParser
import BLEHost
import BLEWire
import ColmiRing
import CommandKit
import SensorSessions

/// The command `ringtap ring settings`.
package struct RingSettingsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "settings",
    abstract: "Show or change the ring's settings.",
    discussion: """
      Writes the given settings, then shows those that the ring reports. Some firmware loses the heart rate \
      interval at midnight. The phone's name and the touch control are write-only: no format for reading \
      them is published.

      Settings with an unpublished layout are shown as bytes and cannot be written: display, do not disturb, \
      blood-pressure schedule, units of old firmware, menstruation. The goals are read-only.

      EXAMPLES
        ringtap ring settings
        ringtap ring settings --heart-rate on --heart-rate-interval 5 --spo2 on
        ringtap ring settings --age 40 --height 180 --weight 75 --json
      """)

  enum Switch: String, CaseIterable, ExpressibleByArgument {
    case on, off
  }

  @OptionGroup var ring: RingOptions
  @Option(help: "Automatic heart rate measurement: on or off.") var heartRate: Switch?
  @Option(
    help: ArgumentHelp("Heart rate measurement interval, a multiple of 5 up to 60.", valueName: "minutes"),
    in: NumberRange(5...60, "minutes"))
  var heartRateInterval: UInt8?
  @Option(help: "Automatic blood oxygen measurement: on or off.") var spo2: Switch?
  @Option(help: "Automatic stress measurement: on or off.") var stress: Switch?
  @Option(help: "Automatic heart rate variability measurement: on or off.") var hrv: Switch?
  @Option(help: "Automatic temperature measurement: on or off.") var temperature: Switch?
  @Option(
    help: ArgumentHelp("The wearer's age.", valueName: "years"), in: NumberRange(0...255, "years"))
  var age: UInt8?
  @Option(
    help: ArgumentHelp("The wearer's height.", valueName: "cm"), in: NumberRange(0...255, "cm"))
  var height: UInt8?
  @Option(
    help: ArgumentHelp("The wearer's weight.", valueName: "kg"), in: NumberRange(0...255, "kg"))
  var weight: UInt8?

  @OptionGroup(title: "Wearer and display") var wearer: Wearer
  @OptionGroup(title: "Alarms of the heart rate's log") var alarms: Alarms
  @Option(help: "The phone's name, ASCII, at most 12 bytes.") var phoneName: String?
  @Option(
    help: ArgumentHelp("Function of the touch control; needs --touch-strength.", valueName: "number"),
    in: NumberRange(0...255))
  var touchApplication: UInt8?
  @Option(
    help: ArgumentHelp("Pressure needed for a touch.", valueName: "number"), in: NumberRange(0...255))
  var touchStrength: UInt8?

  /// Settings of command 0x0A about the wearer.
  struct Wearer: ParsableArguments {
    enum Clock: String, CaseIterable, ExpressibleByArgument {
      case twelve = "12h"
      case twentyFour = "24h"
    }
    enum Units: String, CaseIterable, ExpressibleByArgument { case metric, imperial }
    enum Gender: String, CaseIterable, ExpressibleByArgument {
      case male, female, other

      var value: RingPreferences.Gender {
        switch self {
        case .male: .male
        case .female: .female
        case .other: .other
        }
      }
    }

    @Option(help: "The clock's format: 12h or 24h.") var clock: Clock?
    @Option(help: "The units: metric or imperial.") var units: Units?
    @Option(help: "male, female or other. Published programs disagree on the codes of the first two.")
    var gender: Gender?
    @Option(
      help: ArgumentHelp("Systolic reference for estimates.", valueName: "mmHg"),
      in: NumberRange(0...255, "mmHg"))
    var systolic: UInt8?
    @Option(
      help: ArgumentHelp("Diastolic reference for estimates.", valueName: "mmHg"),
      in: NumberRange(0...255, "mmHg"))
    var diastolic: UInt8?
    @Option(
      help: ArgumentHelp("Warn above this pulse; 0 is off.", valueName: "bpm"),
      in: NumberRange(0...255, "bpm"))
    var pulseAlarm: UInt8?

    var isGiven: Bool {
      clock != nil || units != nil || gender != nil || systolic != nil || diastolic != nil
        || pulseAlarm != nil
    }

    func apply(to preferences: inout RingPreferences) {
      if let clock { preferences.uses12HourClock = clock == .twelve }
      if let units { preferences.usesImperialUnits = units == .imperial }
      if let gender { preferences.gender = gender.value }
      if let systolic { preferences.systolicPressure = systolic }
      if let diastolic { preferences.diastolicPressure = diastolic }
      if let pulseAlarm { preferences.heartRateAlarm = pulseAlarm }
    }
  }

  /// The alarm settings of command 0x16, documented by one program. The values of the alarms' switch are not
  /// published.
  struct Alarms: ParsableArguments {
    @Option(
      help: ArgumentHelp("Meaning unknown; 5 on one ring.", valueName: "minutes"),
      in: NumberRange(0...255, "minutes"))
    var startInterval: UInt8?
    @Option(
      help: ArgumentHelp("Warn below this heart rate.", valueName: "bpm"), in: NumberRange(0...255, "bpm"))
    var lowAlarm: UInt8?
    @Option(
      help: ArgumentHelp("Warn above this heart rate.", valueName: "bpm"), in: NumberRange(0...255, "bpm"))
    var highAlarm: UInt8?
    @Option(
      help: ArgumentHelp("The alarms' switch, as a byte.", valueName: "number"), in: NumberRange(0...255))
    var alarmSwitch: UInt8?

    var isGiven: Bool {
      startInterval != nil || lowAlarm != nil || highAlarm != nil || alarmSwitch != nil
    }

    func apply(to settings: inout RingHeartRateLogSettings) {
      if let startInterval { settings.startIntervalMinutes = startInterval }
      if let lowAlarm { settings.lowAlarm = lowAlarm }
      if let highAlarm { settings.highAlarm = highAlarm }
      if let alarmSwitch { settings.alarmSwitch = alarmSwitch }
    }
  }

  func validate() throws {
    if (touchApplication == nil) != (touchStrength == nil) {
      throw ValidationError("--touch-application and --touch-strength need each other")
    }
    if let phoneName, (try? RingPhoneName(name: phoneName)) == nil {
      throw ValidationError("--phone-name must be ASCII and have at most 12 bytes")
    }
    if let heartRateInterval, !heartRateInterval.isMultiple(of: 5) {
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
    if heartRate != nil || heartRateInterval != nil || alarms.isGiven { try await writeHeartRate(ring) }
    let switches: [(RingAutomaticSensor, Switch?)] = [
      (.spO2, spo2), (.stress, stress), (.heartRateVariability, hrv), (.temperature, temperature),
    ]
    for (sensor, state) in switches {
      guard let state else { continue }
      _ = try await ring.ask(
        .writeAutomaticMeasurement(RingAutomaticMeasurement(sensor, isEnabled: state == .on)))
    }
    if age != nil || height != nil || weight != nil || wearer.isGiven { try await writePreferences(ring) }
    if let phoneName, let name = try? RingPhoneName(name: phoneName) { try await ring.tell(.phoneName(name)) }
    if let touchApplication, let touchStrength {
      try await ring.tell(.writeTouch(appType: touchApplication, strength: touchStrength))
    }
  }

  /// Writes the heart rate settings. Settings that are not given keep the ring's values.
  private func writeHeartRate(_ ring: RingConversation) async throws(RingError) {
    guard case .heartRateLogSettings(var settings) = try await ring.ask(.readHeartRateLogSettings) else {
      throw .senseless("no settings of the heart rate")
    }
    if let heartRate { settings.isEnabled = heartRate == .on }
    if let heartRateInterval { settings.intervalMinutes = heartRateInterval }
    alarms.apply(to: &settings)
    _ = try await ring.ask(.writeHeartRateLogSettings(settings))
  }

  private func writePreferences(_ ring: RingConversation) async throws(RingError) {
    guard case .preferences(var preferences) = try await ring.ask(.readPreferences) else {
      throw .senseless("no preferences")
    }
    if let age { preferences.ageYears = age }
    if let height { preferences.heightCentimeters = height }
    if let weight { preferences.weightKilograms = weight }
    wearer.apply(to: &preferences)
    _ = try await ring.ask(.writePreferences(preferences))
  }

  private static func lines(_ reply: RingReply) -> [String] {
    switch reply {
    case .heartRateLogSettings(let settings):
      let alarms = "alarms below \(settings.lowAlarm) and above \(settings.highAlarm) bpm"
      return [
        "heart rate: " + (settings.isEnabled ? "every \(settings.intervalMinutes) min" : "off")
          + (settings.lowAlarm == 0 && settings.highAlarm == 0
            ? "" : ", \(alarms) (switch \(settings.alarmSwitch))")
      ]
    case .preferences(let wearer):
      return [
        "wearer: \(counted(wearer.ageYears, "year")), \(wearer.heightCentimeters) cm, \(wearer.weightKilograms) kg, "
          + "gender \(wearer.gender.rawValue), \(wearer.systolicPressure)/\(wearer.diastolicPressure) mmHg, "
          + (wearer.heartRateAlarm == 0 ? "no pulse alarm" : "pulse alarm at \(wearer.heartRateAlarm) bpm"),
        "display: \(wearer.uses12HourClock ? "12" : "24") h, "
          + (wearer.usesImperialUnits ? "imperial" : "metric"),
      ]
    case .goals(let goals):
      return [
        "goals: \(counted(goals.steps, "step")), \(goals.distanceMeters) m, \(goals.calories / 1000) kcal"
      ]
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
