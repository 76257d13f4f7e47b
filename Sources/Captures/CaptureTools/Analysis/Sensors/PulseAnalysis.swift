import BLELinux
import BLEWire
import JSONText
package import Physiology
import Recording

extension AnalysisReport {
  /// Pulse at rest and in motion, from windows of eight seconds.
  package struct Rate: Sendable {
    package var windows = 0
    /// Number of windows with a pulse, by method.
    package var methods: [PulseMethod: Int] = [:]
    package var absences: [PulseAbsence: Int] = [:]
    /// Pulse in beats per minute, from the windows with a quality of at least `leastQuality`. Such a pulse is
    /// more likely right than wrong.
    package var pulse = NumberRange()
    package var quality = NumberRange()
    package var withPulse: Int { quality.count }
    /// Minimum quality of a window for `pulse`.
    package static let leastQuality = 0.5

    mutating func add(_ window: PulseRateWindow) {
      windows += 1
      if let absence = window.absence { absences[absence, default: 0] += 1 }
      guard let found = window.pulse else { return }
      methods[found.method, default: 0] += 1
      if found.quality >= Self.leastQuality { pulse.add(found.beatsPerMinute) }
      quality.add(found.quality)
    }

    func encode(into line: inout JSONLine) {
      line.member("windows", windows)
      line.member("windowsWithPulse", withPulse)
      line.member("windowsInAverage", pulse.count)
      for method in PulseMethod.allCases { line.member(method.rawValue, methods[method, default: 0]) }
      line.member("none") { line in
        for absence in PulseAbsence.allCases {
          if let count = absences[absence] { line.member(absence.rawValue, count) }
        }
      }
      pulse.encode("PerMinute", into: &line)
      if let mean = quality.mean { line.member("meanQuality", mean) }
    }
  }

  /// Breathing rate at rest, from windows of half a minute with good beats.
  package struct Respiration: Sendable {
    package var windows = 0
    package var absences: [RespirationAbsence: Int] = [:]
    /// Breathing rate in breaths per minute, from the windows with a rate.
    package var rate = NumberRange()

    mutating func add(_ window: RespirationWindow) {
      windows += 1
      if let absence = window.absence { absences[absence, default: 0] += 1 }
      rate.add(window.breathsPerMinute)
    }

    func encode(into line: inout JSONLine) {
      line.member("windows", windows)
      line.member("windowsWithRate", rate.count)
      line.member("none") { line in
        for absence in RespirationAbsence.allCases {
          if let count = absences[absence] { line.member(absence.rawValue, count) }
        }
      }
      rate.encode("PerMinute", into: &line)
    }
  }

  package struct Pulse: Sendable {
    package var rate = Rate()
    package var respiration = Respiration()
    /// Reason why no pulse was measured.
    package var refusal: String?
    package var windows = 0
    package var rejections: [PulseRejection: Int] = [:]
    package var beats = 0
    package var acceptedIntervals = 0
    /// Pulse in beats per minute, from windows with good beats.
    package var good = NumberRange()
    package var goodWindows: Int { good.count }

    mutating func add(_ window: PulseWindow) {
      windows += 1
      beats += window.beats
      if let rejection = window.rejection { rejections[rejection, default: 0] += 1 }
      good.add(window.beatsPerMinute)
    }

    func encode(into line: inout JSONLine) {
      if let refusal { return line.member("refused", refusal) }
      line.member("rate") { line in rate.encode(into: &line) }
      line.member("windows", windows)
      line.member("goodWindows", goodWindows)
      line.member("rejected") { line in
        for reason in PulseRejection.allCases {
          if let count = rejections[reason] { line.member(reason.rawValue, count) }
        }
      }
      good.encode("PerMinute", into: &line)
      line.member("beats", beats)
      line.member("acceptedIntervals", acceptedIntervals)
      line.member("respiration") { line in respiration.encode(into: &line) }
    }
  }
}

/// Measures the pulse in light samples, the variability of its intervals, and the breathing rate.
struct PulseAnalysis: Sendable {
  /// Maximum pulse quality if the sensor's clock is unknown. The pulse then has the same relative error as
  /// the sample rate.
  static let qualityWithoutClock = 0.4

  /// Whether the sensor's sample rate is unknown because the link was too slow for it.
  var isClockUnknown = false
  private var meter: PulseRateMeter
  private var variability = VariabilityMeter()
  private var respiration = RespirationMeter()

  /// Creates an analysis for one sample rate.
  ///
  /// - Parameter rate: sample rate in samples per second.
  init(rate: Double) throws(PulseMeter.Refusal) { meter = try PulseRateMeter(rate: rate) }

  mutating func take(
    _ sample: SignalSample, to results: inout AnalysisResults
  ) throws(SystemError) {
    try give(meter.take(sample), &results)
  }

  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {
    try give(meter.finish(), &results)
    try results.take(variability.finish(), of: .pulse)
  }

  private mutating func give(
    _ window: PulseWindow?, _ results: inout AnalysisResults
  ) throws(SystemError) {
    if let window {
      try results.take(window)
      for index in 0..<meter.windowBeatCount {
        let beat = meter.beat(index)
        try results.take(beat)
        try results.take(variability.take(beat), of: .pulse)
        if let window = respiration.take(beat), !isClockUnknown { try results.take(window) }
      }
    }
    while var rate = meter.next() {
      if isClockUnknown, let quality = rate.pulse?.quality {
        rate.pulse?.quality = min(quality, Self.qualityWithoutClock)
      }
      try results.take(rate)
    }
  }
}
