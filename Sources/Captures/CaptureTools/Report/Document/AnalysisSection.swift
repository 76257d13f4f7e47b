import BLEWire
import ColmiRing
import JSONText
import Physiology
import Recording

/// Builds charts and facts from the results of an analysis.
enum AnalysisSection {
  static func add(_ report: AnalysisReport, _ findings: AnalysisFindings, to section: inout ReportSection) {
    section.figures += report.figures
    section.sensorTimes = RingStream.allCases.map { ($0.name, findings.ringTimes[$0.rawValue]) }
    if report.contents.contains(.pulse) { addPulse(report.pulse, findings, to: &section) }
    if report.contents.contains(.ecg) { addECG(report.ecg, findings, to: &section) }
    if report.contents.contains(.heartRate) { addHeartRate(report.heartRate, to: &section) }
    for variation in report.variability { addVariability(variation, to: &section) }
    if report.contents.contains(.temperature) { addTemperature(report.temperature, to: &section) }
    if report.contents.contains(.cycling) { addCycling(report.cycling, to: &section) }
    if report.contents.contains(.activity) { addActivity(report.activity, findings, to: &section) }
    for gap in findings.gaps {
      section.marks.append(
        ReportSection.Mark(
          from: gap.after.nanoseconds, to: gap.before.nanoseconds, kind: .loss,
          text: "\(counted(gap.ticks, "tick")) of the sensor never came",
          loss: ReportSection.Loss(count: gap.ticks, unit: .tick)))
    }
    let unlisted = report.ticks.clock.gaps - findings.gaps.count
    if unlisted > 0 {
      let listed = findings.gaps.reduce(0) { $0 + $1.ticks }
      section.unmarkedLosses.append(
        ReportSection.Loss(count: report.ticks.clock.missing - listed, unit: .tick))
      section.problems.append(
        ReportProblem(.note, "\(unlisted) later stretches with missing ticks are counted, not marked."))
    }
  }

  private static func addPulse(
    _ pulse: AnalysisReport.Pulse, _ findings: AnalysisFindings, to section: inout ReportSection
  ) {
    var facts = ReportSection.Facts(title: "Pulse")
    facts.add("None", pulse.refusal)
    let found = pulse.rate
    if let mean = found.pulse.mean, let quality = found.quality.mean {
      facts.add("Mean", "\(NumberText.fixed(mean, 1)) per minute, quality \(NumberText.fixed(quality, 2))")
      facts.add("Range", range(found.pulse, "per minute"))
      facts.add("Windows with a pulse", "\(found.withPulse) of \(found.windows)")
    }
    if pulse.refusal == nil {
      facts.add("Windows with good beats", "\(pulse.goodWindows) of \(pulse.windows)")
      for rejection in PulseRejection.allCases {
        facts.add("Rejected", pulse.rejections[rejection].map { "\($0) × \(rejection.rawValue)" })
      }
      facts.add("Beats", "\(pulse.beats), \(counted(pulse.acceptedIntervals, "interval")) accepted")
    }
    section.facts.append(facts)

    var rate = ReportTable(
      "pulse",
      [
        ReportTable.Column(name: "pulse", unit: "per minute", divisor: 100),
        ReportTable.Column(name: "quality", unit: "share that is right", divisor: 1_000),
      ])
    for window in findings.rates {
      let middle = window.start.nanoseconds &+ (window.end.nanoseconds &- window.start.nanoseconds) / 2
      rate.append(at: middle, [window.pulse?.beatsPerMinute, window.pulse?.quality])
    }
    for window in findings.windows {
      guard let rejection = window.rejection else { continue }
      section.marks.append(
        ReportSection.Mark(
          from: window.start.nanoseconds, to: window.end.nanoseconds, kind: .rejected,
          text: "no beats: \(rejection.rawValue)"))
    }
    section.add(rate, title: "Pulse", style: .dots, isDerived: true)
    addIntervals(
      "beats", findings.beats.filter(\.isAccepted).map { ($0.time, $0.interval) }, title: "Beat to beat",
      to: &section)
  }

  private static func addIntervals(
    _ name: String, _ beats: [(time: ReceiveTime, interval: Double?)], title: String,
    to section: inout ReportSection
  ) {
    var intervals = ReportTable(name, [ReportTable.Column(name: "interval", unit: "ms", divisor: 100)])
    for beat in beats { intervals.append(at: beat.time.nanoseconds, [beat.interval.map { $0 * 1_000 }]) }
    section.add(intervals, title: title, style: .dots, isDerived: true)
  }

  private static func addECG(
    _ ecg: AnalysisReport.ECG, _ findings: AnalysisFindings, to section: inout ReportSection
  ) {
    var facts = ReportSection.Facts(title: "ECG")
    facts.add("None", ecg.refusal)
    facts.add("Heart rate", mean(ecg.rate, 1, "per minute"))
    facts.add("Range", range(ecg.rate, "per minute"))
    if ecg.refusal == nil {
      facts.add("Good windows", "\(ecg.goodWindows) of \(ecg.windows)")
      facts.add("Beat correlation", ecg.correlation.mean.map { NumberText.fixed($0, 2) })
      for rejection in ECGRejection.allCases {
        facts.add("Rejected", ecg.rejections[rejection].map { "\($0) × \(rejection.rawValue)" })
      }
      facts.add("Beats", "\(ecg.beats), \(counted(ecg.acceptedIntervals, "interval")) accepted")
    }
    section.facts.append(facts)

    var rate = ReportTable(
      "ecg_rate", [ReportTable.Column(name: "heart rate", unit: "per minute", divisor: 100)])
    for window in findings.ecgWindows {
      let middle = window.start.nanoseconds &+ (window.end.nanoseconds &- window.start.nanoseconds) / 2
      rate.append(at: middle, [window.beatsPerMinute])
    }
    section.add(rate, title: "Heart rate by the ECG", style: .dots, isDerived: true)
    addIntervals(
      "ecg_beats", findings.ecgBeats.filter(\.isAccepted).map { ($0.time, $0.interval) },
      title: "Beat to beat by the ECG", to: &section)
  }

