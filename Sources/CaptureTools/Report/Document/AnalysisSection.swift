import BLECore
import ColmiRing
import Physiology
import Recording

/// What an analysis finds, as charts and facts.
enum AnalysisSection {
  static func add(_ report: AnalysisReport, _ findings: AnalysisFindings, to section: inout ReportSection) {
    addPulse(report.pulse, findings, to: &section)
    addActivity(report.activity, findings, to: &section)
    for gap in findings.gaps {
      section.marks.append(
        ReportSection.Mark(
          from: gap.after.nanoseconds, to: gap.before.nanoseconds, kind: .loss,
          text: "\(ReportText.count(gap.ticks, "tick")) of the sensor never came"))
    }
    let unlisted = report.ticks.clock.gaps - findings.gaps.count
    if unlisted > 0 {
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
    if let mean = found.mean, let lowest = found.lowest, let highest = found.highest,
      let quality = found.meanQuality
    {
      facts.add("Mean", "\(NumberText.fixed(mean, 1)) per minute, quality \(NumberText.fixed(quality, 2))")
      facts.add("Range", "\(NumberText.fixed(lowest, 1)) … \(NumberText.fixed(highest, 1)) per minute")
      facts.add("Windows with a pulse", "\(found.withPulse) of \(found.windows)")
    }
    if pulse.refusal == nil {
      facts.add("Windows with good beats", "\(pulse.goodWindows) of \(pulse.windows)")
      for rejection in PulseRejection.allCases {
        facts.add("Rejected", pulse.rejections[rejection].map { "\($0) × \(rejection.rawValue)" })
      }
      facts.add("Beats", "\(pulse.beats), \(pulse.acceptedIntervals) intervals accepted")
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
    var intervals = ReportTable(
      "beats", [ReportTable.Column(name: "interval", unit: "ms", divisor: 100)])
    for beat in findings.beats where beat.isAccepted {
      intervals.append(at: beat.time.nanoseconds, [beat.interval.map { $0 * 1000 }])
    }
    section.add(intervals, title: "Beat to beat", style: .dots, isDerived: true)
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
