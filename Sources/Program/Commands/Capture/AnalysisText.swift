import BLEHost
import BLEWire
import CaptureTools
import ColmiRing
import JSONText
import Physiology
import Recording

/// Text of an analysis for the user, one line per subject.
enum AnalysisText {
  static func text(_ report: AnalysisReport) -> String {
    var lines = sampleLines(report)
    for (place, text) in (report.ledger?.lines ?? []).enumerated() {
      lines.append(line(place == 0 ? "lost" : "", text))
    }
    if let why = report.unknownLoss { lines.append(line("lost", "not known: \(why)")) }
    if !report.security.isEmpty {
      lines.append(line("link", report.security.map(\.text).joined(separator: ", then ")))
    }
    if let text = report.knownByPayload.text { lines.append(line("origin", text)) }
    if report.contents.contains(.ticks) { lines += clockLines(report) }
    if report.contents.contains(.pulse) { lines += pulseLines(report.pulse) }
    if report.contents.contains(.ecg) { lines += ecgLines(report.ecg) }
    if report.contents.contains(.heartRate) { lines += heartRateLines(report.heartRate) }
    for variation in report.variability { lines += variabilityLines(variation) }
    if report.contents.contains(.temperature) { lines += temperatureLines(report.temperature) }
    if report.contents.contains(.cycling) { lines += cyclingLines(report.cycling) }
    if report.contents.contains(.activity) { lines += activityLines(report.activity) }
    for table in report.tables { lines += table.columns.map { valueLine(table.name, $0) } }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func sampleLines(_ report: AnalysisReport) -> [String] {
    let samples = report.tables.map { "\($0.rows) \($0.name)" }.joined(separator: ", ")
    let start = report.start?.nanoseconds ?? 0
    let seconds = fixed(TimeSpan(from: start, to: report.end?.nanoseconds ?? start).seconds, 1)
    guard report.contents.contains(.ticks) else { return [line("samples", "\(samples) in \(seconds) s")] }
    let dropouts = report.tables.compactMap { table in table.dropouts.map { "\($0) \(table.name)" } }
    return [
      line(
        "samples",
        "\(samples); \(counted(report.ticks.ticks, "tick")) in \(seconds) s, "
          + "\(report.ticks.ticks - report.ticks.wholeTicks) of them incomplete"),
      line("dropouts", dropouts.isEmpty ? "none" : dropouts.joined(separator: ", ")),
    ]
  }

  private static func clockLines(_ report: AnalysisReport) -> [String] {
    let (ticks, clock) = (report.ticks, report.ticks.clock)
    let certainty =
      clock.rateUncertainty.map { ", ± \(fixed($0 * 1e6, 0)) ppm" }
      ?? (clock.isLinkTooSlow ? ", or more" : ", uncertain")
    var lines = [
      line(
        "rate", "\(ticks.rate.map { fixed($0, 4) } ?? "?") ticks a second by the sensor's clock" + certainty),
      line(
        "clock",
        "timestamps late by \(milliseconds(clock.meanLateness)) ms on average, residual "
          + "\(milliseconds(clock.residual)) ms RMS, \(milliseconds(clock.earliest)) … "
          + "\(milliseconds(clock.latest)) ms"),
    ]
    if let uncertainty = clock.offsetUncertainty {
      lines.append(line("", "all times may be late by the same, at most \(milliseconds(uncertainty)) ms"))
    }
    lines.append(line("missing", missing(clock, isNumbered: report.ledger?.isNumbered ?? true)))
    if clock.restarts > 0 { lines.append(line("", "the clock restarted \(counted(clock.restarts, "time"))")) }
    return lines
  }

  /// Describes the missing samples.
  ///
  /// - Parameter isNumbered: whether the sensor numbers its samples, so that the recorder could detect every
  ///   missing sample.
  private static func missing(_ clock: ClockReport, isNumbered: Bool) -> String {
    if clock.isLinkTooSlow {
      return "unknown: the link is too slow for this rate. Use a shorter interval or a slower ring"
    }
    guard let most = clock.missingAtMost else {
      return (clock.missing > 0 ? "\(counted(clock.missing, "tick")) or more" : "unknown")
        + ": the arrival times do not show how many ticks the sensor made"
    }
    let doubtful = most - clock.missing
    guard clock.missing > 0 else {
      if doubtful > 0 { return "up to \(counted(doubtful, "tick"))" }
      return isNumbered ? "none" : "unknown: the arrival times are too uneven"
    }
    return "\(counted(clock.missing, "tick")) at \(counted(clock.gaps, "place")), "
      + "at most \(clock.longestGap) in a row" + (doubtful > 0 ? "; up to \(doubtful) more" : "")
  }

  // MARK: Heart

  private static func pulseLines(_ pulse: AnalysisReport.Pulse) -> [String] {
    if let refusal = pulse.refusal { return [line("pulse", "none: \(refusal)")] }
    let rejected = PulseRejection.allCases.compactMap { reason in
      pulse.rejections[reason].map { "\($0) \(reason.rawValue)" }
    }
    return [
      rateLine(pulse.rate),
      line(
        "beats",
        "\(pulse.beats), \(counted(pulse.acceptedIntervals, "interval")) accepted; "
          + windows(pulse.goodWindows, of: pulse.windows, rejected)),
    ] + respirationLines(pulse.respiration)
  }

  /// Returns the respiration lines; empty without half a minute of good beats.
  private static func respirationLines(_ found: AnalysisReport.Respiration) -> [String] {
    guard found.windows > 0 else { return [] }
    guard let rate = perMinute(found.rate) else {
      let reasons = RespirationAbsence.allCases.compactMap { absence in
        found.absences[absence].map { "\(absence.words) in \($0)" }
      }
      return [
        line(
          "breathing",
          "none in \(counted(found.windows, "window")) of 32 s: " + reasons.joined(separator: ", "))
      ]
    }
    return [line("breathing", "\(rate); \(found.rate.count) of \(counted(found.windows, "window")) of 32 s")]
  }

  private static func rateLine(_ rate: AnalysisReport.Rate) -> String {
    let share = "\(rate.withPulse) of \(counted(rate.windows, "window")) of 8 s"
    guard let pulse = perMinute(rate.pulse), let quality = rate.quality.mean else {
      var reasons = PulseAbsence.allCases.compactMap { absence in
        rate.absences[absence].map { "\(absence.words) in \($0)" }
      }
      if rate.withPulse > 0 { reasons.append("too doubtful in \(rate.withPulse)") }
      let why = reasons.isEmpty ? "" : ": " + reasons.joined(separator: ", ")
      return line("pulse", "none in \(counted(rate.windows, "window")) of 8 s" + why)
    }
    let methods = PulseMethod.allCases.compactMap { method in
      rate.methods[method].map { "\($0) by \(method.rawValue)" }
    }
    return line(
      "pulse", "\(pulse), quality \(fixed(quality, 2)); \(share) (\(methods.joined(separator: ", ")))")
  }

  private static func ecgLines(_ ecg: AnalysisReport.ECG) -> [String] {
    if let refusal = ecg.refusal { return [line("ecg", "none: \(refusal)")] }
    let rejected = ECGRejection.allCases.compactMap { reason in
      ecg.rejections[reason].map { "\($0) \(reason.rawValue)" }
    }
    let windows = windows(ecg.goodWindows, of: ecg.windows, rejected)
    guard let rate = perMinute(ecg.rate) else {
      let reasons = ECGRejection.allCases.compactMap { reason in
        ecg.rejections[reason].map { "\(reason.words) in \($0)" }
      }
      return [
        line(
          "ecg",
          "no heart rate in \(counted(ecg.windows, "window")) of 10 s: \(reasons.joined(separator: ", "))")
      ]
    }
    let correlation = ecg.correlation.mean.map { ", beat correlation \(fixed($0, 2))" } ?? ""
    return [
      line("ecg", "\(rate)\(correlation); \(windows)"),
      line("beats", "\(ecg.beats), \(counted(ecg.acceptedIntervals, "interval")) accepted"),
    ]
  }

  private static func heartRateLines(_ heartRate: AnalysisReport.HeartRate) -> [String] {
    let measurements = heartRate.contacts + heartRate.losses
    let contact =
      measurements > 0
      ? "contact in \(heartRate.contacts) of \(counted(measurements, "measurement"))"
      : "it does not report contact"
    let energy = heartRate.energy.map { "; \(fixed($0, 0)) kJ" } ?? ""
    let rate = perMinute(heartRate.rate) ?? "no measurement"
    return [line("heart", "\(rate) by the sensor; \(contact)\(energy)")]
  }

  private static func variabilityLines(_ variation: AnalysisReport.Variation) -> [String] {
    let summary = variation.summary.map { name, text in
      switch name {
      case "Intervals": text
      case "None", "Left out": "\(name.lowercased()): \(text)"
      case "Medians of": "\(name.lowercased()) \(text)"
      default: "\(name) \(text)"
      }
    }
    return [line("varies", "by \(variation.source.words): " + summary.joined(separator: ", "))]
  }

  // MARK: Other sensors

  private static func temperatureLines(_ temperature: AnalysisReport.Temperature) -> [String] {
    var lines: [String] = []
    if let mean = temperature.body.mean, let last = temperature.body.last {
      lines.append(
        line(
          "body",
          "\(fixed(mean, 2)) °C on average, \(range(temperature.body, 2)), the last \(fixed(last, 2))"))
    } else {
      lines.append(line("body", "no temperature"))
    }
    if temperature.skin.count > 0 { lines.append(line("skin", "\(range(temperature.skin, 2)) °C")) }
    lines += temperature.readings.map { line($0.name.lowercased(), $0.text) }
    return lines
  }

  private static func cyclingLines(_ cycling: AnalysisReport.Cycling) -> [String] {
    func text(_ name: String, _ turning: NumberRange, _ turns: Double?) -> String? {
      guard let turns else { return nil }
      let rate = perMinute(turning).map { "\($0) while it turned" } ?? "it did not turn"
      return line(name, "\(rate); \(fixed(turns, 0)) turns")
    }
    let lines = [
      text("cadence", cycling.cadence, cycling.crankRevolutions),
      text("wheel", cycling.wheel, cycling.wheelRevolutions),
    ].compactMap(\.self)
    let restarts =
      cycling.restarts == 0
      ? []
      : [
        line(
          "",
          "its counts restarted or went back \(cycling.restarts) "
            + "\(cycling.restarts == 1 ? "time" : "times"): no rate there"
        )
      ]
    return (lines.isEmpty ? [line("cycling", "nothing was counted")] : lines) + restarts
  }

  private static func valueLine(_ table: String, _ column: AnalysisReport.Table.Column) -> String {
    guard let mean = column.range.mean else { return line(table, "\(column.name): no value") }
    let unit = column.unit.isEmpty ? "" : " " + column.unit
    return line(
      table, "\(column.name) \(fixed(mean, 3)) on average, \(range(column.range, 3))\(unit)")
  }

  private static func activityLines(_ activity: AnalysisReport.Activity) -> [String] {
    if let refusal = activity.refusal { return [line("movement", "none: \(refusal)")] }
    let steps = activity.steps.map { counted($0, "step") } ?? "too slow for steps"
    var lines = [
      line(
        "movement",
        "\(fixed(activity.counts, 0)) counts in \(counted(activity.minutes, "minute")), "
          + "\(fixed(activity.enmo, 1)) mg, \(steps)")
    ]
    if activity.hasRest {
      let rest = activity.rest
      lines.append(
        line(
          "rest",
          "\(counted(rest[.asleep, default: 0], "minute")) at rest, \(rest[.awake, default: 0]) awake, "
            + "\(rest[.unknown, default: 0]) unknown (Cole and Kripke's rule; an estimate)"))
    } else {
      lines.append(line("rest", "too short: needs \(counted(SleepRule.minimumMinutes, "minute"))"))
    }
    return lines
  }

  // MARK: Words

  /// Returns a line with a padded label.
  private static func line(_ name: String, _ text: String) -> String {
    name + String(repeating: " ", count: max(1, 10 - name.count)) + text
  }

  private static func windows(_ good: Int, of all: Int, _ rejected: [String]) -> String {
    "\(good) of \(counted(all, "window")) of 10 s good"
      + (rejected.isEmpty ? "" : " (rejected: \(rejected.joined(separator: ", ")))")
  }

  private static func perMinute(_ numbers: NumberRange) -> String? {
    numbers.mean.map { "\(fixed($0, 1)) a minute on average, \(range(numbers, 1))" }
  }

  private static func range(_ numbers: NumberRange, _ decimals: Int) -> String {
    "\(fixed(numbers.lowest ?? 0, decimals)) … \(fixed(numbers.highest ?? 0, decimals))"
  }

  private static func fixed(_ number: Double, _ decimals: Int) -> String {
    NumberText.fixed(number, decimals)
  }

  private static func milliseconds(_ nanoseconds: Double) -> String { fixed(nanoseconds / 1e6, 2) }
}
