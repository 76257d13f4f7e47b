import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import CTestSystem
import Foundation
import TestKit
import Testing

@testable import Daemon

/// A daemon removes many old captures while it records.
@Suite(.timeLimit(.minutes(2))) struct DaemonSweepTests {
  private static let captures = 10
  private static let bigByteCount = 1 << 30

  /// Ten captures of a gigabyte each, as sparse files.
  private static func fill(_ folder: String) throws {
    for hour in 0..<captures {
      let path = "\(folder)/ring1/2023111\(hour)T000000Z"
      try Files.createDirectory(path + "/ppg")
      for name in ["session.json", "ppg.csv", "ppg/time_ns.npy"] {
        try Files.write(Array("123".utf8).span, to: "\(path)/\(name)", ifExists: .refuse)
      }
      let big = path + "/packets.btsnoop"
      #expect(FileManager.default.createFile(atPath: big, contents: nil))
      #expect(truncate(big, bigByteCount) == 0)
    }
  }

  /// 10 GB are removed in 160 steps, plus the files' names, each of them slowed down: nothing is lost, and
  /// the receive thread makes no file system calls.
  @Test func removesTenGigabytesWhileSixteenRingsStream() async {
    await #expect(processExitsWith: .success) {
      try await withFolder { folder in
        let rings = (1...16).map { quietRing(number: $0, rate: 100) }
        let link = try await VirtualLink.open(rings)
        let recorded = rings.enumerated().map { number, ring in
          DaemonConfiguration.Device(
            name: "ring\(number + 1)", address: ring.address, sensor: .init("ring"))
        }
        var configuration = DaemonConfiguration(directory: folder, devices: recorded)
        let daemon = Daemon(configuration, on: link.adapter) { _ in }
        let running = Task(executorPreference: link.loop.preference) { await daemon.run() }
        try await eventually("all stream") {
          let devices = await daemon.status().devices
          return devices.count == 16 && devices.allSatisfy { $0.isStreaming && $0.counts.received > 20 }
        }
        try Self.fill(folder)
        let before = await daemon.status().devices.map(\.counts.received)
        test_slow_removals(4000)
        test_watch_thread("ringtap-receive")
        configuration.retention.maximumByteCount = 0
        await daemon.reload(configuration)
        // Queried meanwhile, as Prometheus does.
        try await eventually("all is removed") { await daemon.status().removedCaptures == Self.captures }
        var first: UnsafePointer<CChar>?
        let calls = test_file_calls(&first)
        #expect(calls == 0, "\(first.map { String(cString: $0) } ?? "")")
        test_watch_thread("")
        // 15 steps that shorten each big file, its four names, and two folders.
        #expect(test_removals() == Self.captures * (15 + 4 + 2))
        #expect(Files.names(in: folder + "/ring1").count { !$0.hasPrefix(".") } == 1)
        #expect(!Files.names(in: folder + "/ring1").contains { $0.hasSuffix(".removing") })
        let devices = await daemon.status().devices
        #expect(zip(devices, before).allSatisfy { $0.counts.received > $1 + 50 })
        #expect(devices.allSatisfy { $0.counts.lost == 0 && $0.counts.gaps == 0 && $0.isStreaming })
        running.cancel()
        await running.value
        let ended = await daemon.status()
        #expect(ended.devices.isEmpty && ended.removedCaptures == Self.captures)
        await link.close()
      }
    }
  }

  /// A daemon that ends does not wait for the removal of gigabytes.
  @Test func anEndInterruptsASweep() async {
    await #expect(processExitsWith: .success) {
      try await withFolder { folder in
        try Self.fill(folder)
        let link = try await VirtualLink.open([quietRing(rate: 100)])
        var configuration = DaemonConfiguration(directory: folder, devices: [])
        configuration.retention.maximumByteCount = 0
        let daemon = Daemon(configuration, on: link.adapter) { _ in }
        test_slow_removals(20_000)
        let running = Task(executorPreference: link.loop.preference) { await daemon.run() }
        try await eventually("it removes") { test_removals() > 3 }
        running.cancel()
        await running.value
        #expect(test_removals() < Self.captures * (15 + 4 + 2))
        await link.close()
      }
    }
  }
}
