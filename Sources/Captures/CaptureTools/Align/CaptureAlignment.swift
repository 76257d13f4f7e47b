import BLELinux
import BLEWire
import JSONText
import Physiology

/// Finds the clock offsets between devices that were recorded together, from shared movement or heartbeats.
///
/// Each pair is compared by movement, or by beats if movement does not match. The devices are then connected
/// by the most precise pairs. The reference is the requested device, otherwise the device with the most
/// matching pairs.
package enum CaptureAlignment {
  /// Computes the range of a sensor's lateness at a given time, in seconds, relative to the times used for
  /// the comparison; `nil` if unknown.
  private typealias Lateness = @Sendable (Double) -> ClosedRange<Double>?

  /// Match between two sensors on the same body.
  private struct Found {
    var kind: SharedEvidence.Kind
    var line: LagLine
    var likeness: Double
    /// Seconds of the other sensor's times per second of each sensor's clock; `nil` if the sensor has no
    /// clock of its own.
    var paces: (first: Double?, second: Double?)
    /// Half-width of the range of the ratio of the two paces, relative to the ratio.
    var paceUncertainty: Double?
    var lateness: (first: Lateness, second: Lateness)
    /// Whether each sensor is a strap, whose rows have receive timestamps.
    var isStrap = (first: false, second: false)
    var hasPulseTransit = false
  }

  private struct Reasons: Error {
    let all: [SharedEvidence.Refusal]

    init(_ all: [SharedEvidence.Refusal]) { self.all = all }
  }

  private struct Pair {
    let first: Int
    let second: Int
    let found: Found

    init(first: Int, second: Int, _ found: Found) {
      (self.first, self.second, self.found) = (first, second, found)
    }

    var line: LagLine { found.line }
    /// Uncertainty in seconds, by which pairs are ranked.
    var uncertainty: Double {
      let ranges = [found.lateness.first(line.center), found.lateness.second(line.center)]
      let waits = ranges.map { $0.map { $0.upperBound - $0.lowerBound } ?? unknown }
      return line.lagUncertainty + waits.reduce(0, +) / 2 + (found.hasPulseTransit ? longestTransit : 0)
    }
  }

  /// Assumed wait in seconds if the wait is unknown; longer than any known wait.
  private static let unknown = 10.0
  /// Longest time from an R wave to the peak of its pulse in a finger, in seconds. Allen,
  /// Photoplethysmography and its application in clinical physiological measurement, Physiol. Meas. 28(3),
  /// 2007: 0.2 s to the foot of the pulse, and up to 0.3 s from there to the peak.
  private static let longestTransit = 0.5
  /// Maximum difference between the times at which two electrical sensors detect the same beat, in seconds:
  /// half a sample at 130 Hz.
  private static let beatUncertainty = 0.004

  /// Compares all pairs of devices and computes the alignment.
  ///
  /// - Parameters:
  ///   - directory: directory of a group of captures.
  ///   - reference: name or address of the reference device; `nil` to choose the best device.
  ///   - search: maximum clock offset in either direction, in seconds.
  ///   - progress: called for each device and pair.
  /// - Returns: the alignment, and the tables that could not be read completely.
  package static func run(
    _ directory: String, reference: String?, search: Double, progress: (String) -> Void
  ) throws(AnalysisError) -> (alignment: Alignment, problems: [String]) {
    let members = CaptureGroup.members(of: directory)
    guard members.count > 1 else {
      throw .noTables(
        .unsuitable(
          "\(directory) has \(members.count == 1 ? "one capture" : "no captures") in it: there is nothing to align; "
            + "record several at once: ringtap capture ring heart-rate --output \(directory)"))
    }
    let names = members.map(CaptureGroup.name)
    var chosen: Int?
    if let reference {
      chosen = names.firstIndex { $0 == reference || $0 == fileName(reference) }
      guard chosen != nil else {
        throw .noTables(
          .unsuitable(
            "there is no capture '\(reference)' in \(directory); there are \(names.joined(separator: ", "))"))
      }
    }
    guard let origin = members.compactMap(AlignedSensor.start).min() else {
      throw .noRows(directory: directory, problems: [])
    }
    var sensors: [AlignedSensor] = []
    for member in members {
      progress("reading \(CaptureGroup.name(member))")
      sensors.append(try AlignedSensor(member, origin: origin))
    }
    var (pairs, refusals) = ([Pair](), [(first: Int, second: Int, why: String)]())
    for first in sensors.indices {
      for second in sensors.indices.dropFirst(first + 1) {
        progress("comparing \(sensors[first].name) and \(sensors[second].name)")
        switch compare(sensors[first], sensors[second], within: search) {
        case .success(let found):
          pairs.append(Pair(first: first, second: second, found))
        case .failure(let reasons):
          refusals.append((first, second, reasons.all.map(\.description).joined(separator: "; ")))
        }
      }
    }
    let alignment = join(sensors, pairs, refusals, reference: chosen, origin: origin)
    return (alignment, sensors.flatMap(\.problems))
  }

  private static func fileName(_ address: String) -> String { address.uppercased().replacing(":", with: "-") }

  /// Compares two sensors by movement, or by beats if there is no match by movement.
  private static func compare(
    _ a: AlignedSensor, _ b: AlignedSensor, within search: Double
  ) -> Result<Found, Reasons> {
    var reasons: [SharedEvidence.Refusal] = []
    do throws(SharedEvidence.Refusal) {
      guard a.motion.seconds.isEmpty || b.motion.seconds.isEmpty else {
        return .success(rows(try .movement(a.motion, b.motion, within: search), a, b))
      }
    } catch { reasons.append(error) }
    do throws(SharedEvidence.Refusal) {
      guard a.strap == nil, b.strap == nil else { return .success(try byStrap(a, b, within: search)) }
      var found = rows(try .beats(a.beats, b.beats, within: search), a, b)
      found.hasPulseTransit = a.seesBlood != b.seesBlood
      return .success(found)
    } catch { return .failure(Reasons(reasons + [error])) }
  }

  /// Returns the match of two sensors whose rows are on the sensors' own clocks.
  private static func rows(_ evidence: SharedEvidence, _ a: AlignedSensor, _ b: AlignedSensor) -> Found {
    Found(
      kind: evidence.kind, line: evidence.line, likeness: evidence.likeness, paces: (a.pace, b.pace),
      paceUncertainty: evidence.line.driftUncertainty, lateness: (lateness(a), lateness(b)))
  }

  private static func lateness(_ sensor: AlignedSensor) -> Lateness {
    { [wait = sensor.wait] seconds in wait?.range(at: seconds) }
  }

  /// Matches a strap with another sensor. The strap's beats are placed on the other sensor's clock. The
  /// strap's lateness is then computed from its timestamps.
  private static func byStrap(
    _ a: AlignedSensor, _ b: AlignedSensor, within search: Double
  ) throws(SharedEvidence.Refusal) -> Found {
    let lag = try SharedEvidence.roughBeats(a.beats, b.beats, within: search)
    // If both sensors are straps, the strap with fewer gaps supplies the times.
    let isSecond =
      a.strap == nil || (b.strap.map { $0.stretches.count >= a.strap?.stretches.count ?? 0 } ?? false)
    let (sensor, other) = isSecond ? (b, a) : (a, b)
    guard let strap = sensor.strap else { throw .nothing(.beats) }
    let hasPulseTransit = a.seesBlood != b.seesBlood
    let stretches = strap.stretches
    let anchored = try AnchoredBeats(
      stretches.map(\.places), expected: stretches.map { $0.offset + (isSecond ? -lag : lag) },
      others: other.beats, hasPulseTransit ? .light : .electric)
    let center = middle(anchored.times)
    let late = strap.lateness(of: anchored.times, sensor.intervals)
    // If the strap's lateness cannot be determined, the result is only as accurate as the timestamps.
    let sign = isSecond ? 1.0 : -1.0
    let drift = sign * (late.map { middle($0.distance.slopes) - middle($0.wait.paceError) } ?? 0)
    let ownLate: (Double) -> ClosedRange<Double>? = { seconds in
      guard let late else { return nil }
      let (distance, wait) = (late.distance.range(at: seconds), late.wait.range(at: seconds))
      return distance.lowerBound - wait.upperBound...distance.upperBound - wait.lowerBound
    }
    let level = ownLate(center).map { middle($0) } ?? (isSecond ? lag : -lag)
    let line = LagLine(
      center: center, lag: sign * level, drift: drift,
      lagUncertainty: anchored.uncertainty + (hasPulseTransit ? 0 : beatUncertainty),
      driftUncertainty: late.map { width($0.distance.slopes) / 2 + width($0.wait.paceError) / 2 },
      residual: anchored.residual, used: anchored.blocks)
    let strapLateness: Lateness = { seconds in
      guard let late else { return nil }
      let (distance, wait) = (late.distance.range(at: seconds), late.wait.range(at: seconds))
      let placed = sign * line.lag(at: seconds)
      // Difference between the offset used to place the strap and its true lateness.
      return placed - (distance.upperBound - wait.lowerBound)...placed
        - (distance.lowerBound - wait.upperBound)
    }
    // The pace of the strap's clock is relative to the other sensor's rows. The drift between the timestamps
    // is removed when the pairs are joined.
    let pace = (1 + anchored.slope) * (1 + drift * sign)
    let otherLateness = other.strap == nil ? lateness(other) : standing(other)
    return Found(
      kind: .beats, line: line, likeness: anchored.share,
      paces: isSecond ? (other.pace, pace) : (pace, other.pace),
      paceUncertainty: anchored.slopeUncertainty,
      lateness: isSecond ? (otherLateness, strapLateness) : (strapLateness, otherLateness),
      isStrap: (a.strap != nil, b.strap != nil), hasPulseTransit: hasPulseTransit)
  }

  /// Returns a strap's lateness if the times of its beats are computed from the strap's own timestamps.
  private static func standing(_ sensor: AlignedSensor) -> Lateness {
    let stretches = sensor.strap?.stretches ?? []
    let times = stretches.map { stretch in stretch.places.map { Double?($0 + stretch.offset) } }
    let late = stretches.count == 1 ? sensor.strap?.lateness(of: times, sensor.intervals) : nil
    return { seconds in
      guard let late else { return nil }
      let (distance, wait) = (late.distance.range(at: seconds), late.wait.range(at: seconds))
      return wait.lowerBound - distance.upperBound...wait.upperBound - distance.lowerBound
    }
  }

  private static func middle(_ times: [[Double?]]) -> Double {
    let known = times.joined().compactMap { $0 }
    return ((known.first ?? 0) + (known.last ?? 0)) / 2
  }

  private static func middle(_ range: ClosedRange<Double>) -> Double {
    (range.lowerBound + range.upperBound) / 2
  }

  private static func width(_ range: ClosedRange<Double>) -> Double { range.upperBound - range.lowerBound }

  // MARK: All together

  /// Device whose offset from the reference is known.
  private struct Placed {
    var late = 0.0
    var drift = 0.0
    /// Half-width of the 95 % interval from the comparisons alone, in seconds.
    var uncertainty = 0.0
    var driftUncertainty: Double? = 0
    var paceUncertainty: Double? = 0
    /// Range of the offset's error due to the devices' waits, in seconds; `nil` if a wait is unknown.
    var waits: ClosedRange<Double>? = 0...0
    /// Like `waits`, but without the wait of this device.
    var before: ClosedRange<Double>?
    /// Whether the device is a strap. A strap's offset is computed from its timestamps, so it differs between
    /// pairs.
    var isStrap = false
    var referencePace: Double?
  }

  private static func join(
    _ sensors: [AlignedSensor], _ pairs: [Pair], _ refusals: [(first: Int, second: Int, why: String)],
    reference: Int?, origin: Int64
  ) -> Alignment {
    func degree(_ place: Int) -> Int { pairs.count { $0.first == place || $0.second == place } }
    func tellsSeconds(_ place: Int) -> Bool {
      sensors[place].strap != nil || sensors[place].pace != nil && sensors[place].counts == .seconds
    }
    func rank(_ place: Int) -> Int { !tellsSeconds(place) ? 0 : sensors[place].strap != nil ? 1 : 2 }
    // If several devices have the most pairs, prefer a device with a clock of its own.
    let best = sensors.indices.max { first, second in
      (degree(first), rank(first)) < (degree(second), rank(second))
    }
    let reference = reference ?? best ?? 0
    let center = middle(pairs)
    var devices = sensors.map { Alignment.Device(directory: $0.name) }
    devices[reference].late = 0
    (devices[reference].lateUncertainty, devices[reference].rowUncertainty) = (0, 0)
    var known = [reference: Placed()]
    while let pair = pairs.filter({ (known[$0.first] == nil) != (known[$0.second] == nil) })
      .min(by: { $0.uncertainty < $1.uncertainty })
    {
      let isForward = known[pair.first] != nil
      let (from, to) = isForward ? (pair.first, pair.second) : (pair.second, pair.first)
      guard let parent = known[from] else { break }
      let placed = place(pair, isForward: isForward, from: parent, isReference: from == reference, at: center)
      known[to] = placed
      take(placed, pair, with: sensors[from].name, into: &devices[to])
      if let pace = isForward ? pair.found.paces.second : pair.found.paces.first {
        // The unit is the second of the reference's clock if it counts seconds, otherwise of the kernel's
        // clock.
        let isOfReference = tellsSeconds(reference) && placed.referencePace != nil
        let rate = (isOfReference ? placed.referencePace ?? 1 : 1) / pace * (1 + placed.drift)
        let kernel = isOfReference ? 0 : sensors[reference].wait.map { width($0.paceError) }
        let share = placed.paceUncertainty.flatMap { own in kernel.map { own + $0 } }
        if tellsSeconds(to) {
          (devices[to].clockDrift, devices[to].clockUncertainty) = (share == nil ? nil : rate - 1, share)
        } else {
          (devices[to].rate, devices[to].rateUncertainty) = (
            share == nil ? nil : rate, share.map { $0 * rate }
          )
        }
      }
    }
    for (first, second, why) in refusals {
      devices[first].refusals.append(Alignment.Refusal(with: sensors[second].name, why: why))
      devices[second].refusals.append(Alignment.Refusal(with: sensors[first].name, why: why))
    }
    return Alignment(
      reference: sensors[reference].name, at: origin &+ Int64(center * 1e9), devices: devices)
  }

  private static func take(
    _ placed: Placed, _ pair: Pair, with name: String, into device: inout Alignment.Device
  ) {
    device.late = placed.late * 1e9
    device.drift = placed.drift * 1e9
    device.driftUncertainty = placed.driftUncertainty.map { $0 * 1e9 }
    device.lateUncertainty = placed.waits.map { waits in
      (placed.uncertainty + max(-waits.lowerBound, waits.upperBound)) * 1e9
    }
    let hasRows = !pair.found.isStrap.first && !pair.found.isStrap.second
    device.rowUncertainty = hasRows ? placed.uncertainty * 1e9 : nil
    device.evidence = [
      Alignment.Evidence(
        with: name, kind: pair.found.kind.rawValue, likeness: pair.found.likeness, places: pair.line.used,
        residual: pair.line.residual * 1e9, hasPulseTransit: pair.found.hasPulseTransit)
    ]
  }

  /// Returns the common time at which all lines are evaluated: the mean of the pairs' centers.
  private static func middle(_ pairs: [Pair]) -> Double {
    pairs.isEmpty ? 0 : pairs.map(\.line.center).reduce(0, +) / Double(pairs.count)
  }

  private static func place(
    _ pair: Pair, isForward: Bool, from parent: Placed, isReference: Bool, at center: Double
  ) -> Placed {
    let (line, found) = (pair.line, pair.found)
    let sign = isForward ? 1.0 : -1.0
    let far = (line.driftUncertainty ?? 0) * abs(center - line.center)
    var placed = Placed()
    placed.late = parent.late + sign * line.lag(at: center)
    placed.drift = parent.drift + sign * line.drift
    placed.uncertainty = root(parent.uncertainty, line.lagUncertainty + far)
    placed.driftUncertainty = join(parent.driftUncertainty, line.driftUncertainty)
    placed.paceUncertainty = join(parent.paceUncertainty, found.paceUncertainty)
    let (mine, theirs) =
      isForward
      ? (found.lateness.second, found.lateness.first) : (found.lateness.first, found.lateness.second)
    placed.isStrap = isForward ? found.isStrap.second : found.isStrap.first
    placed.referencePace =
      isReference ? (isForward ? found.paces.first : found.paces.second) : parent.referencePace
    if !isReference, !parent.isStrap {
      // Both pairs use the same rows of the intermediate device, so its lateness cancels.
      placed.before = parent.before
    } else if let waits = parent.waits, let other = theirs(center) {
      placed.before = waits.lowerBound + other.lowerBound...waits.upperBound + other.upperBound
    }
    placed.waits = placed.before.flatMap { before in
      mine(center).map { before.lowerBound - $0.upperBound...before.upperBound - $0.lowerBound }
    }
    if found.hasPulseTransit, let waits = placed.waits {
      placed.waits = waits.lowerBound - longestTransit...waits.upperBound + longestTransit
    }
    return placed
  }

  private static func root(_ a: Double, _ b: Double) -> Double { (a * a + b * b).squareRoot() }

  private static func join(_ a: Double?, _ b: Double?) -> Double? {
    guard let a, let b else { return nil }
    return root(a, b)
  }
}
