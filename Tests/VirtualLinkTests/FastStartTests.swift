import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Foundation
import Recording
import SensorSessions
import TestKit
import Testing

/// Time until a previously unknown ring streams, in emulated air time, and the link's timing afterwards.
@Suite(.timeLimit(.minutes(1))) struct FastStartTests {
  private struct Result {
    var report: SessionReport
    /// Connection intervals of the link, in milliseconds.
    var intervals: [Double]
    /// Arrival of each optical sample, in nanoseconds since the first.
    var arrivals: [Int64]
  }

  /// Records in virtual time and returns the results.
  ///
  /// - Parameter devices: folder in which discovered attributes are stored; `nil` for none.
  private func record(
    _ ring: EmulatedRing.Configuration, seconds: Int, startsFast: Bool = true,
    _ request: LinkRequest = LinkRequest(), remembering devices: String? = nil
  ) async throws -> Result {
    try await withFolder { folder in
      let clock = LoopClock.virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000))
      let link = try await VirtualLink.open([ring], pace: .air, clock: clock)
      let known = devices.map { KnownDevices(in: $0) { Issue.record("\($0)") } }
      let adapter = link.adapter
      if let known { await adapter.add(DeviceJournal(known) { Issue.record("\($0)") }) }
      var recording = SensorRecording(
        of: ring.address, on: adapter, into: folder + "/ring", .init(duration: .seconds(seconds)))
      recording.plan.request = request
      recording.plan.startsFast = startsFast
      let result = try await withTaskExecutorPreference(link.loop.preference) { [recording] in
        try await recording.run(.ring)
      }
      await adapter.close()
      await link.close()
      let intervals = result.report.changes.compactMap { change -> Double? in
        guard case .timing(let timing) = change.value else { return nil }
        return Double(timing.interval) * 1.25
      }
      let rows = try String(contentsOfFile: folder + "/ring/ppg.csv", encoding: .utf8).split(separator: "\n")
      let times = rows.compactMap { $0.split(separator: ",").first.flatMap { Int64($0) } }
      return Result(
        report: result.report, intervals: intervals, arrivals: times.map { $0 - (times.first ?? 0) })
    }
  }

  /// Five requests; within 250 ms with short intervals, and within 600 ms with 50 ms.
  @Test(arguments: [(true, 250), (false, 600)]) func isSoon(_ startsFast: Bool, _ milliseconds: Int64)
    async throws
  {
    let result = try await record(quietRing(rate: 75), seconds: 4, startsFast: startsFast)
    let (report, intervals) = (result.report, result.intervals)
    #expect(report.requestsBeforeFirstSample == [5])
    let time = try #require(report.timeToFirstSample)
    #expect(time > 0 && time <= milliseconds * 1_000_000, "\(time)")
    // 7.5 to 15 ms until the stream runs, then the kernel's default, 30 to 50 ms.
    #expect(intervals == (startsFast ? [15, 50] : [50]))
  }

  /// The requested timing is in force once the stream runs.
  @Test func thenHasWhatWasAskedFor() async throws {
    var request = LinkRequest()
    request.interval = 24...24
    #expect(try await record(quietRing(rate: 75), seconds: 4, request).intervals == [15, 30])
  }

  /// Longest delay of samples measured every 10 ms, in nanoseconds, relative to the shortest delay.
  private func longestDelay(_ arrivals: [Int64]) -> Int64 {
    let delays = arrivals.enumerated().map { $1 - Int64($0) * 10_000_000 }
    return (delays.max() ?? 0) - (delays.min() ?? 0)
  }

  /// Requests after the first sample do not delay samples to a later connection event: each is sent in the
  /// next one, as on a link without requests.
  @Test func delaysNoSample() async throws {
    try await withFolder { devices in
      var ring = quietRing(rate: 300)
      ring.attributes.kind = .lasting
      let unknown = try await record(ring, seconds: 4, startsFast: false, remembering: devices)
      let known = try await record(ring, seconds: 4, startsFast: false, remembering: devices)
      #expect(unknown.report.requestsBeforeFirstSample == [5])
      #expect(known.report.requestsBeforeFirstSample == [1])
      #expect(unknown.report.attRequests > known.report.attRequests + 10)
      #expect(unknown.arrivals.count == 400 && known.arrivals.count == 400)
      for run in [unknown, known] { #expect(longestDelay(run.arrivals) < 50_000_000) }
    }
  }

  /// The table of the guide "The first second, and the second time".
  @Test func asksEachSensorForWhatItsStreamNeeds() async throws {
    #expect(try await requests(.heartRate, of: StrapModel()) == [4])
    #expect(try await requests(.cycling, of: CyclingModel()) == [4])
    #expect(try await requests(.thermometer, of: CoreModel()) == [4])
    #expect(try await requests(.thermometer, of: ThermometerModel()) == [7])
    #expect(try await requests(.polar, of: PolarModel()) == [10])
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
