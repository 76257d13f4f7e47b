import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// `ringtap log record` on the kernel's monitor, compared with BlueZ's `btmon`.
  @Suite final class LogRecordTests {
    private static let (newIndex, deleteIndex) = (MonitorLog.Record.newIndex, MonitorLog.Record.deleteIndex)

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// Starts recording. Everything that happens after it returns is in the log.
    private func record(_ arguments: String...) throws -> Program {
      let program = try scene.start(Place.ringtap, ["log", "record", "--json"] + arguments)
      try program.line(on: .errors, containing: "recording")
      return program
    }

    private func end(_ recording: Program) throws -> String {
      recording.send(SIGINT)
      let result = try recording.finish()
      #expect(result.status == 0, "\(result.errors)")
      let report = try #require(result.outputLines.last)
      #expect(report.contains("\"lost\":{\"kernelQueue\":0,\"packetLog\":0,\"disk\":0}"))
      return report
    }

    /// A ring appears, is captured and disappears.
    private func captureARing(_ count: Int) throws {
      let ring = try scene.emulatedRing("--rate", "300")
      try scene.ringtap("capture", "--count", "\(count)", "--output", scene.path("capture")).expectSuccess()
      ring.program.end()
    }

    /// Records from the adapter's first to its last: those that two recorders started one after the other
    /// have in common.
    private func shared(_ log: MonitorLog) throws -> [MonitorLog.Record] {
      let first = try #require(log.records.firstIndex { $0.opcode == Self.newIndex })
      let last = try #require(log.records.lastIndex { $0.opcode == Self.deleteIndex })
      return Array(log.records[first...last])
    }

    /// Opcode, adapter, bytes, order and time of each record are the same.
    @Test(arguments: ["btsnoop", "pcapng"])
    func recordsWhatBtmonRecords(_ format: String) throws {
      let (ours, theirs) = (scene.path("ours." + format), scene.path("theirs"))
      let btmon = try scene.btmon("-w", theirs)
      let recording = try record("-o", ours)
      try captureARing(900)
      try btmon.line(containing: "= Delete Index")
      let report = try end(recording)
      btmon.end()

      let (log, reference) = (try MonitorLog(ours), try MonitorLog(theirs))
      #expect(log.tornByteCount == 0)
      #expect(report.contains("\"packets\":\(log.records.count),"))
      let (found, expected) = (try shared(log), try shared(reference))
      #expect(found.count == expected.count)
      #expect(expected.count > 900)
      let difference = zip(found, expected).enumerated().first { $0.element.0 != $0.element.1 }
      #expect(difference == nil, "record \(String(describing: difference))")

      if format == "btsnoop" {
        #expect(try scene.btmonNotifications(ours) >= 900)
        #expect(try scene.btmonNotifications(ours) == (try scene.btmonNotifications(theirs)))
      }
      let (read, readTheirs) = (try summary(ours), try summary(theirs))
      // All of our records, and those of btmon's that both have, as Wireshark prints them.
      #expect(read.count == log.records.count)
      #expect(read.suffix(found.count) == readTheirs.suffix(expected.count))
    }

    /// Wireshark's decode of each record, with times in microseconds, as in btsnoop.
    private func summary(_ path: String) throws -> [String] {
      try scene.demand(
        "tshark",
        [
          "-r", path, "-T", "fields", "-e", "frame.time_epoch", "-e", "hci_mon.opcode", "-e",
          "hci_mon.adapter_id", "-e", "btatt.opcode", "-e", "btatt.value",
        ]
      ).outputLines.map { line in
        var columns = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        columns[0] = String(columns[0].dropLast(3))
        return columns.joined(separator: "\t")
      }
    }

    /// Wireshark lists the adapters through `ringtap extcap`. Its live capture of all adapters, and a pipe's
    /// data for one of them, equal what `log record` has.
    @Test func wiresharkCapturesLive() throws {
      // It starts a dozen programs of its own before it captures.
      let patience = Duration.seconds(120)
      let environment = ["HOME=\(scene.path("home"))", "XDG_CONFIG_HOME="]
      func start(_ program: String, _ arguments: String...) throws -> Program {
        try scene.start("env", environment + [program] + arguments)
      }
      #expect(try start(Place.ringtap, "extcap", "--install").finish().status == 0)
      try scene.linkedControllers()
      let ring = try scene.bumbleRing("--rate", "300")
      let list = try start("tshark", "-D").finish(within: patience).output
      #expect(list.contains("ringtap-monitor (Bluetooth: all adapters)"))
      #expect(list.contains("ringtap-hci0 (Bluetooth: hci0 ") && list.contains("ringtap-hci1 ("))

      let (live, piped, recorded) = (
        scene.path("live.pcapng"), scene.path("piped.pcapng"), scene.path("log.pcapng")
      )
      let recording = try record("-o", recorded)
      // Tests run on Dispatch's threads, which block all signals, and the programs that they start inherit
      // the mask.
      let unblocked = """
        import os, signal, sys
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvp(sys.argv[1], sys.argv[1:])
        """
      let tshark = try start(
        "python3", "-c", unblocked, "tshark", "-l", "-i", "ringtap-monitor", "-w", live, "-P")
      let pipe = scene.path("pipe")
      try scene.demand("mkfifo", [pipe])
      let reader = try scene.start("bash", ["-c", "cat \"$0\" >\"$1\"", pipe, piped])
      let extcap = try start(
        Place.ringtap, "--capture", "--extcap-interface", "ringtap-hci0", "--fifo", pipe)
      // The first packets of each log describe the existing adapters.
      try tshark.line(containing: "New Index", within: patience)
      try scene.demand("bash", ["-c", "until [ -s \"$0\" ]; do sleep 0.05; done", piped])
      try scene.ringtap("capture", ring.address, "--count", "600", "--output", scene.path("capture"))
        .expectSuccess()
      _ = try tshark.lines(untilThey: "have the last notification", within: patience) { lines in
        lines.count { $0.contains("Rcvd Handle Value Notification") } >= 600
      }
      tshark.send(SIGINT)
      #expect(try tshark.finish(within: patience).status == 0)
      extcap.send(SIGTERM)
      #expect(try extcap.finish().status == 0)
      #expect(try reader.finish().status == 0)
      _ = try end(recording)

      // Times and bytes of the packets that hci0 received.
      func notifications(_ path: String) throws -> [String] {
        try summary(path).filter {
          $0.contains("\t0x1b\t") && $0.split(separator: "\t")[2].hasSuffix("0")
        }
      }
      let expected = try notifications(recorded)
      #expect(expected.count >= 600)
      #expect(try notifications(live) == expected)
      #expect(try notifications(piped) == expected)
      #expect(Set(try MonitorLog(piped).records.map(\.adapter)) == [0, 0xFFFF])
    }

    /// Each file of a series can be read alone, and the files that are kept have no gap.
    @Test func keepsTheLastFilesOfASeries() throws {
      let path = scene.path("series")
      let whole = try record("-o", scene.path("whole"))
      let recording = try record("-o", path, "--rotate-count", "50", "--ring", "3")
      try captureARing(300)
      let report = try end(recording)
      _ = try end(whole)

      let names = try FileManager.default.contentsOfDirectory(atPath: scene.folder.path)
      let numbers = names.filter { $0.hasPrefix("series.") }.compactMap { Int($0.dropFirst(7)) }.sorted()
      #expect(numbers.count == 3)
      #expect((numbers.last ?? 0) > 6)
      #expect(report.contains("series.\(numbers.last ?? 0)\"]"))
      var kept: [MonitorLog.Record] = []
      for number in numbers {
        let file = "\(path).\(number)"
        let log = try MonitorLog(file)
        #expect(log.records.first?.opcode == Self.newIndex)
        // New Index, Index Info and Open Index are repeated.
        let notes = log.records.prefix { [0, 8, 10].contains($0.opcode) }
        #expect(notes.count >= 2)
        #expect(number == numbers.last || log.records.count - notes.count == 50)
        kept += log.records.dropFirst(notes.count)
        #expect(try scene.run("btmon", ["-r", file]).status == 0)
      }
      let all = try MonitorLog(scene.path("whole")).records
      // The other recorder may have ended later, but nothing happened in between.
      let end = try #require(all.lastIndex { $0 == kept.last })
      #expect(Array(all[...end].suffix(kept.count)) == kept)
    }

    @Test func recordsOneAdapter() throws {
      let path = scene.path("one")
      let recording = try record("-o", path, "--adapter", "hci1")
      try scene.linkedControllers()
      _ = try end(recording)
      let log = try MonitorLog(path)
      #expect(Set(log.records.map(\.adapter)).subtracting([0xFFFF]) == [1])
      let opcodes = log.records.filter { $0.adapter == 1 }.map(\.opcode)
      #expect(opcodes.contains(Self.newIndex) && opcodes.contains(MonitorLog.Record.indexInformation))
      // Commands and events.
      #expect(opcodes.contains(2) && opcodes.contains(3))
    }

    /// A recorder is stopped for a while, with the small buffer of a user without CAP_NET_ADMIN. Its packets
    /// and its reported losses add up to the packets of another recorder.
    @Test func countsWhatTheKernelDrops() throws {
      let (path, whole) = (try scene.openFolder() + "/log", scene.path("whole"))
      let reference = try record("-o", whole)
      let rights = "-all,+dac_read_search,+net_raw"
      let slow = try scene.start(
        "setpriv",
        [
          "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", rights, "--ambient-caps",
          rights, "--bounding-set", rights, Place.ringtap, "log", "record", "--json", "-o", path,
        ])
      try slow.line(on: .errors, containing: "recording")
      slow.send(SIGSTOP)
      try captureARing(1500)
      slow.send(SIGCONT)
      slow.send(SIGINT)
      let result = try slow.finish()
      _ = try end(reference)

      #expect(result.status == 3)
      func sinceTheRingCame(_ log: MonitorLog) throws -> ArraySlice<MonitorLog.Record> {
        log.records[try #require(log.records.firstIndex { $0.opcode == Self.newIndex })...]
      }
      let (log, all) = (try sinceTheRingCame(MonitorLog(path)), try sinceTheRingCame(MonitorLog(whole)))
      let lost = all.count - log.count
      #expect(lost > 0)
      #expect(result.output.contains("\"lost\":{\"kernelQueue\":\(lost),\"packetLog\":0,\"disk\":0}"))
      #expect(log.last?.drops == lost)
    }

    @Test func saysWhatRightIsMissing() throws {
      let path = try scene.openFolder() + "/log"
      try scene.unprivileged(["log", "record", "-o", path])
        .expectFailure(saying: "the kernel's monitor", "CAP_NET_RAW")
      #expect(!FileManager.default.fileExists(atPath: path))
    }

    /// A file system of 64 KiB.
    @Test func keepsWhatAFullDiskTook() throws {
      let folder = scene.path("small")
      try scene.demand("mkdir", [folder])
      try scene.demand("mount", ["-t", "tmpfs", "-o", "size=64k", "none", folder])
      defer { _ = try? scene.demand("umount", [folder]) }
      let path = folder + "/log"
      let recording = try record("-o", path)
      _ = try scene.emulatedRing("--rate", "300")
      _ = try scene.startRingtap("capture", "--count", "100000", "--output", scene.path("capture"))
      let result = try recording.finish()
      #expect(result.status == 1)
      #expect(result.errors.contains("write \(path): No space left on device"))
      let log = try MonitorLog(path)
      #expect(log.tornByteCount == 0)
      #expect(log.records.count > 500)
    }
  }
}
