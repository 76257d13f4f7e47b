import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Testing

@testable import SensorSessions

/// Results of each fault in a ring's replies.
@Suite(.timeLimit(.minutes(2))) struct RingFaultTests {
  private static let yesterday = try? RingDate(year: 2025, month: 12, day: 10)
  private static let history = RingHistory()

  /// Every fifth frame is broken: of the first log's 24, numbers 4, 9, 14 and 19.
  @Test func wrongChecksumsAreSkipped() async throws {
    let date = try #require(Self.yesterday)
    try await withStoredRing {
      $0.replyFaults.wrongChecksumEvery = 5
    } _: { ring in
      let log = try #require(try await ring.heartRateLog(of: date))
      #expect(log.missingFrames == [4, 9, 14, 19])
      #expect(await ring.counters.malformed == 4)
      #expect(await ring.lastMalformed?.contains("checksum") == true)
      #expect(await ring.counters.timeouts == 0)
    }
  }

  @Test func aBrokenReplyIsNoReply() async throws {
    try await withStoredRing {
      $0.replyFaults.wrongChecksumEvery = 1
    } _: { ring in
      await #expect(throws: RingError.noReply(to: "command 0x3", seconds: 3)) { try await ring.ask(.battery) }
      await #expect(throws: RingError.noReply(to: "big data 0x2a", seconds: 3)) { try await ring.oxygen() }
      #expect(await ring.counters.malformed >= 2)
    }
  }

  /// Replies arrive half a second after their request timed out.
  @Test func lateRepliesDisturbNobody() async throws {
    try await withStoredRing {
      $0.replyFaults.delay = .milliseconds(3500)
    } _: { ring in
      await #expect(throws: RingError.noReply(to: "command 0x3", seconds: 3)) { try await ring.ask(.battery) }
      #expect(await ring.counters.foreign == 0)
      try await ring.connection.loop.wait(for: .seconds(1))
      #expect(await ring.counters.foreign == 1)
    }
  }

  @Test func aReplyWithinPatienceIsTaken() async throws {
    let date = try #require(Self.yesterday)
    try await withStoredRing {
      $0.replyFaults.delay = .milliseconds(2500)
    } _: { ring in
      let log = try #require(try await ring.heartRateLog(of: date))
      #expect(log.isComplete && log.samples == Self.history.heartRates(date))
      #expect(await ring.counters == .init())
    }
  }

  @Test func repliesOfOtherCommandsDisturbNobody() async throws {
    let date = try #require(Self.yesterday)
    try await withStoredRing {
      $0.replyFaults.foreignReplies = true
    } _: { ring in
      guard case .battery = try await ring.ask(.battery) else { return #expect(Bool(false), "no battery") }
      let log = try #require(try await ring.heartRateLog(of: date))
      #expect(log.isComplete && log.samples == Self.history.heartRates(date))
      #expect(await ring.counters.foreign == 2)
    }
  }

  /// The data so far is returned, after the timeout and no sooner.
  @Test func logsThatStopAreGivenAsFarAsTheyCame() async throws {
    let date = try #require(Self.yesterday)
    try await withStoredRing {
      $0.replyFaults.logFrameLimit = 10
    } _: { ring in
      let clock = ring.connection.loop.clock
      let start = clock.monotonic()
      let log = try #require(try await ring.heartRateLog(of: date))
      #expect(log.missingFrames == Array(10..<24))
      #expect(start.duration(to: clock.monotonic()) >= .seconds(3))
      #expect(start.duration(to: clock.monotonic()) < .seconds(4))
      // Frames 1 … 9 hold the echo and 113 samples.
      let samples = Array(log.samples[..<113])
      #expect(samples == Array(Self.history.heartRates(date)[..<113]))
      await #expect(throws: RingError.noReply(to: "big data 0x2a", seconds: 3)) { try await ring.oxygen() }
      // A short log is complete.
      #expect(try await ring.stressLog(daysAgo: 1)?.isComplete == true)
    }
  }

  @Test func unaskedFramesDoNotDisturbALog() async throws {
    let date = try #require(Self.yesterday)
    try await withStoredRing {
      $0.replyFaults.unaskedFrames = true
    } _: { ring in
      let log = try #require(try await ring.heartRateLog(of: date))
      #expect(log.isComplete && log.samples == Self.history.heartRates(date))
      let steps = try #require(try await ring.activityLog(daysAgo: 1))
      #expect(steps.isComplete)
      #expect(await ring.counters.foreign == 0)
      #expect(await ring.counters.unasked >= 24)
    }
  }

  @Test func repeatedFramesDoNotDisturbALog() async throws {
    let date = try #require(Self.yesterday)
    try await withStoredRing {
      $0.replyFaults.repeatedFrames = true
    } _: { ring in
      let log = try #require(try await ring.heartRateLog(of: date))
      #expect(log.isComplete && log.samples == Self.history.heartRates(date))
      let stress = try #require(try await ring.stressLog(daysAgo: 1))
      #expect(stress.isComplete && stress.samples == Self.history.stress(date))
      #expect(await ring.counters.timeouts == 0)
    }
  }

  /// Two simultaneous requests are sent one after the other.
  @Test func questionsQueue() async throws {
    let date = try #require(Self.yesterday)
    try await withStoredRing { ring in
      async let log = ring.heartRateLog(of: date)
      async let battery = ring.ask(.battery)
      async let stress = ring.stressLog(daysAgo: 1)
      #expect(try await log?.samples == Self.history.heartRates(date))
      #expect(try await stress?.samples == Self.history.stress(date))
      guard case .battery = try await battery else { return #expect(Bool(false), "no battery") }
      #expect(await ring.counters == .init())
    }
  }
}
