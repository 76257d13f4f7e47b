import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import CaptureTools
import Recording
import SensorSessions
import TestKit
import Testing

/// Emulated sensors on one body, recorded simultaneously in virtual time: `align` finds the offsets that they
/// were configured with.
@Suite(.timeLimit(.minutes(3))) struct AlignmentTests {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
  private static let body = "shared,heart-rate=64-80,variability=0.06"
  private static let walk = "motion=walk"

  @Test func threeSensorsInTenMinutes() async throws {
    try await withFolder { folder in
      // Rates that are no multiple of a connection interval: otherwise every timestamp would be late by the
      // same wait for the connection event. Frames are short, because the time that a frame takes on the air
      // is part of an offset, too.
      let devices = [
        "ring,quiet,rate=78.6,\(Self.walk)", "polar,rate=9.7071,late=622,clock-ppm=28,\(Self.walk)",
        "heart-rate,rate=1.0137,late=240,clock-ppm=-15",
      ]
      let text = devices.map { "\($0),\(Self.body)" }.joined(separator: "+")
      let specification = try VirtualPeripheralSpecification(parsing: text)
      let link = try await VirtualLink.open(pace: .air, clock: .virtual(from: Self.start)) {
        specification.makePeripherals()
      }
      let kinds = try ["ring", "polar:ecg,acc", "heart-rate"].map { try #require(AnySensorKind(named: $0)) }
      let addresses = [
        EmulatedRing.Configuration().address, PolarModel().address, StrapModel().address,
      ]
      let recordings = addresses.map { address in
        SensorRecording(
          of: address, on: link.adapter, into: RecordingGroup.directory(of: address, in: folder),
          RecordingLimits(duration: .seconds(600)))
      }
      let group = RecordingGroup(Array(zip(kinds, recordings)))
      let outcomes = await Task(executorPreference: link.loop) { await group.run() }.value
      await link.close()
      for outcome in outcomes {
        let result = try outcome.result.get()
        #expect(result.failure == nil && result.report.lost.total == 0)
      }

      let names = addresses.map(\.fileName)
      let found = try CaptureAlignment.run(folder, reference: names[1], search: 10) { _ in }
      #expect(found.problems.isEmpty)
      func device(_ name: String) -> Alignment.Device? {
        found.alignment.devices.first { $0.directory == name }
      }
      let (ring, strap) = (device(names[0]), device(names[2]))
      let late = try #require(ring?.late) / 1e6
      let range = try #require(ring?.lateUncertainty) / 1e6
      #expect(abs(late + 622) < min(2, range) && range < 100, "\(late) ± \(range) ms")
      let rate = 26.2 / (1 + 28e-6)
      #expect(abs(try #require(ring?.rate) - rate) < min(rate * 1e-6, ring?.rateUncertainty ?? 0))
      let strapLate = try #require(strap?.late) / 1e6
      let strapRange = try #require(strap?.lateUncertainty) / 1e6
      #expect(
        abs(strapLate - (240 - 622)) < strapRange && strapRange < 100, "\(strapLate) ± \(strapRange) ms")
      let drift: Double = (1 - 15e-6) / (1 + 28e-6) - 1
      #expect(abs(try #require(strap?.clockDrift) - drift) < min(1e-6, strap?.clockUncertainty ?? 0))
    }
  }
}
