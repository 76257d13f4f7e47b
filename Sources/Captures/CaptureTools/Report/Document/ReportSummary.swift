import BLEWire
import JSONText
import Physiology
import Recording

extension ReportSection {
  /// Key number in the summary of a section.
  struct Figure: Hashable, Sendable {
    var name: String
    /// Number or word to show.
    var value: String
    var unit = ""
    /// Short explanation.
    var detail = ""
    /// Whether the figure shows missing data.
    var isBad = false
  }

  /// Figures at the top of the section: results of the analysis, then the amount of recorded and missing
  /// data.
  var summary: [Figure] { figures + [duration, samples, dropouts, lost, gaps].compactMap(\.self) }

  // MARK: Recorded data

  private var recorded: [ReportTable] { tables.filter { !$0.isDerived }.map(\.table) }

  private var duration: Figure? {
    guard end > start else { return nil }
    return Figure(
      name: "Duration", value: ReportText.length(ReportText.difference(start, end)),
      detail: "from \(UTCText(start).iso)")
  }

  private var samples: Figure? {
    let tables = recorded.filter { $0.count > 0 }
    guard !tables.isEmpty else { return nil }
    var details = tables.count == 1 ? [] : [counted(tables.count, "stream")]
    let rates = tables.compactMap(rate)
    if let least = rates.min(), let most = rates.max() {
      let ends = [least, most].map { NumberText.fixed($0, 1) }
      let each = tables.count == 1 ? ends[0] : "each \(ends[0])"
      details.append((ends[0] == ends[1] ? each : ends.joined(separator: " … ")) + " a second")
    }
    return Figure(
      name: "Samples", value: ReportText.grouped(tables.reduce(0) { $0 + $1.count }),
      detail: details.joined(separator: ", "))
  }

  /// Returns the number of rows per second outside gaps.
  private func rate(of table: ReportTable) -> Double? {
    guard let rate = table.rate, let first = table.first else { return nil }
    let gaps = marks.filter { $0.kind == .gap && $0.from < table.last && $0.to > first }
    let inGaps = gaps.reduce(0.0) { $0 + Double(min($1.to, table.last)) - Double(max($1.from, first)) } / 1e9
    let steps = table.count - 1 - gaps.count
    let seconds = Double(table.count - 1) / rate - inGaps
    return steps > 0 && seconds > 0 ? Double(steps) / seconds : rate
  }

  /// Number of dropouts in tables of light. Other sensors send nothing if they have no reading.
  private var dropouts: Figure? {
    let names = RingStream.allCases.filter(\.hasDropouts).map(\.name)
    let lights = recorded.filter { names.contains($0.name) && $0.count > 0 }
    guard !lights.isEmpty else { return nil }
    let counts = lights.map {
      (ReportText.title($0.name), $0.count - ($0.columns.first?.values ?? 0), $0.count)
    }
    let total = counts.reduce(0) { $0 + $1.1 }
    let shares = counts.filter { $0.1 > 0 }.map { name, count, rows in
      "\(NumberText.fixed(100 * Double(count) / Double(rows), 1)) % of \(name)"
    }
    return Figure(
      name: "Dropouts", value: total == 0 ? "none" : ReportText.grouped(total),
      detail: total == 0 ? "" : "samples without a reading: \(shares.joined(separator: ", "))")
  }

  // MARK: Legend

  /// Returns a legend of the marks drawn behind the samples of a period; empty without marks.
  func legend(in stretch: ClosedRange<Int64>) -> String {
    let kinds = Set(marks.filter { $0.isDrawn && $0.overlaps(stretch) }.map(\.kind))
    var parts: [String] = []
    let shaded = [kinds.contains(.gap) ? "gaps (orange)" : nil, kinds.contains(.loss) ? "losses (red)" : nil]
    if shaded.contains(where: { $0 != nil }) {
      parts.append("Shaded: " + shaded.compactMap(\.self).joined(separator: ", ") + ".")
    }
    if kinds.contains(.event) { parts.append("Grey lines: events.") }
    return parts.joined(separator: " ")
  }

  // MARK: Missing data

