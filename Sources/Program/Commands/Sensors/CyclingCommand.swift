import ArgumentParser
import BLEHost
import BLESensors
import BLEWire
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap cycling [ADDRESS]`.
typealias CyclingCommand = SensorCommand<CyclingOptions>

struct CyclingOptions: PrintedSensor {
  static let configuration = CommandConfiguration(
    commandName: "cycling",
    abstract: "Print bicycle speed and cadence.",
    discussion: """
      Finds the sensor by its service (1816), or uses the given address, and prints each measurement until \
      --duration, --count or Ctrl-C. Speed is computed from the wheel's revolutions and --circumference, and \
      missing if there was no revolution since the last measurement. ringtap reconnects if the link is lost.

      EXAMPLES
        ringtap cycling --circumference 2096
        ringtap cycling --json
            one object per line: "device" (its identity) once, soon after the first;
            "measurement" with the columns of cycling.csv (time_ns, cadence_rpm, …),
            kilometersPerHour, and under "packet" the result of `ringtap decode`;
            finally "end"
        ringtap capture cycling --output ride
            records into cycling.csv, packets.btsnoop and session.json
        ringtap cycling --transport virtual:cycling --count 5
      """,
    shouldDisplay: false)

  @OptionGroup(visibility: .hidden) var streaming: FormerStreamOptions

  @Option(
    help: ArgumentHelp("Circumference of the wheel, in millimetres.", valueName: "mm"),
    in: NumberRange(100...10_000, "mm"))
  var circumference = 2105

  var formerStreams: FormerStreams { streaming.streams }

  func kind(isRecorded: Bool) -> CyclingKind { CyclingKind() }

  func writer(isJSON: Bool) -> some SensorWriter<CyclingSession> {
    CyclingWriter(isJSON: isJSON, metres: Double(circumference) / 1000)
  }
}

/// Prints the measurements of a cycling sensor.
private struct CyclingWriter: SensorWriter {
  typealias Session = CyclingSession

  let isJSON: Bool
  /// Distance per wheel revolution, in metres.
  let metres: Double
  private var pace = CyclingPace()

  init(isJSON: Bool, metres: Double) { (self.isJSON, self.metres) = (isJSON, metres) }

  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws {
    guard isJSON else { return Console.note(facts.text(peer)) }
    try facts.show(peer) { line in
      if let mounting = facts.mounting { line.members(of: mounting) }
    }
  }

  mutating func show(_ sample: CyclingSample) throws {
    let (wheel, crank) = pace.take(sample)
    let speed = wheel.map { $0 * metres * 60 / 1000 }
    guard isJSON else {
      let parts = [
        speed.map { "\(Self.rounded($0, 10)) km/h" } ?? "- km/h",
        crank.map { "\(Self.rounded($0, 1)) rpm" } ?? "- rpm",
        sample.measurement.wheel.map { "\(Self.rounded(Double($0.revolutions) * metres / 1000, 1000)) km" },
      ]
      return try Console.print(parts.compactMap(\.self).joined(separator: "  "))
    }
    try Console.json { line in
      line.member("event", "measurement")
      let pace = (wheel: wheel.map { Self.rounded($0, 100) }, crank: crank.map { Self.rounded($0, 100) })
      line.members(of: CyclingRow(sample: sample, pace: pace), CyclingTables.tables[0].columns)
      line.member("kilometersPerHour", optional: speed.map { Self.rounded($0, 100) })
      line.member("packet") { $0.members(of: sample.measurement) }
    }
  }

  private static func rounded(_ value: Double, _ parts: Double) -> Double {
    (value * parts).rounded() / parts
  }
}
