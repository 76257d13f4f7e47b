import BLELinux
import BLEWire
import ColmiRing
import Foundation
import JSONText
import Synchronization
import TestKit
import Testing

@testable import SensorSessions

/// Recorded requests and replies of real rings through the whole stack. The scripted ring replies only to
/// exactly the bytes that another program wrote, and the results equal the values that the reference's
/// editors read in the replies.
@Suite(.timeLimit(.minutes(2))) struct RingReplayTests {
  struct Case: Sendable, CustomTestStringConvertible {
    enum Question: Sendable {
      case ask(RingRequest)
      case dayLog(RingLogKind, RingRequest, RingDayLog.Day)
      case activityLog
      case bigData(RingBigDataRequest)
    }

    let question: Question
    /// Bytes, or the name of a vector.
    let request: String
    /// Vectors, in order.
    let replies: [String]
    /// The vector with the expected result; the last of the replies if not given.
    var expect: String?

    var testDescription: String { replies.joined(separator: " ") }
  }

  static let cases: [Case] = [
    Case(question: .ask(.battery), request: "req-battery", replies: ["rsp-battery-64"]),
    Case(
      question: .ask(.battery), request: "req-battery",
      replies: ["evt-battery-21", "bad-checksum", "bad-length", "rsp-phone-name-ack", "rsp-battery-78"]),
    Case(
      question: .ask(.deviceSupport), request: "req-device-support", replies: ["rsp-device-support-rt11cr"]),
    Case(
      question: .ask(.readHeartRateLogSettings), request: "req-hr-settings-read",
      replies: ["rsp-hr-settings-on-60"]),
    Case(
      question: .ask(.readHeartRateLogSettings), request: "req-hr-settings-read",
      replies: ["rsp-hr-settings-write-ack", "rsp-hr-settings-on-5-rt11cr"]),
    Case(
      question: .ask(
        .writeHeartRateLogSettings(RingHeartRateLogSettings(isEnabled: true, intervalMinutes: 5))),
      request: "req-hr-settings-on-5min", replies: ["rsp-hr-settings-write-ack"]),
    Case(
      question: .ask(.readAutomaticMeasurement(.spO2)), request: "2c01000000000000000000000000002d",
      replies: ["rsp-spo2-settings"]),
    Case(
      question: .ask(.readAutomaticMeasurement(.heartRateVariability)),
      request: "38010000000000000000000000000039", replies: ["rsp-hrv-settings"]),
    Case(question: .ask(.goals), request: "req-goals-read", replies: ["rsp-goals"]),
    Case(
      question: .ask(.todayTotals), request: "48000000000000000000000000000048",
      replies: ["evt-live-activity-3055", "totals-456-rt11cr"]),
    Case(question: .activityLog, request: "req-steps-today", replies: ["steps-rt11cr-20251211"]),
    Case(question: .activityLog, request: "req-steps-today", replies: ["steps-20230813"]),
    Case(question: .activityLog, request: "req-steps-today", replies: ["evt-new-hr", "steps-r11-20260617"]),
    Case(
      question: heartRate(1_765_493_657), request: "req-hr-log-20251211",
      replies: ["hrlog-rt11cr-20251211-225417"]),
    // 0x66B6AD80 and its checksum. A late log of another day arrives first.
    Case(
      question: heartRate(1_723_248_000), request: "1580adb666000000000000000000005e",
      replies: ["hrlog-20260213", "hrlog-20240810"]),
    Case(
      question: .dayLog(.stress, .stressLog(daysAgo: 0), .daysAgo(0)),
      request: "37000000000000000000000000000037", replies: ["evt-stress-sample", "stress-rt11cr-20251215"]),
    Case(
      question: .dayLog(.heartRateVariability, .heartRateVariabilityLog(daysAgo: 0), .daysAgo(0)),
      request: "39000000000000000000000000000039", replies: ["hrv-rt11cr-20251211"]),
    // It stops half-way.
    Case(
      question: .dayLog(.heartRateVariability, .heartRateVariabilityLog(daysAgo: 0), .daysAgo(0)),
      request: "39000000000000000000000000000039", replies: ["hrv-partial-fixture"]),
    Case(
      question: .bigData(.sleepLog(.day(daysAgo: 0xFF))), request: "req-big-sleep-history-2byte",
      replies: ["nap-rt11cr", "sleep-rt11cr-2-records"]),
    Case(
      question: .bigData(.sleepLog(.day(daysAgo: 0xFF))), request: "req-big-sleep-history-2byte",
      replies: ["sleep-ringcli-sample", "reassembly-split-3"], expect: "sleep-rt11cr-2-records"),
    Case(question: .bigData(.spO2(.all)), request: "req-big-spo2", replies: ["spo2-rt11cr-3-days"]),
    Case(question: .bigData(.spO2(.all)), request: "req-big-spo2", replies: ["spo2-ringcli-2-days"]),
    Case(
      question: .bigData(.manualHeartRate(daysAgo: 0)), request: "bc280100bf4000",
      replies: ["manual-hr-rt11cr"]),
  ]

  private static func heartRate(_ timestamp: UInt32) -> Case.Question {
    .dayLog(.heartRate, .heartRateLog(timestamp: timestamp), .timestamp(timestamp))
  }

  private static func script(_ request: String, _ replies: [String]) -> [RecordedRing.Exchange] {
    let known = RingProtocolVector.all.first { $0.name == request }?.packets.first
    return [
      RecordedRing.Exchange(
        request: known ?? octetsOf(request), replies: replies.flatMap { RingProtocolVector.named($0).packets }
      )
    ]
  }

  @Test(arguments: cases) func answers(_ replay: Case) async throws {
    let script = Self.script(replay.request, replay.replies)
    let text = try await withConversation(RecordedRing.address, peripherals: { [RecordedRing(script)] }) {
      ring in
      var line = JSONLine()
      try await Self.answer(replay.question, ring).append(to: &line)
      return String(decoding: line.octets, as: UTF8.self)
    }
    let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    #expect(canonical(object) == RingProtocolVector.named(replay.expect ?? replay.replies.last ?? "").expect)
  }

  private static func answer(
    _ question: Case.Question, _ ring: RingConversation
  ) async throws -> RingAnswer {
    switch question {
    case .ask(let request): return .reply(try await ring.ask(request))
    case .dayLog(let kind, let request, let day):
      let log = try await ring.dayLog(kind, request, day)
      return .dayLog(try #require(log))
    case .activityLog:
      let log = try await ring.activityLog(daysAgo: 0)
      return .activityLog(try #require(log))
    case .bigData(let request): return .bigData(try await ring.ask(request))
    }
  }

  /// req-set-time-capture-20251211: the vendor app's write at 22:54:15, and an R02's reply.
  @Test func setsTheTime() async throws {
    let script =
      Self.script("req-set-time-capture-20251211", ["evt-packet-size-244", "rsp-set-time-capabilities-r02"])
    let (text, lacksVariability) = try await withConversation(
      RecordedRing.address, patience: .milliseconds(300), peripherals: { [RecordedRing(script)] }
    ) { ring in
      let date = try RingDate(year: 2025, month: 12, day: 11)
      let reply = try await ring.setTime(RingDateTime(date: date, hour: 22, minute: 54, second: 15))
      var line = JSONLine()
      RingAnswer.reply(.time(reply)).append(to: &line)
      let error = await #expect(throws: RingError.self) { try await ring.heartRateVariabilityLog(daysAgo: 0) }
      return (
        String(decoding: line.octets, as: UTF8.self), error == .lacking("heart rate variability")
      )
    }
    let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    #expect(canonical(object) == RingProtocolVector.named("rsp-set-time-capabilities-r02").expect)
    #expect(lacksVariability)
  }

  @Test(arguments: [("nodata-hr", RingLogKind.heartRate), ("nodata-stress", .stress)])
  func hasNothing(_ vector: String, _ kind: RingLogKind) async throws {
    let isHeartRate = kind == .heartRate
    let script = Self.script(
      isHeartRate ? "1580adb666000000000000000000005e" : "37000000000000000000000000000037", [vector])
    try await withConversation(RecordedRing.address, peripherals: { [RecordedRing(script)] }) { ring in
      let log =
        isHeartRate
        ? try await ring.heartRateLog(of: RingDate(year: 2024, month: 8, day: 10))
        : try await ring.stressLog(daysAgo: 0)
      #expect(log == nil)
    }
  }

  @Test func isRefused() async throws {
    let script = Self.script("06010000000000000000000000000007", ["err-dnd-unsupported"])
    try await withConversation(RecordedRing.address, peripherals: { [RecordedRing(script)] }) { ring in
      await #expect(throws: RingError.refused(opcode: 0x06, code: 0xEE)) {
        try await ring.ask(.readSetting(.doNotDisturb))
      }
    }
  }

  /// A measurement of the vendor's app: warm-up, intervals, values; then the stop with the last value.
  @Test func measures() async throws {
    let frames = ["rt-hr-error1", "rt-hr-warmup-zero", "rt-hr-interval-only", "rt-hr-86-interval-707"]
    // The checksum of 6A 01 56.
    let script =
      Self.script("req-rt-hr-start-action0", frames)
      + Self.script("6a0156000000000000000000000000c1", ["rt-stop-ack-hr"])
    let seen = Mutex<[String]>([])
    let timeouts = try await withConversation(
      RecordedRing.address, peripherals: { [RecordedRing(script)] }
    ) { ring in
      try await ring.measure(.heartRate, for: .seconds(5)) { frame, _ in
        var line = JSONLine()
        RingAnswer.reply(.measurement(frame)).append(to: &line)
        seen.withLock { $0.append(String(decoding: line.octets, as: UTF8.self)) }
      }
      return await ring.counters.timeouts
    }
    let objects = try seen.withLock(\.self).map { text in
      canonical(
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]))
    }
    #expect(objects == frames.map { RingProtocolVector.named($0).expect })
    #expect(timeouts == 0)
  }
}