  /// All known losses, marked or not.
  var allLosses: [Loss] {
    (marks.compactMap(\.loss) + unmarkedLosses).filter { $0.count > 0 && !(knowsMissing && $0.unit == .tick) }
  }

  var gapCount: Int { marks.count { $0.kind == .gap } + unmarkedGaps }

  private var lost: Figure? {
    guard !allLosses.isEmpty else {
      guard knowsLosses else { return Figure(name: "Lost", value: "not known", isBad: true) }
      return isNumbered
        ? Figure(name: "Lost", value: "nothing")
        : Figure(name: "Dropped here", value: "nothing", detail: "whether the sensor sent more is not known")
    }
    let stretches = marks.count { $0.kind == .loss }
    return Figure(
      name: "Lost", value: Loss.text(allLosses),
      detail: stretches == 0 ? "" : "at \(counted(stretches, "place"))", isBad: true)
  }

  private var gaps: Figure? {
    guard gapCount > 0 else {
      return Figure(name: "Gaps", value: knowsLosses ? "none" : "not known", isBad: !knowsLosses)
    }
    let lengths = marks.filter { $0.kind == .gap }.map { ReportText.difference($0.from, $0.to) }
    let length = lengths.reduce(0 as Int64, &+)
    return Figure(
      name: "Gaps", value: "\(gapCount)",
      detail: ReportText.length(length) + " without data"
        + (unmarkedGaps > 0 ? ", of \(lengths.count) that are listed" : ""), isBad: true)
  }

  /// Extends each gap of a log to the last sample before it and the first sample after it. The log contains
  /// only the times at which the loss was detected and the next link was established. Samples of other links
  /// are ignored.
  mutating func widenGaps() {
    let streams = tables.filter { !$0.isDerived }.map { $0.table.times(in: 0..<$0.table.count) }
    let places = marks.indices.filter { marks[$0].kind == .gap }.sorted { marks[$0].from < marks[$1].from }
    let known = places.map { (from: marks[$0].from, to: marks[$0].to) }
    for (index, place) in places.enumerated() {
      let begin = index > 0 ? known[index - 1].to : .min
      let end = index + 1 < known.count ? known[index + 1].from : .max
      let before = streams.compactMap { times in
        times[..<Self.place(times) { $0 > known[index].from }].last
      }
      let after = streams.compactMap { times in
        times[Self.place(times) { $0 >= known[index].to }...].first
      }
      if let last = before.max(), last >= begin { marks[place].from = last }
      if let first = after.min(), first <= end { marks[place].to = first }
    }
  }

