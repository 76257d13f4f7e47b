import BLELinux
import BLEWire
import Foundation
import JSONText
import Physiology
import TestKit
import Testing

import CaptureTools
import Recording

/// Synthetic captures of several sensors on one body, made with NumPy (`Tests/Readers/bodies.py`). `align` must
/// recover the offsets and drifts that they were made with.
@Suite(.timeLimit(.minutes(3))) struct AlignmentTests {
  private static let (ring, chest, strap) = ("70-CB-0D-00-A1-B2", "A0-9E-1A-00-00-01", "C4-12-34-56-78-9A")

  private func make(_ folder: String, seconds: Int = 600, seed: Int = 7) async throws -> [String: [String:
    Double]]
  {
    let made = try await Readers.run("make", folder, "\(seconds)", "\(seed)", script: "bodies.py")
    return try #require(made as? [String: [String: Double]])
  }

  private func device(_ name: String, _ alignment: Alignment) throws -> Alignment.Device {
    try #require(alignment.devices.first { $0.directory == name })
  }

  @Test func findsHowTheClocksOfOneBodyLie() async throws {
    try await withFolder { folder in
      let devices = try await make(folder)
      func made(_ device: String, _ what: String) -> Double { devices[device]?[what] ?? .nan }
      func clock(_ device: String) -> Double { 1 + made(device, "ppm") * 1e-6 }
      let found = try CaptureAlignment.run(folder, reference: Self.chest, search: 10) { _ in }
      #expect(found.problems.isEmpty && found.alignment.reference == Self.chest)

      let ring = try device(Self.ring, found.alignment)
      let late = try #require(ring.late) / 1e9
      #expect(abs(late - (made("ring", "late") - made("chest", "late"))) < 0.002)
      #expect(ring.evidence.map(\.kind) == ["movement"] && ring.evidence[0].likeness > 0.9)
      // Ticks by the other sensor's clock.
      let rate = 25 * clock("ring") / clock("chest")
      #expect(abs(try #require(ring.rate) / rate - 1) < 1e-6)

      #expect(abs(late - (made("ring", "late") - made("chest", "late"))) * 1e9 < (ring.lateUncertainty ?? 0))
      #expect(abs(try #require(ring.rate) - rate) < (ring.rateUncertainty ?? 0))

      // A strap reports a beat in its next measurement, sent in the next connection event (every 45 ms): at
      // most two intervals late.
      let strap = try device(Self.strap, found.alignment)
      let strapLate = try #require(strap.late) / 1e9
      let unseen = strapLate - (made("strap", "late") - made("chest", "late"))
      let range = try #require(strap.lateUncertainty) / 1e9
      #expect(abs(unseen) < range && range < 0.09, "\(unseen) ± \(range) s")
      #expect(strap.evidence.map(\.kind) == ["beats"] && !strap.evidence[0].hasPulseTransit)
      let drift = clock("strap") / clock("chest") - 1
      #expect(abs(try #require(strap.clockDrift) - drift) < min(1e-6, strap.clockUncertainty ?? 0))
      #expect(
        strap.refusals == [Alignment.Refusal(with: Self.ring, why: "no heartbeats that both recorded")])
    }
  }

  /// Checks each quarter of ten minutes with a different method than the alignment used.
  @Test(arguments: [TableFormat.csv]) func putsAllOnOneGrid(_ format: TableFormat) async throws {
    try await withFolder { folder in
      _ = try await make(folder + "/ride")
      let found = try CaptureAlignment.run(folder + "/ride", reference: nil, search: 10) { _ in }
      var line = JSONLine()
      found.alignment.encode(into: &line)
      try Files.replace(folder + "/ride/" + Alignment.fileName, with: line.octets.span)
      let report = try GridConversion.run(folder + "/ride", rate: 100, to: format, output: folder + "/grid") {
        _ in
      }
      #expect(report.problems.isEmpty && report.tables.map(\.name) == ["grid"])
      #expect((59_000...62_000).contains(report.tables[0].rows))
      let apart = try await Readers.run("grid", folder + "/grid/grid.csv", script: "bodies.py")["apartMs"]
      let quarters = try #require(apart as? [Double])
      #expect(quarters.count == 4 && quarters.allSatisfy { abs($0) < 1 }, "\(quarters)")
    }
  }

  @Test func refusesStrangers() async throws {
    try await withFolder { folder in
      _ = try await make(folder + "/one", seconds: 180)
      _ = try await make(folder + "/other", seconds: 180, seed: 8)
      for name in [Self.ring, Self.strap] {
        try FileManager.default.removeItem(atPath: "\(folder)/one/\(name)")
        try FileManager.default.moveItem(atPath: "\(folder)/other/\(name)", toPath: "\(folder)/one/\(name)")
      }
      let found = try CaptureAlignment.run(folder + "/one", reference: Self.chest, search: 10) { _ in }
      let reasons = [Self.ring, Self.strap].map { name in
        found.alignment.devices.first { $0.directory == name }?.refusals.map(\.why)
      }
      #expect(found.alignment.devices.filter { $0.late != nil }.map(\.directory) == [Self.chest])
      #expect(reasons[0]?.first { $0.contains("do not match") } != nil, "\(reasons)")
      #expect(reasons[1]?.first { $0.contains("one heart") } != nil, "\(reasons)")
    }
  }

  @Test func saysWhatItCannotAlign() async throws {
    try await withFolder { folder in
      #expect(throws: AnalysisError.self) {
        try CaptureAlignment.run(folder, reference: nil, search: 10) { _ in }
      }
      _ = try await make(folder, seconds: 60)
      #expect(throws: AnalysisError.self) {
        try CaptureAlignment.run(folder, reference: "nobody", search: 10) { _ in }
      }
      #expect(throws: ConversionError.self) {
        try GridConversion.run(folder, rate: 50, to: .csv, output: folder + "/grid") { _ in }
      }
      for text in ["", "{", "{\"reference\":\"a\",\"atNs\":\"1\",\"devices\":[{\"directory\":\"../a\"}]}"] {
        try Data(text.utf8).write(to: URL(filePath: folder + "/" + Alignment.fileName))
        #expect(throws: ConversionError.self) { try Alignment(in: folder) }
      }
    }
  }
}

