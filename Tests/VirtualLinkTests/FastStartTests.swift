import BLECore
import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import EmulatedSensors
import Recording
import SensorSessions
import TestKit
import Testing

/// How soon a ring that was never seen streams, by the air's own time, and what becomes of the link's timing.
@Suite(.timeLimit(.minutes(1))) struct FastStartTests {
  /// - Returns: the report of a recording in virtual time, and the intervals that the link had, in milliseconds.
  private func record(
    _ ring: EmulatedRing.Configuration, seconds: Int, startsFast: Bool = true,
    _ request: LinkRequest = LinkRequest()
  ) async throws -> (report: SessionReport, intervals: [Double]) {
    try await withFolder { folder in
      let clock = LoopClock.virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000))
      let link = try await VirtualLink.open([ring], pace: .air, clock: clock)
      var recording = SensorRecording(
        of: ring.address, on: link.adapter, into: folder + "/ring", .init(duration: .seconds(seconds)))
      recording.plan.request = request
      recording.plan.startsFast = startsFast
      let result = try await withTaskExecutorPreference(link.loop.preference) { [recording] in
        try await recording.run(.ring)
      }
      await link.close()
      let intervals = result.report.changes.compactMap { change -> Double? in
        guard case .timing(let timing) = change.value else { return nil }
        return Double(timing.interval) * 1.25
      }
      return (result.report, intervals)
    }
  }

  /// Four requests; within 250 ms with short intervals, and within 600 ms at 50.
  @Test(arguments: [(true, 250), (false, 600)]) func isSoon(_ startsFast: Bool, _ milliseconds: Int64)
    async throws
  {
    let (report, intervals) = try await record(quietRing(rate: 75), seconds: 4, startsFast: startsFast)
    #expect(report.requestsBeforeFirstSample == [4])
    let time = try #require(report.timeToFirstSample)
    #expect(time > 0 && time <= milliseconds * 1_000_000, "\(time)")
    // 7.5 to 15 ms until the stream runs; then the kernel's own, 30 to 50 ms.
    #expect(intervals == (startsFast ? [15, 50] : [50]))
  }

  /// What was asked for is in force once the stream runs.
  @Test func thenHasWhatWasAskedFor() async throws {
    var request = LinkRequest()
    request.interval = 24...24
    #expect(try await record(quietRing(rate: 75), seconds: 4, request).intervals == [15, 30])
  }

  /// The table of the guide "The first second, and the second time".
  @Test func asksEachSensorForWhatItsStreamNeeds() async throws {
    #expect(try await requests(.heartRate, of: StrapModel()) == [3])
    #expect(try await requests(.cycling, of: CyclingModel()) == [3])
    #expect(try await requests(.thermometer, of: CoreModel()) == [4])
    #expect(try await requests(.thermometer, of: ThermometerModel()) == [6])
    #expect(try await requests(.polar, of: PolarModel()) == [8])
  }

  private func requests<Sample>(
    _ kind: SensorKind<Sample>, of model: some SensorModel
  ) async throws -> [Int] {
    try await withFolder { folder in
      let clock = LoopClock.virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000))
      let link = try await VirtualLink.open(pace: .air, clock: clock) {
        [EmulatedSensor(model, EmulatedSensor.Configuration())]
      }
      let recording = SensorRecording(
        of: model.address, on: link.adapter, into: folder + "/sensor", .init(count: 3))
      let result = try await withTaskExecutorPreference(link.loop.preference) {
        try await recording.run(kind)
      }
      await link.close()
      return result.report.requestsBeforeFirstSample
    }
  }
}