  private static func addHeartRate(_ heartRate: AnalysisReport.HeartRate, to section: inout ReportSection) {
    var facts = ReportSection.Facts(title: "Heart rate")
    facts.add("Mean", mean(heartRate.rate, 1, "per minute"))
    facts.add("Range", range(heartRate.rate, "per minute"))
    let measurements = heartRate.contacts + heartRate.losses
    facts.add(
      "Contact",
      measurements > 0 ? "in \(heartRate.contacts) of \(counted(measurements, "measurement"))" : nil)
    facts.add("Energy", heartRate.energy.map { "\(NumberText.fixed($0, 0)) kJ" })
    if !facts.rows.isEmpty { section.facts.append(facts) }
  }

  private static func addVariability(
    _ variation: AnalysisReport.Variation, to section: inout ReportSection
  ) {
    var facts = ReportSection.Facts(title: "Variability by \(variation.source.words)")
    for (name, text) in variation.summary { facts.add(name, text) }
    section.facts.append(facts)
    var table = ReportTable(
      "variability_\(variation.source.rawValue)",
      [
        ReportTable.Column(name: "RMSSD", unit: "ms", divisor: 100),
        ReportTable.Column(name: "SDNN", unit: "ms", divisor: 100),
      ])
    for segment in variation.segments {
      let found = try? segment.result.get()
      let middle = segment.start.nanoseconds &+ (segment.end.nanoseconds &- segment.start.nanoseconds) / 2
      table.append(at: middle, [found?.successiveMilliseconds, found?.deviationMilliseconds])
    }
    // A chart requires at least two segments.
    guard variation.good.count > 1 else { return }
    section.add(
      table, title: "Variability by \(variation.source.words)", style: .dots, isDerived: true)
  }

  private static func addTemperature(
    _ temperature: AnalysisReport.Temperature, to section: inout ReportSection
  ) {
    var facts = ReportSection.Facts(title: "Temperature")
    facts.add("Last", temperature.body.last.map { "\(NumberText.fixed($0, 2)) °C" })
    facts.add("Mean", mean(temperature.body, 2, "°C"))
    facts.add("Range", range(temperature.body, "°C", 2))
    facts.add("Skin", range(temperature.skin, "°C", 2))
    for (name, text) in temperature.readings { facts.add(name, text) }
    section.facts.append(facts)
  }

  private static func addCycling(_ cycling: AnalysisReport.Cycling, to section: inout ReportSection) {
    var facts = ReportSection.Facts(title: "Cycling")
    for (name, range, turns) in [
      ("Cadence", cycling.cadence, cycling.crankRevolutions),
      ("Wheel", cycling.wheel, cycling.wheelRevolutions),
    ] {
      facts.add(name, mean(range, 1, "per minute while it turned"))
      facts.add("\(name), range", self.range(range, "per minute"))
      facts.add("\(name), turns", turns.map { NumberText.fixed($0, 0) })
    }
    section.facts.append(facts)
  }

  private static func mean(_ range: NumberRange, _ decimals: Int, _ unit: String) -> String? {
    range.mean.map { "\(NumberText.fixed($0, decimals)) \(unit)" }
  }

  private static func range(_ range: NumberRange, _ unit: String, _ decimals: Int = 1) -> String? {
    guard let lowest = range.lowest, let highest = range.highest else { return nil }
    return "\(NumberText.fixed(lowest, decimals)) … \(NumberText.fixed(highest, decimals)) \(unit)"
  }

  private static func addActivity(
    _ activity: AnalysisReport.Activity, _ findings: AnalysisFindings, to section: inout ReportSection
  ) {
    var facts = ReportSection.Facts(title: "Activity")
    facts.add("None", activity.refusal)
    if activity.refusal == nil, activity.minutes > 0 {
      facts.add("Counts", NumberText.fixed(activity.counts, 0))
      facts.add("ENMO", "\(NumberText.fixed(activity.enmo, 1)) mg")
      facts.add("Steps", activity.steps.map { "\($0)" })
      if activity.hasRest {
        let rest = activity.rest
        facts.add("At rest", "\(rest[.asleep, default: 0]) min of \(activity.minutes) min (an estimate)")
      }
    }
    if !facts.rows.isEmpty { section.facts.append(facts) }
    var minutes = ReportTable(
      "activity",
      [
        ReportTable.Column(name: "counts", unit: "counts a minute", divisor: 10),
        ReportTable.Column(name: "ENMO", unit: "mg", divisor: 100),
      ])
    for epoch in findings.minutes { minutes.append(at: epoch.start.nanoseconds, [epoch.counts, epoch.enmo]) }
    section.add(minutes, title: "Activity", style: .steps, isDerived: true)
  }
}
