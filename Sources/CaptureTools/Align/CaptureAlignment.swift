import BLECore
import BLELinux
package import CaptureTables
import JSONText
import Physiology

/// Finds how the clocks of devices that were recorded together lie to each other, from what they have seen of the same body.
///
/// Each pair is compared by movement, else by beats. Of all pairs those are taken that tell most, as many as connect the devices; the
/// reference is the device with the most of them, or the one that is asked for.
package enum CaptureAlignment {
  /// What two sensors have seen of the same body.
  private struct Found {
    var evidence: SharedEvidence
    /// Of the sensors' own clocks, as `AlignedSensor` has them, and better.
    var paces: (first: Double?, second: Double?)
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

    var line: LagLine { found.evidence.line }
    /// Seconds by which it may be off; with the way of the pulse in it, that is what nobody knows.
    var uncertainty: Double { line.lagUncertainty + (found.hasPulseTransit ? 0.1 : 0) }
  }

  /// - Parameters:
  ///   - directory: of a group.
  ///   - reference: the name of a directory in it, or an address; `nil` for the best.
  ///   - search: how far apart the clocks may be, either way: seconds.
  ///   - progress: called for each device and pair.
  /// - Returns: what was found, and which tables ended before their time.
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

  /// By movement, else by beats.
  private static func compare(
    _ a: AlignedSensor, _ b: AlignedSensor, within search: Double
  ) -> Result<Found, Reasons> {
    var reasons: [SharedEvidence.Refusal] = []
    do throws(SharedEvidence.Refusal) {
      guard a.motion.seconds.isEmpty || b.motion.seconds.isEmpty else {
        return .success(
          Found(evidence: try .movement(a.motion, b.motion, within: search), paces: (a.pace, b.pace)))
      }
    } catch { reasons.append(error) }
    do throws(SharedEvidence.Refusal) {
      // What is found of a strap's clock makes its beats' places better.
      let drift = try SharedEvidence.beats(a.beats, b.beats, within: search).line.drift
      let (c, d) = (a.slower(by: drift), b.slower(by: -drift))
      return .success(
        Found(
          evidence: try .beats(c.beats, d.beats, within: search), paces: (c.pace, d.pace),
          hasPulseTransit: a.seesBlood != b.seesBlood))
    } catch { return .failure(Reasons(reasons + [error])) }
  }

  // MARK: All together

  private static func join(
    _ sensors: [AlignedSensor], _ pairs: [Pair], _ refusals: [(first: Int, second: Int, why: String)],
    reference: Int?, origin: Int64
  ) -> Alignment {
    func degree(_ place: Int) -> Int { pairs.count { $0.first == place || $0.second == place } }
    func tellsSeconds(_ place: Int) -> Bool {
      sensors[place].pace != nil && sensors[place].counts == .seconds
    }
    // Of those with as many, one with a clock of its own.
    let best = sensors.indices.max { first, second in
      (degree(first), tellsSeconds(first) ? 1 : 0) < (degree(second), tellsSeconds(second) ? 1 : 0)
    }
    let reference = reference ?? best ?? 0
    let center = middle(pairs)
    var devices = sensors.map { Alignment.Device(directory: $0.name) }
    devices[reference].late = 0
    devices[reference].lateUncertainty = 0
    var known: Set<Int> = [reference]
    while let pair = pairs.filter({ known.contains($0.first) != known.contains($0.second) })
      .min(by: { $0.uncertainty < $1.uncertainty })
    {
      let isForward = known.contains(pair.first)
      let (from, to) = isForward ? (pair.first, pair.second) : (pair.second, pair.first)
      known.insert(to)
      place(&devices[to], from: devices[from], pair, sign: isForward ? 1 : -1, center: center)
      devices[to].evidence = [
        Alignment.Evidence(
          with: sensors[from].name, kind: pair.found.evidence.kind.rawValue,
          likeness: pair.found.evidence.likeness,
          places: pair.line.used, residual: pair.line.residual * 1e9,
          hasPulseTransit: pair.found.hasPulseTransit)
      ]
      if let pace = isForward ? pair.found.paces.second : pair.found.paces.first {
        // Of the reference's seconds, if it has some, else of the kernel's.
        let base = tellsSeconds(reference) ? sensors[reference].pace ?? 1 : 1
        let rate = base / pace * (1 + devices[to].drift / 1e9)
        if tellsSeconds(to) { devices[to].clockDrift = rate - 1 } else { devices[to].rate = rate }
      }
    }
    for (first, second, why) in refusals {
      devices[first].refusals.append(Alignment.Refusal(with: sensors[second].name, why: why))
      devices[second].refusals.append(Alignment.Refusal(with: sensors[first].name, why: why))
    }
    return Alignment(
      reference: sensors[reference].name, at: origin &+ Int64(center * 1e9), devices: devices)
  }

  /// Where all lines are told: the middle of what the pairs have seen.
  private static func middle(_ pairs: [Pair]) -> Double {
    pairs.isEmpty ? 0 : pairs.map(\.line.center).reduce(0, +) / Double(pairs.count)
  }

  private static func place(
    _ device: inout Alignment.Device, from parent: Alignment.Device, _ pair: Pair, sign: Double,
    center: Double
  ) {
    let line = pair.line
    let drift = line.driftUncertainty ?? 0
    let far = drift * abs(center - line.center)
    device.late = (parent.late ?? 0) + sign * line.lag(at: center) * 1e9
    device.drift = parent.drift + sign * line.drift * 1e9
    let own = (line.lagUncertainty * line.lagUncertainty + far * far).squareRoot() * 1e9
    let above = parent.lateUncertainty ?? 0
    device.lateUncertainty = (above * above + own * own).squareRoot()
    device.driftUncertainty = line.driftUncertainty.map { own in
      let above = parent.driftUncertainty ?? 0
      return (above * above + own * own * 1e18).squareRoot()
    }
  }
}
