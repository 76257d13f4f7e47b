import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import Foundation
import Synchronization
import TestKit
import Testing

@testable import Daemon

/// A daemon whose disk is full, and one whose captures are removed.
@Suite(.timeLimit(.minutes(2))) struct DaemonDiskTests {
  /// Hours on a full disk: no directory is left behind, one message is printed, and retries become less
  /// frequent.
  @Test func leavesNoDirectoriesOnAFullDisk() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      try await withFolder { folder in
        let ring = quietRing(rate: 1)
        let link = try await VirtualLink.open(
          pace: .air, clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000))
        ) { [EmulatedRing(ring)] }
        let journal = Mutex<[String]>([])
        let device = DaemonConfiguration.Device(name: "ring", address: ring.address, sensor: .init("ring"))
        let daemon = Daemon(DaemonConfiguration(directory: folder, devices: [device]), on: link.adapter) {
          line in
          journal.withLock { $0.append(line) }
        }
        let loop = link.loop
        // Not even the first session.json fits.
        limitFiles(to: 256)
        let running = Task(executorPreference: loop.preference) { await daemon.run() }
        // On the loop, whose time stands still meanwhile, because a retry creates a directory for a moment.
        let left = try await Task(executorPreference: loop.preference) {
          try await loop.wait(for: .seconds(6 * 3600))
          return Files.names(in: folder + "/ring")
        }.value
        let starts = await daemon.status().devices.first?.counts.failedStarts
        // After 1, 2, 4, 8, 16 and 32 minutes, then every hour, plus the time that a link takes.
        #expect((9...12).contains(try #require(starts)), "\(String(describing: starts))")
        #expect(left.count <= 2, "\(left)")
        #expect(
          journal.withLock(\.self).count { $0.contains("File too large") } == 1, "\(journal.withLock(\.self))"
        )
        // There is space again.
        limitFiles(to: nil)
        try await Task(executorPreference: loop.preference) { try await loop.wait(for: .seconds(3700)) }.value
        #expect(Files.names(in: folder + "/ring").count == 3)
        running.cancel()
        await running.value
        await link.close()
      }
    }
  }

  @Test func knowsWhetherThereIsRoom() throws {
    try withFolder { folder in
      let shelf = CaptureShelf(directory: folder)
      #expect(shelf.hasRoom(for: 1) && !shelf.hasRoom(for: .max))
    }
  }

  /// The next capture begins at once, and in a new directory.
  @Test func beginsAgainWhereACaptureWasRemoved() async throws {
    try await withFolder { folder in
      let file = folder + "/ringtap.json"
      try """
      {"directory": "\(folder)/captures", "statusSocket": "\(folder)/status",
       "radio": {"transport": "virtual:ring,rate=300,real-time"},
       "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}]}
      """.write(toFile: file, atomically: true, encoding: .utf8)
      let daemon = try Ringtap.start(["daemon", file])
      func capture() -> String? {
        let device = folder + "/captures/left"
        return Files.names(in: device).filter { !$0.hasPrefix(".") }.map { device + "/" + $0 }.first {
          (Files.byteCount(of: $0 + "/ppg.csv") ?? 0) > 500
        }
      }
      try await eventually("it records") { capture() != nil }
      let first = try #require(capture())
      try Files.removeTree(first)
      _ = try await daemon.line(on: .errors, containing: "\(first) was removed")
      try await eventually("it records again") { capture() != nil }
      #expect(capture() != first)
      daemon.send(SIGTERM)
      #expect(try await daemon.finish().status == 0)
    }
  }
}

private func limitFiles(to byteCount: rlim_t?) {
  var limit = rlimit(rlim_cur: byteCount ?? rlim_t.max, rlim_max: rlim_t.max)
  #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
}
