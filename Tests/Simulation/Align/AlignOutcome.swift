import BLELinux
import CaptureTools
import JSONText

/// Result of `ringtap align` for a recording, compared with the recording's `truth.json`.
package struct AlignOutcome: Sendable {
  /// Error of a reported number, and its reported uncertainty.
  package struct Told: Sendable {
    package var error: Double
    package var uncertainty: Double

    package var isInside: Bool { abs(error) <= uncertainty }
  }

  package private(set) var group = ""
  package private(set) var isHopeless = false
  /// Offset in milliseconds; `nil` if it is unknown.
  package private(set) var late: Told?
  /// Error if only the rows of the tables are used.
  package private(set) var rows: Double?
  /// Clock error in parts per million; `nil` if it is unknown.
  package private(set) var clock: Told?
  /// Whether a number was reported without an uncertainty.
  package private(set) var isWithoutRange = false
  package private(set) var why: [String] = []

  /// The true offset and rate of a device's clock.
  private struct Truth {
    var late = 0.0
    var clock = 1.0
    /// Ticks per second, if the device counts ticks.
    var hertz: Double?
  }

  /// - Returns: One outcome for each device except the reference.
  package static func all(of folder: String) throws -> [AlignOutcome] {
    let octets = try Files.octets(of: folder + "/truth.json", limit: 1 << 20)
    let document = try JSONDocument(octets)
    var truths: [String: Truth] = [:]
    for device in document["devices"]?.array ?? [] {
      truths[device["directory"]?.text ?? ""] = Truth(
        late: device["lateMs"]?.real ?? 0, clock: 1 + (device["ppm"]?.real ?? 0) * 1e-6,
        hertz: device["hz"]?.real)
    }
    let search = document["search"]?.real ?? 10
    let found = try CaptureAlignment.run(folder, reference: nil, search: search) { _ in }
    var line = JSONLine()
    found.alignment.encode(into: &line)
    let told = try JSONDocument(line.octets)
    let reference = told["reference"]?.text ?? ""
    return (told["devices"]?.array ?? []).compactMap { device in
      guard let name = device["directory"]?.text, name != reference, let truth = truths[name],
        let base = truths[reference]
      else { return nil }
      var outcome = AlignOutcome()
      outcome.group = document["group"]?.text ?? ""
      outcome.isHopeless = document["hopeless"]?.flag ?? false
      outcome.take(device, truth, base)
      return outcome
    }
  }

  private init() {}

  private mutating func take(_ device: JSONDocument, _ truth: Truth, _ reference: Truth) {
    why = (device["refused"]?.array ?? []).compactMap { $0["why"]?.text }
    guard let value = device["lateMs"]?.real else { return }
    guard let range = device["lateUncertaintyMs"]?.real else { return isWithoutRange = true }
    late = Told(error: value - (truth.late - reference.late), uncertainty: range)
    rows = device["rowUncertaintyMs"]?.real
    // A reference that counts ticks has no seconds: the kernel's clock, which has no error, replaces it.
    let ratio = truth.clock / (reference.hertz == nil ? reference.clock : 1)
    if let value = device["clockPPM"]?.real {
      let range = device["clockUncertaintyPPM"]?.real
      isWithoutRange = range == nil
      clock = Told(error: value - (ratio - 1) * 1e6, uncertainty: range ?? 0)
    } else if let value = device["rateHz"]?.real, let hertz = truth.hertz {
      let range = device["rateUncertaintyHz"]?.real
      isWithoutRange = range == nil
      let right = hertz * ratio
      clock = Told(error: (value / right - 1) * 1e6, uncertainty: (range ?? 0) / right * 1e6)
    }
  }

  package var text: String {
    func text(_ value: Double) -> String { "\((value * 1000).rounded() / 1000)" }
    func text(_ told: Told?, _ unit: String) -> String {
      guard let told else { return "not known" }
      return
        "off by \(text(told.error)) ± \(text(told.uncertainty)) \(unit)\(told.isInside ? "" : " OUTSIDE")"
    }
    return "offset \(text(late, "ms")), rows ± \(rows.map(text) ?? "?"), clock \(text(clock, "ppm"))"
      + (why.isEmpty || late != nil ? "" : " (\(why.joined(separator: "; ")))")
  }

  // MARK: The table

  /// Returns a table with a row for each group and one for all groups.
  package static func table(_ outcomes: [AlignOutcome]) -> String {
    var lines = [
      "| recordings | | offset told | inside its range | median range, ms | of the rows, ms | clock told | inside | median range, ppm |",
      "|---|---|---|---|---|---|---|---|---|",
    ]
    var groups: [String] = []
    for outcome in outcomes where !groups.contains(outcome.group) { groups.append(outcome.group) }
    for group in groups { lines.append(row(group, outcomes.filter { $0.group == group })) }
    lines.append(row("all that can be told", outcomes.filter { !$0.isHopeless }))
    return lines.joined(separator: "\n")
  }

  private static func row(_ name: String, _ outcomes: [AlignOutcome]) -> String {
    let (late, clock) = (outcomes.compactMap(\.late), outcomes.compactMap(\.clock))
    func median(_ numbers: [Double]) -> String {
      let sorted = numbers.sorted()
      return sorted.isEmpty ? "–" : "± \((sorted[sorted.count / 2] * 100).rounded() / 100)"
    }
    return
      "| \(name) | \(outcomes.count) | \(late.count) | \(late.count(where: \.isInside)) | \(median(late.map(\.uncertainty))) "
      + "| \(median(outcomes.compactMap(\.rows))) | \(clock.count) | \(clock.count(where: \.isInside)) "
      + "| \(median(clock.map(\.uncertainty))) |"
  }
}
