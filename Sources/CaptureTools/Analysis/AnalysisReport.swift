package import BLECore
package import ColmiRing
package import JSONText
package import Physiology
package import Recording

/// What is in a capture, in numbers.
package struct AnalysisReport: Sendable {
  package struct Table: Sendable {
    package var stream: RingStream
    package var rows: Int
    /// Of these, those without a reading of the light; `nil` for what has none.
    package var dropouts: Int?
    /// Why its rows end before the file does, or why there are none.
    package var problem: String?
    /// Its share of the ticks.
    package var part = TickReport.Part()
  }

  /// The pulse at rest and in motion, over windows of eight seconds.
  package struct Rate: Sendable {
    package var windows = 0
    /// Windows with a pulse, by method.
    package var methods: [PulseMethod: Int] = [:]
    package var absences: [PulseAbsence: Int] = [:]
    package var withPulse: Int { methods.values.reduce(0, +) }
    /// Over the windows with a pulse: beats a minute, and their quality.
    package var mean: Double? { withPulse > 0 ? sum / Double(withPulse) : nil }
    package var meanQuality: Double? { withPulse > 0 ? qualities / Double(withPulse) : nil }
    package var lowest: Double?
    package var highest: Double?
    private var sum = 0.0
    private var qualities = 0.0

    mutating func add(_ window: PulseRateWindow) {
      windows += 1
      if let absence = window.absence { absences[absence, default: 0] += 1 }
      guard let pulse = window.pulse else { return }
      methods[pulse.method, default: 0] += 1
      sum += pulse.beatsPerMinute
      qualities += pulse.quality
      lowest = min(lowest ?? pulse.beatsPerMinute, pulse.beatsPerMinute)
      highest = max(highest ?? pulse.beatsPerMinute, pulse.beatsPerMinute)
    }

    func encode(into line: inout JSONLine) {
      line.member("windows", windows)
      line.member("windowsWithPulse", withPulse)
      for method in PulseMethod.allCases { line.member(method.rawValue, methods[method, default: 0]) }
      line.member("none") { line in
        for absence in PulseAbsence.allCases {
          if let count = absences[absence] { line.member(absence.rawValue, count) }
        }
      }
      if let mean { line.member("meanPerMinute", mean) }
      if let lowest { line.member("lowestPerMinute", lowest) }
      if let highest { line.member("highestPerMinute", highest) }
      if let meanQuality { line.member("meanQuality", meanQuality) }
    }
  }

  package struct Pulse: Sendable {
    package var rate = Rate()
    /// Why no pulse was looked for.
    package var refusal: String?
    package var windows = 0
    package var goodWindows = 0
    package var rejections: [PulseRejection: Int] = [:]
    package var beats = 0
    package var acceptedIntervals = 0
    /// Over the good windows, beats a minute.
    package var mean: Double? { goodWindows > 0 ? sum / Double(goodWindows) : nil }
    package var lowest: Double?
    package var highest: Double?
    private var sum = 0.0

    mutating func add(_ window: PulseWindow) {
      windows += 1
      beats += window.beats
      if let rejection = window.rejection { rejections[rejection, default: 0] += 1 }
      guard let rate = window.beatsPerMinute else { return }
      goodWindows += 1
      sum += rate
      lowest = min(lowest ?? rate, rate)
      highest = max(highest ?? rate, rate)
    }
  }

  package struct Activity: Sendable {
    /// Why nothing was counted.
    package var refusal: String?
    package var minutes = 0
    package var counts = 0.0
    package var enmo: Double { minutes > 0 ? enmoSum / Double(minutes) : 0 }
    /// `nil` where the rate is too low for steps.
    package var steps: Int?
    package var rest: [RestState: Int] = [:]
    private var enmoSum = 0.0

    /// Whether there are minutes enough to speak of rest.
    package var hasRest: Bool {
      rest[.asleep, default: 0] + rest[.awake, default: 0] >= SleepRule.minimumMinutes
    }

    mutating func add(_ epoch: ActivityEpoch) {
      minutes += 1
      counts += epoch.counts
      enmoSum += epoch.enmo
    }
  }

  package var tables: [Table] = []
  package var ticks = TickReport()
  package var start: ReceiveTime?
  package var end: ReceiveTime?
  package var pulse = Pulse()
  package var activity = Activity()

  /// What is wrong with the tables.
  package var problems: [String] { tables.compactMap(\.problem) }

  package func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("streams") { line in
        for table in tables {
          line.member(table.stream.name) { line in
            line.member("samples", table.rows)
            if let dropouts = table.dropouts { line.member("dropouts", dropouts) }
            if let problem = table.problem { line.member("problem", problem) }
            table.part.encode(into: &line)
          }
        }
      }
      line.member("ticks", ticks.ticks)
      line.member("wholeTicks", ticks.wholeTicks)
      if let start { line.member("startNs", start) }
      if let end { line.member("endNs", end) }
      if let rate = ticks.rate { line.member("rateHz", rate) }
      line.member("clock") { line in ticks.encodeClock(into: &line) }
      encodePulse(&line)
      encodeActivity(&line)
    }
    line.endLine()
  }

  private func encodePulse(_ line: inout JSONLine) {
    line.member("pulse") { line in
      if let refusal = pulse.refusal { return line.member("refused", refusal) }
      line.member("rate") { line in pulse.rate.encode(into: &line) }
      line.member("windows", pulse.windows)
      line.member("goodWindows", pulse.goodWindows)
      line.member("rejected") { line in
        for reason in PulseRejection.allCases {
          if let count = pulse.rejections[reason] { line.member(reason.rawValue, count) }
        }
      }
      if let mean = pulse.mean { line.member("meanPerMinute", mean) }
      if let lowest = pulse.lowest { line.member("lowestPerMinute", lowest) }
      if let highest = pulse.highest { line.member("highestPerMinute", highest) }
      line.member("beats", pulse.beats)
      line.member("acceptedIntervals", pulse.acceptedIntervals)
    }
  }

  private func encodeActivity(_ line: inout JSONLine) {
    line.member("activity") { line in
      if let refusal = activity.refusal { return line.member("refused", refusal) }
      line.member("minutes", activity.minutes)
      line.member("counts", activity.counts)
      line.member("enmoMilliG", activity.enmo)
      if let steps = activity.steps { line.member("steps", steps) }
      guard activity.hasRest else { return }
      line.member("restMinutes") { line in
        for state in [RestState.asleep, .awake, .unknown] {
          line.member(state.rawValue, activity.rest[state, default: 0])
        }
      }
    }
  }
}
