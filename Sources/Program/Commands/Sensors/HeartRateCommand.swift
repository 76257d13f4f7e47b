import ArgumentParser
import BLEHost
import BLESensors
import BLEWire
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap heart-rate [ADDRESS]`.
typealias HeartRateCommand = SensorCommand<HeartRateOptions>

struct HeartRateOptions: PrintedSensor {
  static let configuration = CommandConfiguration(
    commandName: "heart-rate",
    abstract: "Print the values of a heart-rate strap.",
    discussion: """
      Finds the strap by its service (180D) or name, or uses the given address; reads its identity and body \
      location; prints each measurement until --duration, --count or Ctrl-C. Lost contact is reported as a \
      state, not as a rate of 0. A measurement shorter than its flags indicate is skipped and counted. \
      ringtap reconnects if the link is lost.

      EXAMPLES
        ringtap heart-rate
        ringtap heart-rate C4:12:34:56:78:9A --address-type random --count 60
        ringtap heart-rate --reset-energy --json
            one object per line: "device" (its identity) once, soon after the first;
            "measurement" or "state" with the columns of heart_rate.csv (time_ns,
            bpm, contact, energy_kj), those of rr_intervals.csv as arrays
            (rr_1024ths, rr_ms), and under "packet" the result of
            `ringtap decode`; finally "end"
        ringtap capture heart-rate:reset-energy --output ride --duration 3600
            records into heart_rate.csv, rr_intervals.csv, packets.btsnoop and
            session.json
        ringtap heart-rate --transport virtual:heart-rate --count 5
      """,
    shouldDisplay: false)

  @OptionGroup(visibility: .hidden) var streaming: FormerStreamOptions

  @Flag(help: "Reset the energy expended to 0 first.")
  var resetEnergy = false

  var formerStreams: FormerStreams { streaming.streams }

  func kind(isRecorded: Bool) -> HeartRateKind { HeartRateKind(resetEnergy ? .resetEnergy : .none) }

  func writer(isJSON: Bool) -> some SensorWriter<HeartRateSession> { HeartRateWriter(isJSON: isJSON) }
}

/// Prints heart-rate measurements.
private struct HeartRateWriter: SensorWriter {
  typealias Session = HeartRateSession

  let isJSON: Bool
  private var hadContact = true

  init(isJSON: Bool) { self.isJSON = isJSON }

  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws {
    guard isJSON else {
      let location = facts.bodyLocation.flatMap(\.place).map { ", worn on the \($0)" } ?? ""
      return Console.note(facts.text(peer) + location)
    }
    try facts.show(peer) { line in
      if let location = facts.bodyLocation { line.members(of: location) }
    }
  }

  mutating func show(_ sample: HeartRateSample) throws {
    let hasContact = sample.isValue
    defer { hadContact = hasContact }
    if isJSON {
      try Self.showObject(sample)
    } else if hasContact {
      try Console.print(Self.text(sample.measurement))
    } else if hadContact {
      try Console.print("no contact")
    }
  }

  private static func showObject(_ sample: HeartRateSample) throws(Console.WriteError) {
    try Console.json { line in
      if sample.measurement.contact == .notDetected {
        line.member("event", "state")
        line.member("state", "noContact")
      } else {
        line.member("event", "measurement")
      }
      line.members(of: HeartRateRow(sample), HeartRateTables.tables[0].columns)
      let intervals = sample.measurement.rrIntervals
      line.member(
        "rr_1024ths", array: { line in for index in intervals.indices { line.value(intervals[index]) } })
      line.member(
        "rr_ms",
        array: { line in for index in intervals.indices { line.value(intervals.seconds(index) * 1_000) } })
      line.member("packet") { $0.members(of: sample.measurement) }
    }
  }

  /// Returns the text of a measurement, for example `72 bpm 812 830 ms 12 kJ`.
  private static func text(_ measurement: HeartRateMeasurement) -> String {
    var parts = ["\(measurement.beatsPerMinute) bpm"]
    let intervals = measurement.rrIntervals
    if intervals.count > 0 {
      let milliseconds = intervals.indices.map { "\(Int((intervals.seconds($0) * 1000).rounded()))" }
      parts.append(milliseconds.joined(separator: " ") + " ms")
    }
    if let energy = measurement.energyExpendedKilojoules { parts.append("\(energy) kJ") }
    return parts.joined(separator: "  ")
  }
}
