import BLEEmulation
import BLEHost
import BLELinux
import BLEPacketLog
import BLEStack
import BLEWire
import Foundation
import Recording
import SensorSessions
import Synchronization
import TestKit
import Testing

/// Captures that lose their link, in virtual time: the files are continued.
@Suite(.timeLimit(.minutes(3))) struct CaptureGapTests {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
  private static let losses = 50

  /// Results of one capture.
  private struct Run: Sendable {
    var result: SensorRecording.Result
    /// Raw frames that the ring has sent over all links.
    var sent: Int
    /// Link states reported meanwhile: `true` for a loss.
    var news: [Bool]
    /// Nanoseconds since the start.
    var duration: Int64
  }

  /// A capture in virtual time that is interrupted when `script` ends, or ends earlier.
  private func capture(
    in folder: String, patience: Duration = .seconds(60), sleepsAfter: Duration? = nil,
    _ change: (inout SensorRecording) -> Void = { _ in },
    wrap: @Sendable (any PacketTransport) -> any PacketTransport = { $0 },
    _ script: @escaping @Sendable (DeviceAddress, ControllerAttachment, EventLoop) async throws -> Void
  ) async throws -> Run {
    var ring = quietRing(rate: 15)
    ring.sleepsAfter = sleepsAfter
    let configuration = ring
    let link = try await VirtualLink.open(
      [configuration], pace: .air, clock: .virtual(from: Self.start), wrap: wrap)
    let loop = link.loop
    var capture = SensorRecording(of: ring.address, on: link.adapter, into: folder + "/capture")
    capture.plan.patience = patience
    capture.plan.connectTimeout = .seconds(5)
    change(&capture)
    let news = NewsList()
    capture.news = { news.append($0) }
    let plan = capture
    let running = Task(executorPreference: loop) { try await plan.run(.ring) }
    let timing = Task(executorPreference: loop) {
      try await script(ring.address, link.emulation, loop)
      running.cancel()
    }
    let result = try await running.value
    timing.cancel()
    let duration = try #require(result.report.endedAt).nanoseconds - Self.start.nanoseconds
    let sent = await link.emulation.inspect { controller in
      controller.peripherals.compactMap { ($0 as? EmulatedRing)?.sentRawNotifications }.reduce(0, +)
    }
    await link.close()
    return Run(result: result, sent: sent, news: news.all, duration: duration)
  }

  private func stamps(_ folder: String, _ table: String) throws -> [Int64] {
    let text = try String(contentsOfFile: folder + "/capture/" + table, encoding: .utf8)
    return text.split(separator: "\n").dropFirst().compactMap { Int64($0.prefix { $0 != "," }) }
  }

  private func session(_ folder: String) throws -> [String: Any] {
    let data = try Data(contentsOf: URL(filePath: folder + "/capture/session.json"))
    return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
  }

  /// Ten minutes with fifty lost links. Everything that the controller delivered becomes a row, each gap has
  /// its cause, and other programs can read the packet log.
  @Test func fiftyLossesInTenMinutes() async throws {
    try await withFolder { folder in
      let log = try await PacketLogFile.start(folder + "/hci.btsnoop")
      let run = try await capture(in: folder, wrap: { log.capturing($0) }) { ring, emulation, loop in
        try await LossScript(ring, emulation, loop).run(Self.losses)
      }
      #expect(await log.finish().lost == 0)
      let report = run.result.report
      #expect(run.result.failure == nil && report.endReason == "interrupted")
      #expect(report.lost.total == 0 && report.malformed == 0)
      #expect(run.duration > 600_000_000_000)

      // Each loss is in its place, was reported when it happened, and is over.
      #expect(report.gaps.count == Self.losses && report.gapCount == Self.losses)
      for (gap, loss) in zip(report.gaps, LossScript.losses(Self.losses)) {
        #expect(gap.reason?.rawValue == loss.reason)
        #expect(gap.failures.contains { $0.reason?.rawValue == 0x3E } == (loss == .deaf))
      }
      #expect(run.news == (0..<2 * Self.losses).map { $0.isMultiple(of: 2) })

      // The same number from each source: tables, report, the capture's log and the controller's log.
      let tables = try ["accelerometer.csv", "ppg.csv", "spo2.csv"].map { try stamps(folder, $0) }
      let rows = tables.reduce(0) { $0 + $1.count }
      #expect(report.received == rows)
      let logged = try LogFrames.notifications(folder + "/capture/packets.btsnoop")
      let delivered = try LogFrames.notifications(folder + "/hci.btsnoop")
      #expect(logged == delivered && logged.count == rows)
      // Frames that were sent but not received were in flight when the link was lost: at 15 a second, in 420
      // ms of silence and until the next connection event.
      #expect((0...Self.losses * 12).contains(run.sent - rows))
      for stamps in tables {
        #expect(zip(stamps, stamps.dropFirst()).allSatisfy { $0 < $1 })
        // No sample lies inside a gap, and none is missing outside: one every 200 ms, plus the delay of a
        // connection event.
        let breaks = zip(stamps, stamps.dropFirst()).filter { $1 - $0 > 300_000_000 }
        #expect(breaks.count <= Self.losses)
        for (last, first) in breaks {
          #expect(
            report.gaps.contains {
              last <= ($0.lastSampleAt?.nanoseconds ?? 0) && first > $0.lostAt.nanoseconds
            })
        }
      }
      try expectGaps(try session(folder), report)
      try await expectReadable(folder + "/capture/packets.btsnoop", notifications: rows)
    }
  }

  private func expectGaps(_ session: [String: Any], _ report: SessionReport) throws {
    let gaps = try #require(session["gaps"] as? [[String: Any]])
    #expect(gaps.count == Self.losses && session["gapCount"] as? Int == Self.losses)
    for (object, loss) in zip(gaps, LossScript.losses(Self.losses)) {
      let reason = try #require(object["reason"] as? [String: Any])
      #expect(reason["code"] as? Int == Int(loss.reason))
      // Names from Core 5.4, Vol 1, Part F, 2.
      #expect(
        reason["name"] as? String
          == (loss == .leaving ? "Remote User Terminated Connection" : "Connection Timeout"))
      let failures = try #require(object["failures"] as? [[String: Any]])
      let names = failures.compactMap { ($0["reason"] as? [String: Any])?["name"] as? String }
      #expect(names.contains("Connection Failed to be Established") == (loss == .deaf))
      #expect(object["attempts"] as? Int == failures.count + 1)
      let length = try #require(object["lengthMs"] as? Double)
      // Absent for four seconds, or back at once: it advertises every 20 ms. Nothing proves that its
      // attributes are unchanged: five requests, with a response every other connection event.
      if loss == .leaving { #expect(length < 1000) } else { #expect((3_000...8_000).contains(length)) }
      #expect(object["recoveryMs"] is Double && object["connectedAtNs"] is String)
    }
    #expect(session["links"] as? Int == report.linkCount)
    #expect(try #require(session["timeToFirstSampleMs"] as? Double) > 0)
    let median = try #require(session["medianRecoveryMs"] as? Double)
    let connection = try #require(session["connection"] as? [String: Any])
    let inForce = try #require(connection["inForce"] as? [String: Any])
    let interval = try #require(inForce["intervalMs"] as? Double)
    print("median from a lost link to the next sample: \(median) ms at an interval of \(interval) ms")
  }

  /// tshark and btmon find each link, each disconnect and each notification, and report no problem.
  private func expectReadable(_ log: String, notifications: Int) async throws {
    let fields = ["bthci_evt.le_meta_subevent", "bthci_evt.reason", "btatt.opcode", "_ws.malformed"]
    let arguments = ["-r", log, "--disable-protocol", "btgatt", "-T", "fields", "-E", "separator=|"]
    do {
      let text = try await Program.output(of: "tshark", arguments + fields.flatMap { ["-e", $0] })
      let lines = text.split(separator: "\n").map {
        $0.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
      }
      let reasons = lines.map { $0[1] }
      #expect(reasons.count { $0 == "0x13" } == 17 && reasons.count { $0 == "0x08" } == 33)
      #expect(reasons.count { $0 == "0x3e" } >= 16)
      // Each link begins before it ends; all but the last have ended.
      let ends = reasons.count { !$0.isEmpty }
      #expect(lines.count { $0[0] == "0x01" } == ends + 1)
      #expect(lines.count { $0[2] == "0x1b" } == notifications)
      #expect(lines.allSatisfy { $0[3].isEmpty })
    }
    do {
      let result = try await OldBtmon.read(log)
      #expect(result.status == 0)
      let text = result.output
      #expect(
        text.split(separator: "\n").count { $0.contains("Handle Value Notification (0x1b)") } == notifications
      )
      for word in ["invalid", "malformed", "too short", "unexpected"] {
        #expect(!text.lowercased().contains(word))
      }
    }
  }

  // MARK: Ends

  /// A ring does not come back: the capture ends after the timeout, and its data is complete.
  @Test func endsWhenTheRingDoesNotComeBack() async throws {
    try await withFolder { folder in
      let run = try await capture(in: folder, patience: .seconds(30)) { ring, emulation, loop in
        try await loop.wait(for: .seconds(10))
        await emulation.inject(.outOfRange(ring))
        try await loop.wait(for: .seconds(3600))
      }
      let report = run.result.report
      #expect(
        run.result.failure == .noAnswer(DeviceAddress(bits: 0x70CB_0D00_0001, type: .public), seconds: 30))
      #expect(
        report.endReason
          == "the link was lost: the device went silent, and it was not back within 30 s")
      let gap = try #require(report.gaps.first)
      #expect(report.gaps.count == 1 && gap.firstSampleAt == nil && gap.attempts == gap.failures.count)
      let end = try #require(report.endedAt)
      #expect((30_000_000_000...30_100_000_000).contains(end.nanoseconds - gap.lostAt.nanoseconds))
      #expect(try stamps(folder, "ppg.csv").count == report.streams[1].samples && report.received > 100)
      let object = try #require((try session(folder)["gaps"] as? [[String: Any]])?.first)
      #expect(object["firstSampleAtNs"] == nil && object["lengthMs"] == nil)
      #expect(run.news == [true])
    }
  }

  /// A ring sleeps half a minute after a link. If it wakes up before the timeout, the capture continues; if
  /// later, the capture ends with the reason.
  @Test(arguments: [(20, true), (40, false)])
  func aRingSleeps(seconds: Int, isBack: Bool) async throws {
    try await withFolder { folder in
      let run = try await capture(in: folder, sleepsAfter: .seconds(30)) { ring, emulation, loop in
        try await loop.wait(for: .seconds(10))
        await emulation.inject(.outOfRange(ring))
        try await loop.wait(for: .seconds(seconds))
        await emulation.inject(.inRange(ring))
        try await loop.wait(for: .seconds(isBack ? 10 : 3600))
      }
      let report = run.result.report
      #expect(run.news == (isBack ? [true, false] : [true]) && report.gapCount == 1)
      #expect((report.gaps.first?.firstSampleAt != nil) == isBack)
      #expect(
        report.endReason
          == (isBack
            ? "interrupted"
            : "the link was lost: the device went silent, and it was not back within 60 s"))
    }
  }

  /// Ctrl-C while the ring is away is not a failure.
  @Test func isInterruptedWhileItConnects() async throws {
    try await withFolder { folder in
      let run = try await capture(in: folder) { ring, emulation, loop in
        try await loop.wait(for: .seconds(10))
        await emulation.inject(.outOfRange(ring))
        try await loop.wait(for: .seconds(20))
      }
      #expect(run.result.failure == nil && run.result.report.endReason == "interrupted")
      #expect(run.result.report.gapCount == 1)
      #expect(try session(folder)["endReason"] as? String == "interrupted")
    }
  }

  /// The duration includes the time without a link.
  @Test func theDurationIsOverInAGap() async throws {
    try await withFolder { folder in
      let run = try await capture(in: folder) {
        $0.limits.duration = .seconds(20)
      } _: { ring, emulation, loop in
        try await loop.wait(for: .seconds(10))
        await emulation.inject(.outOfRange(ring))
        try await loop.wait(for: .seconds(3600))
      }
      #expect(run.result.failure == nil && run.result.report.endReason == "duration over")
      #expect((20_000_000_000...30_000_000_000).contains(run.duration))
    }
  }

  /// The very first link may fail to be established because the ring does not receive the connect.
  @Test func triesAgainWhatWasNeverEstablished() async throws {
    try await withFolder { folder in
      let ring = quietRing(rate: 15)
      let link = try await VirtualLink.open([ring], pace: .air, clock: .virtual(from: Self.start))
      let loop = link.loop
      await link.emulation.inject(.deafen(ring.address))
      var capture = SensorRecording(
        of: ring.address, on: link.adapter, into: folder + "/capture", .init(count: 30))
      capture.plan.patience = .seconds(20)
      let plan = capture
      let running = Task(executorPreference: loop) { try await plan.run(.ring) }
      // On the loop, so that its time does not advance before the ring is in range again.
      try await Task(executorPreference: loop) {
        try await loop.wait(for: .seconds(3))
        await link.emulation.inject(.inRange(ring.address))
      }.value
      let result = try await running.value
      await link.close()
      #expect(result.failure == nil && result.report.endReason == "count reached")
      #expect(result.report.gapCount == 0 && result.report.linkCount > 1)
      #expect(try #require(result.report.timeToFirstSample) > 3_000_000_000)
    }
  }
}

private final class NewsList: Sendable {
  private let list = Mutex<[Bool]>([])

  var all: [Bool] { list.withLock { $0 } }

  func append(_ news: SensorRecording.News) {
    if case .begun = news { return }
    list.withLock { list in
      if case .lost = news { list.append(true) } else { list.append(false) }
    }
  }
}

/// Notifications in a log.
private enum LogFrames {
  /// Time of each notification in microseconds.
  static func notifications(_ path: String) throws -> [Int64] {
    let octets = [UInt8](try Data(contentsOf: URL(filePath: path)))
    var found: [Int64] = []
    var reader = PacketLogReader()
    try reader.read(octets.span) { record in
      // ACL header and L2CAP header of four bytes each, then the opcode.
      guard record.type == .acl, record.packet.count > 8, record.packet[8] == 0x1B else { return }
      found.append(record.time.nanoseconds / 1000)
    }
    try reader.finish()
    return found
  }
}
