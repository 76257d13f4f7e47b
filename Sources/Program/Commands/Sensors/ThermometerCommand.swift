import ArgumentParser
import BLEHost
import BLESensors
import BLEWire
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap thermometer [ADDRESS]`.
typealias ThermometerCommand = SensorCommand<ThermometerOptions>

struct ThermometerOptions: PrintedSensor {
  static let configuration = CommandConfiguration(
    commandName: "thermometer",
    abstract: "Print the values of a body thermometer.",
    discussion: """
      Finds the sensor by its service (1809, or CORE's own) or name, or uses the given address, and prints \
      each temperature until --duration, --count or Ctrl-C: results, and the intermediate values before \
      them. If a sensor is not worn, a state is printed instead of a value. A value shorter than its flags \
      indicate is skipped and counted. ringtap reconnects if the link is lost.

      EXAMPLES
        ringtap thermometer
        ringtap thermometer --unit fahrenheit --duration 60
        ringtap thermometer C4:12:34:56:78:9A --address-type random --json
            one object per line: "device" (its identity) once, soon after the first;
            "measurement", "intermediate" or "state" with the columns of
            temperature.csv (time_ns, state, temperature_celsius, …), and under
            "packet" the result of `ringtap decode`; finally "end"
        ringtap capture thermometer --output night
            records into temperature.csv, packets.btsnoop and session.json
        ringtap thermometer --transport virtual:core --count 5
      """,
    shouldDisplay: false)

  @OptionGroup(visibility: .hidden) var streaming: FormerStreamOptions

  @Option(
    help:
      "celsius or fahrenheit (default: the sensor's unit). JSON has both if they differ."
  )
  var unit: TemperatureUnit?

  var formerStreams: FormerStreams { streaming.streams }

  func kind(isRecorded: Bool) -> ThermometerKind { ThermometerKind() }

  func writer(isJSON: Bool) -> some SensorWriter<ThermometerSession> {
    ThermometerWriter(isJSON: isJSON, unit)
  }
}

/// Prints temperatures.
private struct ThermometerWriter: SensorWriter {
  private let isJSON: Bool
  private let unit: TemperatureUnit?
  private var kind = ThermometerSession.Kind.healthThermometer
  private var hadReading = true

  init(isJSON: Bool, _ unit: TemperatureUnit?) {
    self.isJSON = isJSON
    self.unit = unit
  }

  mutating func begin(_ session: ThermometerSession) { kind = session.kind }

  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws {
    guard isJSON else { return Console.note(facts.text(peer)) }
    try facts.show(peer) { line in
      if kind == .healthThermometer, let type = facts.temperatureType { line.members(of: type) }
    }
  }

  mutating func show(_ sample: TemperatureSample) throws {
    let hasReading = sample.isValue
    defer { hadReading = hasReading }
    if isJSON {
      try showObject(sample)
    } else if hasReading {
      try Console.print(Self.text(sample, unit))
    } else if hadReading {
      try Console.print(sample.isOffBody ? "not on body" : "no reading")
    }
  }

  private func showObject(_ sample: TemperatureSample) throws(Console.WriteError) {
    try Console.json { line in
      switch (sample.degrees, sample.reading) {
      case (nil, _):
        line.member("event", "state")
      case (_, .intermediate): line.member("event", "intermediate")
      case (_, .result), (_, .core): line.member("event", "measurement")
      }
      line.members(of: TemperatureRow(sample), TemperatureTables.tables[0].columns)
      if let unit, unit.unit != sample.unit, let degrees = sample.degrees(in: unit.unit) {
        line.member(unit.key(kind), (degrees * 100).rounded() / 100)
      }
      line.member("packet") { line in
        switch sample.reading {
        case .result(let measurement), .intermediate(let measurement): line.members(of: measurement)
        case .core(let temperature): line.members(of: temperature)
        }
      }
    }
  }

  /// Returns the text of a sample, for example `36.62 °C  skin 33.4 °C`.
  private static func text(_ sample: TemperatureSample, _ unit: TemperatureUnit?) -> String {
    let unit = unit ?? (sample.unit == .celsius ? .celsius : .fahrenheit)
    func text(_ degrees: Double) -> String { "\((degrees * 100).rounded() / 100) \(unit.sign)" }
    var parts = sample.degrees(in: unit.unit).map { [text($0)] } ?? []
    switch sample.reading {
    case .intermediate: parts.append("(on the way)")
    case .core(let temperature):
      if let skin = temperature.skinTemperature {
        parts.append("skin \(text(TemperatureSample.convert(skin, from: temperature.unit, to: unit.unit)))")
      }
      let names = CoreBodyTemperature.Quality.levelNames
      if let level = temperature.quality?.level, level < names.count {
        parts.append("quality \(names[Int(level)])")
      }
    case .result: break
    }
    return parts.joined(separator: "  ")
  }
}
