import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Foundation
import Recording
import Synchronization
import TestKit
import Testing

@testable import Daemon

/// A day of a daemon in virtual time, with lost links, a full disk, and clock changes.
@Suite(.timeLimit(.minutes(5))) struct DaemonDayTests {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)

  /// Runs in its own process, whose files cannot grow for a while, which is how a full disk behaves.
  @Test func day() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      try await withFolder { folder in try await DaemonDay(folder).run(hours: 24) }
    }
  }
}

/// The events of the day, and their expected results.
private struct DaemonDay {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
  private let folder: String

  init(_ folder: String) { self.folder = folder }

  /// Rows of one capture in all of its tables, and its session.
  private struct Capture {
    var device: String
    var rows = 0
    var stamps: [[Int64]] = []
    var session: [String: Any]
  }

  func run(hours: Int) async throws {
    let ring = quietRing(rate: 0.3)
    let strap = StrapModel()
    var sensor = EmulatedSensor.Configuration()
    sensor.ticksPerSecond = 0.1
    let configuration = sensor
    let link = try await VirtualLink.open(pace: .air, clock: .virtual(from: Self.start)) {
      [EmulatedRing(ring), EmulatedSensor(strap, configuration)]
    }
    // A connection event every four seconds, as requested by a device that saves battery.
    var request = LinkRequest()
    request.interval = 3200...3200
    request.supervisionTimeout = 1600
    var daemonConfiguration = DaemonConfiguration(
      directory: folder,
      devices: [
        .init(name: "ring", address: ring.address, sensor: .init("ring"), link: request),
        .init(name: "strap", address: strap.address, sensor: .init("heart-rate"), link: request),
      ])
    daemonConfiguration.newCaptureAfter = .seconds(2 * 3600)
    daemonConfiguration.retention.maximumAge = .seconds(40 * 3600)
    let journal = Journal()
    let daemon = Daemon(daemonConfiguration, on: link.adapter) { journal.append($0) }
    let loop = link.loop
    let running = Task(executorPreference: loop.preference) { await daemon.run() }
    let day = Task(executorPreference: loop.preference) {
      var descriptors: [Int] = []
      for hour in 0..<hours {
        try await pass(hour, [ring.address, strap.address], link.emulation, loop) {
          journal.tells("writing to the disk failed")
        }
        descriptors.append(try openDescriptors())
      }
      return descriptors
    }
    let descriptors = try await day.value
    let status = await daemon.status()
    running.cancel()
    await running.value
    let sent = await link.emulation.inspect { controller in
      controller.peripherals.compactMap { ($0 as? EmulatedRing)?.sentRawNotifications }.reduce(0, +)
    }
    await link.close()
    // No leak: each hour has as many sockets as the first, plus one while a link is made.
    let first = try #require(descriptors.first)
    #expect(descriptors.allSatisfy { $0 <= first + 1 }, "\(descriptors)")
    let captures = try self.captures()
    for capture in captures { try check(capture) }
    for device in ["ring", "strap"] {
      let counts = try #require(status.devices.first { $0.name == device }).counts
      try check(device, captures.filter { $0.device == device }, counts, hours, sent)
    }
    #expect(journal.tells("; duration over"))
    #expect(journal.tells("writing to the disk failed"))
  }

  /// One hour: a lost link of each device, and twice a day something worse.
  private func pass(
    _ hour: Int, _ devices: [DeviceAddress], _ emulation: ControllerAttachment, _ loop: EventLoop,
    _ isDiskRefused: @Sendable () -> Bool
  ) async throws {
    try await loop.wait(for: .seconds(600))
    for (place, device) in devices.enumerated() {
      switch (hour + place) % 3 {
      case 0: await emulation.inject(.disconnect(device, .remoteUserTerminated))
      case 1: await emulation.inject(.outOfRange(device))
      default: await emulation.inject(.deafen(device))
      }
      try await loop.wait(for: .seconds(hour == 7 ? 1200 : 40))
      await emulation.inject(.inRange(device))
    }
    switch hour {
    case 5:
      // Above what a session needs, below what a packet log has by now.
      limitFiles(to: 64 << 10)
      // The writer's half second is real, not virtual.
      for _ in 0..<50 where !isDiskRefused() { try await loop.wait(for: .seconds(50)) }
      limitFiles(to: nil)
      return
    case 9: loop.clock.step(by: .seconds(3600))
    case 14: loop.clock.step(by: .seconds(-7200))
    default: break
    }
    try await loop.wait(for: .seconds(2900))
  }

