import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// Views of a running capture: `log record --capture`, and Wireshark's programs through `ringtap extcap`.
  @Suite final class LiveCaptureTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// Starts a program with folders of this test's own.
    private func start(_ program: String, _ arguments: [String]) throws -> Program {
      let environment = [
        "RINGTAP_RUNTIME_DIR=\(scene.path("words"))", "HOME=\(scene.path("home"))", "XDG_CONFIG_HOME=",
      ]
      return try scene.start("env", environment + [program] + arguments)
    }

    private func ringtap(_ arguments: String...) throws -> Program.Result {
      try start(Place.ringtap, arguments).finish()
    }

    /// Starts a capture in real time, and returns when that many logs of it are announced.
    private func capture(_ name: String, logs: Int = 1, _ options: String...) throws -> Program {
      let transport = "virtual:ring,devices=2,real-time"
      let program = try start(
        Place.ringtap, ["capture", "--transport", transport, "--output", scene.path(name)] + options)
      let condition = "until [ \"$(ls \"$0\"/*.json 2>/dev/null | wc -l)\" = \(logs) ]; do sleep 0.05; done"
      try scene.demand("bash", ["-c", condition, scene.path("words")])
      return program
    }

    private func words() throws -> [String] {
      try FileManager.default.contentsOfDirectory(atPath: scene.path("words"))
    }

    /// Wireshark's decode of each packet.
    private func packets(_ path: String) throws -> [String] {
      let fields = ["frame.time_epoch", "bthci_evt.code", "bthci_cmd.opcode", "btatt.opcode", "btatt.value"]
      let result = try scene.run("tshark", ["-r", path, "-T", "fields"] + fields.flatMap { ["-e", $0] })
      return result.outputLines
    }

    /// Waits until a capture has that many rows of each kind.
    private func waitForRows(_ count: Int, of capture: String) throws {
      let condition = "until [ \"$(wc -l <\"$0\")\" -gt \(count) ]; do sleep 0.05; done"
      try scene.demand("bash", ["-c", condition, scene.path(capture) + "/ppg.csv"])
    }

    /// Records from a capture and ends the capture only then, because the start-up time of a program is
    /// unknown.
    private func recording(
      of capture: Program, _ name: String, _ arguments: String...
    ) throws -> Program.Result {
      let recording = try start(Place.ringtap, arguments)
      try recording.line(on: .errors, containing: "recording")
      try waitForRows(200, of: name)
      capture.send(SIGINT)
      #expect(try capture.finish().status == 0)
      let result = try recording.finish()
      #expect(result.status == 0, "\(result.errors)")
      return result
    }

    private func packetLog(_ capture: String) -> String { scene.path(capture) + "/packets.btsnoop" }

    @Test(arguments: ["btsnoop", "pcapng"])
    func recordsARunningCapture(_ format: String) throws {
      let capture = try capture("walk")
      let path = scene.path("log." + format)
      let result = try recording(
        of: capture, "walk", "log", "record", "--capture", scene.path("walk"), "-o", path, "--json")
      let expected = try packets(packetLog("walk"))
      #expect(expected.count >= 600)
      #expect(try packets(path) == expected)
      let report = try #require(result.outputLines.last)
      #expect(report.contains("\"endReason\":\"the capture ended\",\"packets\":\(expected.count),"))
      #expect(report.contains("\"lost\":{\"kernelQueue\":0,\"packetLog\":0,\"disk\":0}"))
      #expect(try words() == [])
    }

    /// The host's packets are a separate log, which includes everything that belongs to no link.
    @Test func choosesAmongSeveralLogs() throws {
      let log = scene.path("hci.btsnoop")
      let capture = try capture("walk", logs: 2, "--packet-log", log)
      let name = try #require(try words().first)
      let processID = String(try #require(name.split(separator: "-").first))
      let path = scene.path("log.pcapng")
      try ringtap("log", "record", "--capture", processID, "-o", path)
        .expectFailure(saying: "has several logs", log, packetLog("walk"))
      try ringtap("log", "record", "--capture", "nothing", "-o", path)
        .expectFailure(saying: "not a running capture", log)
      _ = try recording(of: capture, "walk", "log", "record", "--capture", log, "-o", path)
      let found = try packets(path)
      #expect(found == (try packets(log)))
      #expect(found.count > 500)
      // Reset, 0x0C03.
      #expect(found.first?.contains("\t0x0c03\t") == true)
    }

    /// The kernel releases a killed capture's lock: readers end, and the files that remain do not count as a
    /// running capture.
    @Test func endsWithAKilledCapture() throws {
      let capture = try capture("killed")
      let path = scene.path("log.pcapng")
      let recording = try start(
        Place.ringtap, ["log", "record", "--capture", scene.path("killed"), "-o", path])
      try recording.line(on: .errors, containing: "recording")
      try waitForRows(200, of: "killed")
      capture.send(SIGKILL)
      _ = try capture.finish()
      #expect(try recording.finish().status == 0)
      let found = try packets(path)
      #expect(found.count > 200)
      #expect(found == (try packets(packetLog("killed"))))

      #expect(try words().count == 1)
      try ringtap("log", "record", "--capture", scene.path("killed"), "-o", scene.path("none"))
        .expectFailure(saying: "no capture is running", "ringtap log convert")
      #expect(try !ringtap("extcap", "--extcap-interfaces").output.contains("interface {value=ringtap-"))
      let next = try start(
        Place.ringtap,
        ["capture", "--transport", "virtual:ring", "--count", "3", "--output", scene.path("next")])
      #expect(try next.finish().status == 0)
      #expect(try words() == [])
    }

    // MARK: Wireshark

    /// Name of our only interface in `tshark -D`.
    private func interface() throws -> String {
      let list = try start("tshark", ["-D"]).finish()
      let ours = list.outputLines.compactMap { line in
        line.split(separator: " ").first { $0.hasPrefix("ringtap-") && $0.contains { $0.isNumber } }
      }.filter { !$0.hasPrefix("ringtap-hci") }
      try #require(ours.count == 1, "\(list.output)\(list.errors)")
      return String(ours[0])
    }

    @Test func tsharkCapturesLive() throws {
      let installed = try ringtap("extcap", "--install")
      #expect(
        installed.outputLines
          == [".config/wireshark", ".local/lib/wireshark"].map {
            scene.path("home") + "/\($0)/extcap/ringtap"
          })
      let capture = try capture("walk")
      let interface = try interface()
      let path = scene.path("live.pcapng")
      let tshark = try start("tshark", ["-i", interface, "-w", path])
      try scene.demand("bash", ["-c", "until [ -s \"$0\" ]; do sleep 0.05; done", path])
      try waitForRows(300, of: "walk")
      capture.send(SIGINT)
      #expect(try capture.finish().status == 0)
      // It ends because the capture has ended.
      #expect(try tshark.finish().status == 0)
      let expected = try packets(packetLog("walk"))
      #expect(expected.count >= 900)
      #expect(try packets(path) == expected)
      #expect(try scene.demand("capinfos", [path]).output.contains("Bluetooth Linux Monitor"))

      #expect(try ringtap("extcap", "--uninstall").outputLines == installed.outputLines)
      #expect(try !start("tshark", ["-D"]).finish().output.contains("ringtap-"))
    }

    /// A reader that stops reading and a signal both end it cleanly, in the middle of a capture.
    @Test func endsWithItsReaderOrBySignal() throws {
      _ = try capture("walk")
      let list = try ringtap("--extcap-interfaces", "--extcap-version=4.0").outputLines
      #expect(list.first == "extcap {version=0.1.0}{display=ringtap}")
      let entry = try #require(list.last)
      #expect(entry.hasSuffix(" on virtual:ring,devices=2,real-time (exclusive)}"))
      let name = try #require(entry.split { "={}".contains($0) }.dropFirst(2).first.map(String.init))
      #expect(
        try ringtap("--extcap-dlts", "--extcap-interface", name).output.hasPrefix("dlt {number=254}"))
      #expect(try ringtap("--extcap-config", "--extcap-interface", name).output == "")

      let pipe = scene.path("pipe")
      try scene.demand("mkfifo", [pipe])
      let arguments = [
        "--capture", "--extcap-interface", name, "--fifo", pipe, "--extcap-capture-filter", "",
      ]
      let first = try start(Place.ringtap, arguments)
      try scene.demand("head", ["-c", "1000", pipe])
      let cut = try first.finish()
      #expect(cut.status == 0 && cut.output == "" && cut.errors == "")

      let second = try start(Place.ringtap, arguments)
      let path = scene.path("read.pcapng")
      let reader = try scene.start("bash", ["-c", "cat \"$0\" >\"$1\"", pipe, path])
      try scene.demand(
        "bash", ["-c", "until [ \"$(stat -c %s \"$0\")\" -gt 9999 ]; do sleep 0.05; done", path])
      second.send(SIGTERM)
      #expect(try second.finish().status == 0)
      #expect(try reader.finish().status == 0)
      let log = try MonitorLog(path)
      #expect(log.tornByteCount == 0)
      #expect(try packets(path).count == log.records.count)
    }

    @Test func refusesWhatItDoesNotKnow() throws {
      try ringtap("--capture", "--extcap-interface", "eth0", "--fifo", scene.path("none"))
        .expectFailure(saying: "not an interface of ringtap")
      try ringtap("--capture", "--extcap-interface", "ringtap-1-1", "--fifo", scene.path("none"))
        .expectFailure(saying: "has ended")
      for arguments in [["extcap"], ["extcap", "--capture"], ["extcap", "--extcap-dlts"]] {
        #expect(try start(Place.ringtap, arguments).finish().status == 2)
      }
    }
  }
}
