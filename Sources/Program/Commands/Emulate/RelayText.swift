import BLEDissector
import BLEPeripheral
import BLESensors
import BLEStack
import BLEWire
import CommandKit
import JSONText
import Recording
import Relay
import SensorSessions

/// The output of `relay`, as text or as JSON lines.
struct RelayText: Sendable {
  let isJSON: Bool
  var name = ""
  var adapter = ""
  var address = DeviceAddress.any

  func show(_ event: RelayHub.Event, _ gaps: NoteLimit) throws(Console.WriteError) {
    switch event {
    case .ready(let service): try ready(service)
    case .value(let value): try show(value)
    case .central(let event, let attributes): try ServeText(isJSON: isJSON).show(event, attributes)
    case .gap(let gap, let change):
      let cause = GapText.cause(gap)
      gaps.note(change == .lost ? "\(cause); reconnecting" : "streaming again")
      guard isJSON else { return }
      try Console.json { line in
        line.member("event", "gap")
        line.member("state", change == .lost ? "lost" : "back")
        line.member("cause", cause)
      }
    }
  }

  private func ready(_ service: RelayedService) throws(Console.WriteError) {
    guard isJSON else {
      return try Console.print("ready \(adapter) \(address) \(service.uuid) \(name)")
    }
    try Console.json { line in
      line.member("event", "ready")
      line.member("adapter", adapter)
      line.members(of: address)
      line.member("service", service.uuid.description)
      line.member("name", name)
    }
  }

  // MARK: Values

  private func show(_ value: RelayedValue) throws(Console.WriteError) {
    guard isJSON else { return try Console.print(Self.text(value)) }
    try Console.json { line in
      line.member("event", "value")
      line.member("measured_ns", value.measuredAt.nanoseconds)
      line.member("known_ns", value.knownAt.nanoseconds)
      Self.encode(value.measurement, into: &line)
      line.member("quality", optional: value.quality)
    }
  }

  private static func encode(_ measurement: RelayedValue.Measurement, into line: inout JSONLine) {
    switch measurement {
    case .heartRate(let value):
      line.member("kind", "heartRate")
      if value.contact != .notDetected { line.member("bpm", value.beatsPerMinute) }
      if value.contact != .notSupported { line.member("contact", value.contact == .detected) }
      let intervals = value.rrIntervals
      line.member(
        "rr_1024ths", array: { line in for index in intervals.indices { line.value(intervals[index]) } })
    case .temperature(let value), .intermediate(let value):
      let isResult = if case .temperature = measurement { true } else { false }
      line.member("kind", isResult ? "temperature" : "intermediateTemperature")
      line.member("celsius", optional: value.celsius)
    case .cycling(let value):
      line.member("kind", "cycling")
      if let wheel = value.wheel { line.member("wheelRevolutions", wheel.revolutions) }
      if let crank = value.crank { line.member("crankRevolutions", crank.revolutions) }
    case .battery(let value):
      line.member("kind", "battery")
      line.member("percent", value.percent)
    }
  }

  private static func text(_ value: RelayedValue) -> String {
    switch value.measurement {
    case .heartRate(let measurement) where measurement.contact == .notDetected: return "no contact"
    case .heartRate(let measurement):
      let quality = value.quality.map { ", quality \(Int(($0 * 100).rounded())) %" } ?? ""
      let intervals = measurement.rrIntervals
      let beats = intervals.indices.map { "\(Int((intervals.seconds($0) * 1000).rounded()))" }
      return "\(measurement.beatsPerMinute) bpm" + quality
        + (beats.isEmpty ? "" : "  " + beats.joined(separator: " ") + " ms")
    case .temperature(let measurement), .intermediate(let measurement):
      return measurement.celsius.map { NumberText.fixed($0, 2) + " °C" } ?? "no reading"
    case .cycling(let speed):
      let parts = [
        speed.wheel.map { "wheel \($0.revolutions)" }, speed.crank.map { "crank \($0.revolutions)" },
      ]
      return parts.compactMap(\.self).joined(separator: "  ")
    case .battery(let level): return "battery \(level.percent) %"
    }
  }

  // MARK: The end

  func end(_ outcome: RelayOutcome) throws(Console.WriteError) {
    let delays: [(key: String, words: String, histogram: LogLinearHistogram)] = [
      ("estimator", "from sample to value", outcome.delays.estimator),
      ("transport", "from value to link", outcome.delays.transport),
      ("total", "total", outcome.delays.total),
    ]
    guard isJSON else {
      var lines = [
        "end \(counted(outcome.values, "value")), \(counted(outcome.silences, "silence")), \(outcome.centrals.notifications) "
          + "notified, \(outcome.centrals.indications) indicated, \(outcome.dropped) dropped, "
          + counted(outcome.gaps, "gap")
      ]
      for delay in delays {
        guard let summary = DurationSummary(delay.histogram) else { continue }
        lines.append("  delay \(delay.words): p50 \(Self.time(summary.p50)), p99 \(Self.time(summary.p99))")
      }
      return try Console.print(lines.joined(separator: "\n"))
    }
    try Console.json { line in
      line.member("event", "end")
      line.member("values", outcome.values)
      line.member("silences", outcome.silences)
      line.member("connected", outcome.centrals.centrals)
      line.member("notified", outcome.centrals.notifications)
      line.member("indicated", outcome.centrals.indications)
      line.member("dropped", outcome.dropped)
      line.member("malformed", outcome.malformed)
      line.member("lost", outcome.lost)
      line.member("gaps", outcome.gaps)
      line.member("delay") { line in
        for delay in delays {
          guard let summary = DurationSummary(delay.histogram) else { continue }
          line.member(delay.key) { line in
            line.member("p50Ms", Double(summary.p50) / 1e6)
            line.member("p99Ms", Double(summary.p99) / 1e6)
          }
        }
      }
      if let failure = outcome.failure { line.member("reason", "\(failure)") }
    }
  }

  private static func time(_ nanoseconds: Int64) -> String {
    nanoseconds < 1_000_000_000
      ? NumberText.fixed(Double(nanoseconds) / 1e6, 1) + " ms"
      : NumberText.fixed(Double(nanoseconds) / 1e9, 1) + " s"
  }
}