/// Alignment evidence from bare series of numbers.
@Suite struct SharedEvidenceTests {
  /// Perfectly regular beats or movements match equally well when shifted by one beat or step, so they are
  /// rejected.
  @Test func refusesWhatIsAmbiguous() {
    let beats = (0..<400).map { 0.8 * Double($0) }
    #expect { try SharedEvidence.beats(beats, beats.map { $0 + 0.3 }) } throws: { error in
      if case .ambiguous(.beats, _)? = error as? SharedEvidence.Refusal { true } else { false }
    }
    var (first, second) = (MotionSeries(), MotionSeries())
    for number in 0..<15_000 {
      let time = Double(number) / 50
      first.append(swing(time), at: time)
      second.append(swing(time - 0.2), at: time)
    }
    #expect { try SharedEvidence.movement(first, second) } throws: { error in
      if case .ambiguous(.movement, _)? = error as? SharedEvidence.Refusal { true } else { false }
    }
  }

  private func swing(_ time: Double) -> Acceleration {
    Acceleration(x: 0.4 * sin(2 * .pi * 1.7 * time), y: 0.2, z: 1)
  }

  @Test func refusesWhatIsNotThere() {
    #expect(throws: SharedEvidence.Refusal.nothing(.movement)) {
      try SharedEvidence.movement(MotionSeries(), MotionSeries())
    }
    var still = MotionSeries()
    for number in 0..<5_000 { still.append(Acceleration(x: 0, y: 0, z: 1), at: Double(number) / 50) }
    #expect(throws: SharedEvidence.Refusal.nothing(.movement)) { try SharedEvidence.movement(still, still) }
    #expect(throws: SharedEvidence.Refusal.nothing(.beats)) {
      try SharedEvidence.beats([1, 2, 3], [1, 2, 3])
    }
  }

  /// Bounds of 0 and 1 at both ends of 10,000 s: they allow every line that climbs by at most 1 in that time.
  @Test func linesBetweenBoundsAreThoseThatNoBoundExcludes() throws {
    func bounds(_ value: Double) -> [LineBand.Bound] {
      [0, 5_000, 10_000].map { LineBand.Bound(seconds: $0, value: value) }
    }
    let band = try #require(LineBand(above: bounds(0), below: bounds(1)))
    #expect(band.slack == 0)
    for seconds in [0.0, 2_500, 10_000] {
      let range = band.range(at: seconds)
      #expect(abs(range.lowerBound) < 1e-6 && abs(range.upperBound - 1) < 1e-6)
    }
    #expect(abs(band.slopes.lowerBound + 1e-4) < 1e-9 && abs(band.slopes.upperBound - 1e-4) < 1e-9)
    // A single bound in the middle halves the range.
    let low = try #require(
      LineBand(above: bounds(0), below: bounds(1) + [LineBand.Bound(seconds: 5_001, value: 0.25)]))
    #expect(abs(low.range(at: 5_001).upperBound - 0.25) < 1e-6)
    #expect(LineBand(above: bounds(1), below: bounds(0)) == nil)
    #expect(LineBand(above: [], below: bounds(0)) == nil)
  }

  /// Beats with respiratory variation, from a strap whose clock is 80 ppm fast and that lost one interval:
  /// both parts are aligned.
  @Test func anchorsIntervalsAcrossOneThatIsMissing() throws {
    var beats = [100.0]
    while beats.count < 400 {
      beats.append(beats[beats.count - 1] + 0.85 + 0.06 * sin(1.7 * beats[beats.count - 1]))
    }
    var places = beats.map { ($0 - 100) * (1 + 80e-6) }
    let missing = places[200] - places[199]
    for index in 200..<400 { places[index] -= missing }
    places.remove(at: 200)
    let anchored = try AnchoredBeats([places], expected: [100.2], others: beats, .electric)
    #expect(abs(anchored.slope + 80e-6) < min(2e-6, anchored.slopeUncertainty ?? 0))
    for (index, beat) in [(40, 40), (150, 150), (300, 301), (380, 381)] {
      #expect(abs(try #require(anchored.times[0][index]) - beats[beat]) < 0.001)
    }
    let even = (0..<400).map { 0.8 * Double($0) }
    #expect { try AnchoredBeats([even], expected: [0.3], others: even, .electric) } throws: { error in
      if case .ambiguous(.beats, _)? = error as? SharedEvidence.Refusal { true } else { false }
    }
  }

  /// Lags that wander, as when a clock warms up, are not independent points, so the fit is less certain.
  @Test func aLineThroughABendIsLessSure() throws {
    func line(_ bend: Double) throws -> LagLine {
      try #require(
        LagLine(
          (0..<30).map { number in
            let part = Double(number) / 29 - 0.5
            let noise = [0.000_3, -0.000_2, 0.000_1, -0.000_3, 0.000_2][number % 5]
            return LagLine.Point(
              seconds: 20 * Double(number), lag: 0.5 + bend * part * part + noise, weight: 1)
          }))
    }
    let (straight, bent) = (try line(0), try line(0.02))
    // In the middle the line is `bend` / 12 above the curve.
    #expect(straight.lagUncertainty < 0.000_3)
    #expect(
      bent.lagUncertainty > 0.02 / 12 && (bent.driftUncertainty ?? 0) > 4 * (straight.driftUncertainty ?? 1))
  }

  /// 25 of 30 points lie on a line.
  @Test func aLineThroughLagsLeavesWildOnesOut() throws {
    var points = (0..<30).map { number in
      LagLine.Point(seconds: 20 * Double(number), lag: 0.5 + 28e-6 * 20 * Double(number), weight: 1)
    }
    for number in [3, 11, 12, 19, 25] { points[number].lag += 0.4 }
    let line = try #require(LagLine(points))
    #expect(line.used == 25)
    #expect(abs(line.drift - 28e-6) < 1e-9 && abs(line.lag(at: 0) - 0.5) < 1e-9)
    #expect(LagLine(Array(points.prefix(2))) == nil)
    #expect(try #require(LagLine(Array(points.prefix(3)))).driftUncertainty == nil)
  }
}
