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

/// Streams that bring nothing although their link is up, and starts that never finish; in virtual time.
@Suite(.timeLimit(.minutes(1))) struct SilenceTests {
  /// Records a strap for this many seconds.
  private func record(
    for seconds: Int, patience: Int = 600, _ make: @escaping @Sendable () -> OddDevice,
    _ meanwhile: @escaping @Sendable (VirtualLink) async -> Void = { _ in }
  ) async throws -> (result: SensorRecording.Result, json: String) {
    let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
    let link = try await VirtualLink.open(clock: .virtual(from: start)) { [make()] }
    let outcome = try await withFolder { folder in
      var capture = SensorRecording(
        of: OddDevice.address, on: link.adapter, into: folder + "/walk", .init(duration: .seconds(seconds)))
      capture.plan.patience = .seconds(patience)
      let recording = capture
      let result = try await withTaskExecutorPreference(link.loop.preference) {
        let meanwhile = link.loop.task { await meanwhile(link) }
        defer { meanwhile.cancel() }
        return try await recording.run(.heartRate)
      }
      return (result, try String(contentsOfFile: folder + "/walk/session.json", encoding: .utf8))
    }
    await link.close()
    return outcome
  }

  /// It hangs after 50 values of its first link, and sends nothing on this many further links.
  class Hangs: OddDevice {
    let muteLinks: Int
    init(muteLinks: Int) {
      self.muteLinks = muteLinks
      super.init()
    }
    override func expired(_ link: PeripheralLink, now: MonotonicTime) {
      if linkCount <= 1 + muteLinks, count >= 50 { isMeasuring = false }
      super.expired(link, now: now)
    }
  }

  /// 20 ms between values: 20 intervals are less than the minimum of 20 s for a strap. Of two mute links the
  /// second is allowed twice as long.
  @Test func aSilentStreamIsAGap() async throws {
    let (result, json) = try await record(for: 200) { Hangs(muteLinks: 2) }
    let gaps = result.report.gaps
    #expect(gaps.map(\.end) == [.silent(seconds: 20)])
    let gap = try #require(gaps.first)
    #expect(
      gap.failures.map(\.error) == [
        .gatt(.closed(.silent(seconds: 20))), .gatt(.closed(.silent(seconds: 40))),
      ])
    #expect(gap.attempts == 3)
    // 20 + 20 + 40 s, the first of them up to a half longer, and the pauses between links.
    #expect((80...102).contains(try #require(gap.lengthNanoseconds) / 1_000_000_000))
    #expect(result.failure == nil)
    #expect(result.values > 50)
    #expect(json.contains("\"silent: no sample for 20 s on a link that stayed up\""))
  }

  /// It reconnects and never sends. In the end there is a link every few minutes, until the session's timeout
  /// ends it.
  @Test func aStreamThatStaysSilentIsGivenUp() async throws {
    let (result, _) = try await record(for: 7_200, patience: 3_600) { Hangs(muteLinks: .max - 1) }
    #expect(result.failure == .noAnswer(OddDevice.address, seconds: 3_600))
    #expect(result.report.gaps.map(\.end) == [.silent(seconds: 20)])
    // 20, 40, 80, 160, 320 s, then 600.
    #expect((8...13).contains(result.report.gaps[0].attempts))
    #expect(result.values == 50)
  }

  /// A rate of 0: it is not worn, and may stop sending.
  final class Rests: Hangs {
    override func expired(_ link: PeripheralLink, now: MonotonicTime) {
      super.expired(link, now: now)
      guard count == 50, isMeasuring else { return }
      isMeasuring = false
      let pdu = [0x1B] + Self.octets(measurement) + [0x00, 0x00]
      link.sendATT(pdu.span)
    }
  }

  @Test func aStrapOffTheBodyMayRest() async throws {
    let (result, _) = try await record(for: 300) { Rests(muteLinks: 0) }
    #expect(result.report.gaps.isEmpty)
    #expect(result.report.linkCount == 1)
  }

  /// It sends a value every 5 s: 100 s without one are not unusual.
  final class Slow: OddDevice {
    private var ticks = 0
    override func expired(_ link: PeripheralLink, now: MonotonicTime) {
      isMeasuring = linkCount > 0 && ticks % 250 == 0 && !(2_000..<5_500).contains(ticks)
      ticks += 1
      super.expired(link, now: now)
    }
  }

  @Test func theStreamsOwnRateCounts() async throws {
    let (result, _) = try await record(for: 300) { Slow() }
    #expect(result.report.gaps.isEmpty)
  }

  // MARK: The controller

  /// A restarted controller does not know the link, so the stream is silent. An unannounced restart is found by
  /// the silence; a vendor event, unexpected credits, or a response to a reset that was not sent reveal it at
  /// once.
  @Test(
    arguments: [
      ([], BearerEnd.silent(seconds: 20)),
      ([0xFF, 0x02, 0x55, 0x01], .linkLost(.controllerReset)),
      ([0x0E, 0x03, 0x01, 0x00, 0x00], .linkLost(.controllerReset)),
      ([0x0E, 0x04, 0x01, 0x03, 0x0C, 0x00], .linkLost(.controllerReset)),
    ] as [([UInt8], BearerEnd)])
  func aControllerThatStartsAgainIsAGap(_ announcement: [UInt8], _ end: BearerEnd) async throws {
    let (result, _) = try await record(for: 60) {
      OddDevice()
    } _: { link in
      try? await link.loop.wait(for: .seconds(5))
      await link.emulation.inject(.restart(announcedBy: announcement))
    }
    #expect(result.failure == nil)
    #expect(result.report.gaps.map(\.end) == [end])
    #expect(result.report.gaps.first?.firstSampleAt != nil)
  }

  // MARK: The start

  /// It returns one characteristic per second, and as many as there are handles.
  final class Trickles: OddDevice {
    private var waiting: [[UInt8]] = []
    private var ticks = 0
    override func exchangeMTU() -> [[UInt8]] { answer([0x03, 0x17, 0x00], to: [0x02]) }
    override func notFound(_ request: [UInt8]) -> [[UInt8]] { answer([], to: request) }
    override func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] {
      switch request[0] {
      case 0x06: waiting.append([0x07, 0x01, 0x00, 0xFF, 0xFF])
      case 0x08, 0x10:
        let first = Self.handle(request)
        waiting.append([0x09, 0x07] + Self.octets(first) + [0x02] + Self.octets(first + 1) + [0x38, 0x2A])
      default: waiting.append(pdu)
      }
      return []
    }
    override func expired(_ link: PeripheralLink, now: MonotonicTime) {
      super.expired(link, now: now)
      ticks += 1
      guard ticks % 50 == 0, !waiting.isEmpty else { return }
      let pdu = waiting.removeFirst()
      link.sendATT(pdu.span)
    }
  }

  @Test func aStartThatNeverEndsIsGivenUp() async throws {
    let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
    let link = try await VirtualLink.open(clock: .virtual(from: start)) { [Trickles()] }
    var plan = DeviceSession.Plan(OddDevice.address)
    (plan.connectTimeout, plan.startTimeout, plan.answerTimeout) = (.seconds(6), .seconds(6), .seconds(6))
    let session = DeviceSession(plan, on: link.adapter)
    let (failure, elapsed) = await withTaskExecutorPreference(link.loop.preference) {
      () -> (HostError?, Duration) in
      let begunAt = link.loop.clock.monotonic()
      let profile = SensorProfile<HeartRateSession>(.none)
      var failure: HostError?
      do throws(HostError) { try await session.run(profile) } catch { failure = error }
      return (failure, begunAt.duration(to: link.loop.clock.monotonic()))
    }
    #expect(failure == .startTimedOut(OddDevice.address, seconds: 6))
    #expect((.seconds(5)...Duration.seconds(7)).contains(elapsed))
    await link.close()
  }

  /// Its first link streams and ends; on all others it returns endless attributes.
  final class TricklesLater: OddDevice {
    private var waiting: [[UInt8]] = []
    private var ticks = 0
    override func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] { linkCount > 1 ? [] : [pdu] }
    override func write(_ handle: UInt16, _ value: [UInt8]) -> [[UInt8]]? { linkCount > 1 ? [] : nil }
    override func expired(_ link: PeripheralLink, now: MonotonicTime) {
      super.expired(link, now: now)
      if linkCount == 1, count == 200 { end() }
    }
  }

  /// 30 s for each start, with growing pauses: no more than ten links in five minutes.
  @Test func startsThatTimeOutAreAttemptsWithPauses() async throws {
    let (result, _) = try await record(for: 400, patience: 300) { TricklesLater() }
    #expect(result.failure == .noAnswer(OddDevice.address, seconds: 300))
    let gap = try #require(result.report.gaps.first)
    #expect((5...10).contains(gap.attempts))
    // The last attempt has no time left.
    let others = gap.failures.dropLast().filter { if case .startTimedOut = $0.error { false } else { true } }
    #expect(others.isEmpty, "\(others)")
  }

  // MARK: Values without a subscription

  /// It sends ten values of its characteristic, and one of an unknown handle.
  final class SendsMore: OddDevice {
    override func expired(_ link: PeripheralLink, now: MonotonicTime) {
      super.expired(link, now: now)
      guard isMeasuring, count <= 10 else { return }
      let (name, nothing): ([UInt8], [UInt8]) = ([0x1B, 0x03, 0x00, 0x4F], [0x1B, 0x77, 0x77, 0x01])
      link.sendATT(name.span)
      if count == 10 { link.sendATT(nothing.span) }
    }
  }

  @Test func valuesWithoutASubscriptionAreCounted() async throws {
    let (more, json) = try await record(for: 5) { SendsMore() }
    #expect(more.report.unsubscribedValues == 11)
    #expect(json.filter { $0 != " " }.contains("\"unsubscribedValues\":11"))
    // Values that are in flight when the stream is stopped do not count.
    let (plain, _) = try await record(for: 5) { OddDevice() }
    #expect(plain.report.unsubscribedValues == 0)
  }
}