  // MARK: Contents of the files

  private func captures() throws -> [Capture] {
    try ["ring", "strap"].flatMap { device in
      try FileManager.default.contentsOfDirectory(atPath: folder + "/" + device).sorted().map { name in
        let path = "\(folder)/\(device)/\(name)"
        let data = try Data(contentsOf: URL(filePath: path + "/session.json"))
        let session = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        var capture = Capture(device: device, session: session)
        let tables =
          device == "ring" ? ["accelerometer.csv", "ppg.csv", "spo2.csv"] : ["heart_rate.csv"]
        for table in tables {
          let text = try String(contentsOfFile: path + "/" + table, encoding: .utf8)
          // A line that the disk cut does not count.
          let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().dropFirst()
          capture.rows += lines.count
          capture.stamps.append(lines.compactMap { Int64($0.prefix { $0 != "," }) })
        }
        return capture
      }
    }
  }

  /// A table has no pauses other than gaps reported in the session and clock changes.
  private func check(_ capture: Capture) throws {
    let gaps = (capture.session["gaps"] as? [[String: Any]] ?? []).compactMap { gap -> ClosedRange<Int64>? in
      guard let lost = (gap["lostAtNs"] as? String).flatMap({ Int64($0) }) else { return nil }
      let from = (gap["lastSampleAtNs"] as? String).flatMap { Int64($0) } ?? lost
      let to = (gap["firstSampleAtNs"] as? String).flatMap { Int64($0) } ?? .max
      return min(from, to)...max(from, to)
    }
    let isStepped = capture.session["clockStepMs"] != nil
    for stamps in capture.stamps {
      for (last, next) in zip(stamps, stamps.dropFirst()) where next - last > 20_000_000_000 || next < last {
        #expect(
          isStepped || gaps.contains { $0.overlaps(min(last, next)...max(last, next)) },
          "\(capture.device) \(last)")
      }
    }
    #expect(capture.session["endReason"] is String)
  }

  /// Each notification received is a row, or is counted as lost. The daemon's total equals their sum, apart
  /// from notifications that arrived after it was queried.
  private func check(
    _ device: String, _ captures: [Capture], _ counts: DaemonStatus.Counts, _ hours: Int, _ sent: Int
  ) throws {
    let received = captures.reduce(0) { $0 + ($1.session["received"] as? Int ?? 0) }
    let lost = captures.reduce(0) { $0 + Self.lost($1.session) }
    let rows = captures.reduce(0) { $0 + $1.rows }
    print(
      "\(device): \(captures.count) captures, \(received) received = \(rows) rows + \(lost) lost on the full disk; "
        + "\(counts.gaps) gaps" + (device == "ring" ? "; sent \(sent)" : ""))
    let dropped = counts.loss.kernelQueue + counts.loss.sampleQueue + counts.loss.disk
    #expect(dropped == lost, "\(device): \(counts) \(lost)")
    #expect((0...50).contains(received - counts.received), "\(device): \(received), \(counts.received)")
    #expect(captures.count >= hours / 2)
    guard device == "ring" else {
      // The disk's count includes a strap's intervals, which are rows of another table.
      return #expect((rows...rows + lost).contains(received), "\(received) \(rows) \(lost)")
    }
    #expect(received == rows + lost, "\(received) \(rows) \(lost)")
    // Frames in flight when a link was lost: 0.3 a second, until both ends noticed.
    #expect((0...counts.gaps * 10).contains(sent - received), "\(sent) \(received)")
    #expect(received > hours * 3600 * 3 / 10 * 8 / 10)
  }

  private static func lost(_ session: [String: Any]) -> Int {
    let lost = session["lost"] as? [String: Int] ?? [:]
    return (lost["kernelQueue"] ?? 0) + (lost["sampleQueue"] ?? 0) + (lost["disk"] ?? 0)
  }
}

/// - Parameter byteCount: file size limit; `nil` for no limit.
private func limitFiles(to byteCount: rlim_t?) {
  var limit = rlimit(rlim_cur: byteCount ?? rlim_t.max, rlim_max: rlim_t.max)
  #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
}

/// Messages of a daemon.
private final class Journal: Sendable {
  private let lines = Mutex<[String]>([])

  func append(_ line: String) { lines.withLock { $0.append(line) } }

  func tells(_ text: String) -> Bool { lines.withLock { $0.contains { $0.contains(text) } } }
}