  /// Returns the index of the first late time. All later times are late too.
  private static func place(_ times: [Int64], _ isLate: (Int64) -> Bool) -> Int {
    var (low, high) = (0, times.count)
    while low < high {
      let middle = (low + high) / 2
      if isLate(times[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }

  /// Merges a loss into the mark of a gap if the lost data was due in the gap, or if the loss was detected
  /// close to the gap.
  mutating func joinLossesToGaps() {
    let gaps = marks.indices.filter { marks[$0].kind == .gap }
    var missing: [Int: Int] = [:]
    marks = marks.enumerated().filter { _, mark in
      guard mark.kind == .loss, let loss = mark.loss, loss.unit == .tick,
        let gap = gaps.first(where: {
          marks[$0].covers(mark.from...max(mark.from, mark.to), within: SessionReport.gapDoubt)
        })
      else { return true }
      missing[gap, default: 0] += loss.count
      return false
    }.map { index, mark in
      var mark = mark
      if let ticks = missing[index] { mark.text += "; \(counted(ticks, "tick")) never came" }
      return mark
    }
    doubtUnprovenLosses()
  }
}

extension ReportSection {
  /// Changes the marks of missing ticks to pauses if no loss is proven.
  private mutating func doubtUnprovenLosses() {
    guard allLosses.isEmpty else { return }
    for index in marks.indices where marks[index].kind == .loss {
      marks[index].kind = .pause
      guard let loss = marks[index].loss else { continue }
      marks[index].text = "\(counted(loss.count, "tick")) of the sensor may be missing"
      marks[index].loss = nil
    }
  }
}

extension ReportSection.Mark {
  /// Whether the mark is drawn behind all plots. Pauses of one stream are not, because they may be normal;
  /// nor are rejected samples, because they arrived.
  var isDrawn: Bool { kind != .rejected && kind != .pause }

  func overlaps(_ stretch: ClosedRange<Int64>) -> Bool {
    to >= stretch.lowerBound && from <= stretch.upperBound
  }

  /// Returns whether the mark covers more than half of the range.
  ///
  /// - Parameters:
  ///   - range: range of times, in nanoseconds.
  ///   - slack: time by which the mark is extended on both sides, in nanoseconds.
  func covers(_ range: ClosedRange<Int64>, within slack: Int64 = 0) -> Bool {
    let length = Double(range.upperBound) - Double(range.lowerBound)
    let (from, to) = (Double(from) - Double(slack), Double(to) + Double(slack))
    return 2 * (min(to, Double(range.upperBound)) - max(from, Double(range.lowerBound))) > length
  }
}

extension ReportSection.Loss {
  /// Returns a summary of losses, such as `26 ticks, 7 notifications`.
  static func text(_ losses: [Self]) -> String {
    Unit.allCases.compactMap { unit in
      let count = losses.filter { $0.unit == unit }.reduce(0) { $0 + $1.count }
      return count > 0 ? "\(ReportText.grouped(count)) \(unit.rawValue)\(count == 1 ? "" : "s")" : nil
    }.joined(separator: ", ")
  }
}

extension AnalysisReport {
  /// Key results for the summary, for each kind of sensor.
  var figures: [ReportSection.Figure] {
    var figures: [ReportSection.Figure] = []
    func add(_ name: String, _ found: NumberRange, _ unit: String, _ detail: String, none: String? = nil) {
      guard let mean = found.mean, let lowest = found.lowest, let highest = found.highest else {
        if let none { figures.append(ReportSection.Figure(name: name, value: "none", detail: none)) }
        return
      }
      let range = "\(NumberText.fixed(lowest, 1)) … \(NumberText.fixed(highest, 1))"
      figures.append(
        ReportSection.Figure(
          name: name, value: NumberText.fixed(mean, 1), unit: unit,
          detail: detail.isEmpty ? range : "\(range), \(detail)"))
    }
    if contents.contains(.pulse) {
      let quality = pulse.rate.quality.mean.map { "quality \(NumberText.fixed($0, 2)), " } ?? ""
      add(
        "Pulse", pulse.rate.pulse, "per minute",
        "\(quality)in \(pulse.rate.withPulse) of \(counted(pulse.rate.windows, "window"))",
        none: pulse.refusal ?? "in \(counted(pulse.rate.windows, "window"))")
    }
    if contents.contains(.ecg) {
      add(
        "Heart rate by the ECG", ecg.rate, "per minute",
        "in \(ecg.goodWindows) of \(counted(ecg.windows, "window"))",
        none: ecg.refusal ?? "in \(counted(ecg.windows, "window"))")
    }
    if contents.contains(.heartRate) { add("Heart rate", heartRate.rate, "per minute", "") }
    figures += variability.compactMap(\.figure)
    if contents.contains(.temperature) { add("Temperature", temperature.body, "°C", "") }
    if contents.contains(.cycling) { add("Cadence", cycling.cadence, "per minute", "") }
    return figures
  }
}

extension AnalysisReport.Variation {
  /// Median over all good segments, or the reason why it is missing; `nil` without segments.
  fileprivate var figure: ReportSection.Figure? {
    let by = "by \(source.words)"
    guard let median = median({ $0.successiveMilliseconds }) else {
      return refusal.map { ReportSection.Figure(name: "RMSSD", value: "none", detail: "\(by): \($0)") }
    }
    let count = segments.count + laterSegments
    return ReportSection.Figure(
      name: "RMSSD", value: NumberText.fixed(median, 1), unit: "ms",
      detail: count > 1
        ? "\(by), median of \(good.count) of \(counted(count, "stretch", "stretches")) of five minutes" : by)
  }
}
