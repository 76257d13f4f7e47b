import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Capabilities that the program holds at each stage, when its file has capabilities and its user is
  /// nobody. Read from /proc/PID/task/*/status and compared with the threat model's statement for each
  /// command.
  @Suite final class RightsTests {
    private let scene: Scene
    private let program: String

    init() throws {
      scene = try Scene()
      program = try scene.programWithFileCapabilities()
    }

    isolated deinit { scene.end() }

    /// CAP_NET_ADMIN is bit 12, CAP_NET_RAW bit 13 (`linux/capability.h`).
    private static let (none, admin, raw, both): (UInt64, UInt64, UInt64, UInt64) = (
      0, 0x1000, 0x2000, 0x3000
    )

    private static let telling: Set = [
      "Name", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp", "Uid",
    ]

    /// Arguments for `setpriv`, which executes the program.
    private func asNobody(_ arguments: [String]) -> [String] {
      [
        "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "-all", program,
      ] + arguments
    }

    private func start(_ arguments: String...) throws -> Program {
      try scene.start("setpriv", asNobody(arguments))
    }

    /// Returns the threads of a process that break the rule, with the difference first. No thread has a
    /// capability, except one that has `rights` as permitted but none effective. All are filtered and have
    /// no_new_privs.
    private func faults(_ process: Int32, _ rights: UInt64) -> [String] {
      let threads = threads(of: process)
      var faults = threads.compactMap { thread -> String? in
        let isKeeper = thread["Name"] == "ringtap-rights"
        let permitted = UInt64(thread["CapPrm"] ?? "", radix: 16)
        let isRight =
          ["CapInh", "CapEff", "CapAmb"].allSatisfy { UInt64(thread[$0] ?? "", radix: 16) == 0 }
          && permitted == (isKeeper ? rights : 0) && thread["NoNewPrivs"] == "1" && thread["Seccomp"] == "2"
          && thread["Uid"] == "65534\t65534\t65534\t65534"
        return isRight ? nil : "\(thread.filter { Self.telling.contains($0.key) })"
      }
      let keepers = threads.count { $0["Name"] == "ringtap-rights" }
      if keepers != (rights == 0 ? 0 : 1) { faults.append("\(keepers) threads with rights") }
      // Signals have their own thread. A process that has just begun proves nothing.
      if threads.count < 2 { faults.append("\(threads.count) threads") }
      return faults
    }

    private func threads(of process: Int32) -> [[String: String]] {
      let folder = "/proc/\(process)/task"
      return ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).compactMap { task in
        guard let text = try? String(contentsOfFile: "\(folder)/\(task)/status", encoding: .utf8) else {
          return nil
        }
        return Dictionary(
          text.split(separator: "\n").map { line in
            let parts = line.split(separator: ":", maxSplits: 1)
            return (String(parts[0]), parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : "")
          }
        ) { one, _ in one }
      }
    }

    /// Waits until the process holds exactly these capabilities, because dropping the others takes time.
    private func expect(
      _ program: Program, holds rights: UInt64, _ what: String, at location: SourceLocation = #_sourceLocation
    ) async throws {
      var last: [String] = []
      do {
        try await eventually("\(what): \(rights)", at: location) {
          last = faults(program.identifier, rights)
          return last.isEmpty
        }
      } catch {
        Issue.record("\(what): \(last) \(program.errors)", sourceLocation: location)
        throw error
      }
    }

    /// Expects it without waiting.
    private func expectNow(
      _ program: Program, holds rights: UInt64, at location: SourceLocation = #_sourceLocation
    ) {
      let faults = faults(program.identifier, rights)
      #expect(faults.isEmpty, sourceLocation: location)
    }

    // MARK: Without a radio

    @Test func readersHoldNothing() async throws {
      let path = try scene.openFolder() + "/walk"
      let capture = try start(
        "capture", "--transport", "virtual:ring,rate=300", "--count", "900", "--output", path)
      try scene.waitForTables(of: path)
      expectNow(capture, holds: Self.none)
      #expect(try await capture.finish().status == 0, "\(capture.errors)")

      // Opening the pipe blocks, because there is never a writer.
      try scene.demand("bash", ["-c", "rm \"$0\"; mkfifo -m 666 \"$0\"", path + "/ppg.csv"])
      try await expect(start("convert", path, "--to", "npy"), holds: Self.none, "convert")
      try await expect(start("report", path), holds: Self.none, "report")
      try await expect(start("log", "show", "-"), holds: Self.none, "log show")
      try await expect(start("log", "stats", "-"), holds: Self.none, "log stats")
      try await expect(start("decode"), holds: Self.none, "decode")
    }

    @Test func helpHoldsNothing() async throws {
      let pipe = try FullPipe()
      let help = try Program("setpriv", asNobody(["help", "modes"]), output: .descriptor(pipe.writer))
      defer { help.end() }
      try await expect(help, holds: Self.none, "help")
    }

    // MARK: Scans

    @Test func aScanInRawModeHoldsWhatEachCommandAsksFor() async throws {
      let ring = try scene.emulatedRing()
      let scan = try start("scan", "--mode", "raw", "--duration", "60")
      try await scan.line(containing: ring.address)
      try await expect(scan, holds: Self.raw, "scan")
      scan.send(SIGINT)
      #expect(try await scan.finish().errors.contains("EPERM") == false)
    }

    /// Its final output is not read, so the process stays.
    @Test func aScanThatIsOverHoldsNothing() async throws {
      _ = try scene.emulatedRing()
      let pipe = try FullPipe()
      let scan = try Program(
        "setpriv", asNobody(["scan", "--mode", "raw", "--duration", "3", "--verbose"]),
        errors: .descriptor(pipe.writer))
      defer { scan.end() }
      try await expect(scan, holds: Self.raw, "scan")
      try await expect(scan, holds: Self.none, "after the scan")
    }

    @Test func aScanInCoexistModeHoldsNothing() async throws {
      let ring = try scene.emulatedRing()
      let scan = try start("scan", "--mode", "coexist", "--duration", "60")
      try await scan.line(containing: ring.address)
      expectNow(scan, holds: Self.none)
    }

    // MARK: Captures

    @Test(arguments: ["raw", "coexist"]) func aSearchHoldsWhatTheLinkWillAskFor(_ mode: String) async throws {
      _ = try scene.emulatedRing()
      let capture = try start(
        "capture", "--mode", mode, "--name", "nobody", "--timeout", "60", "--output",
        try scene.openFolder() + "/walk")
      try await expect(capture, holds: Self.both, "searching")
    }

    @Test(arguments: [[], ["--interval", "30-50"]])
    func aStreamInRawModeHoldsWhatItsWishesAskFor(_ wishes: [String]) async throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let path = try scene.openFolder() + "/walk"
      let capture = try scene.start(
        "setpriv", asNobody(["capture", ring.address, "--mode", "raw", "--output", path] + wishes))
      try scene.waitForTables(of: path)
      try await expect(capture, holds: wishes.isEmpty ? Self.none : Self.raw, "streaming")
      capture.send(SIGINT)
      _ = try await capture.finish()
      _ = try scene.wholeCapture(path)
      // The link got its timing before the capability for it was dropped.
      #expect(try LinkRecord.read(path).inForce.intervalMs == 50)
    }

    /// A link that is re-established without capabilities starts with the kernel's timing: the program could
    /// not end a fast start.
    @Test func comesBackAsTheKernelHasIt() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--quiet", "--disconnect-after", "300")
      let path = try scene.openFolder() + "/walk"
      let result = try start("capture", ring.address, "--mode", "raw", "--count", "900", "--output", path)
        .finish()
      #expect(result.status == 0, "\(result.errors)")
      let link = try LinkRecord.read(path)
      #expect(link.changes.compactMap(\.intervalMs) == [15, 50, 50, 50])
    }

    /// Parameters requested for a link are requested for the next one too, and the kernel refuses none of
    /// them.
    @Test func comesBackAndAsksAgain() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--disconnect-after", "300")
      let path = try scene.openFolder() + "/walk"
      let capture = try start(
        "capture", ring.address, "--mode", "raw", "--interval", "30-50", "--count", "900", "--output", path)
      let result = try capture.finish()
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("reconnecting") && !result.errors.contains("was not changed"))
      #expect(try LinkRecord.read(path).refused.isEmpty)
    }

    /// The first link ends with its first frame, before its fast start is over: the next one must not start
    /// that way.
    @Test func forgetsAFastStartThatWasCutShort() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--quiet", "--disconnect-after", "1")
      let path = try scene.openFolder() + "/walk"
      let result = try start("capture", ring.address, "--mode", "raw", "--count", "3", "--output", path)
        .finish()
      #expect(result.status == 0, "\(result.errors)")
      #expect(try LinkRecord.read(path).inForce.intervalMs == 50)
    }

    @Test(arguments: ["coexist", "exclusive"]) func aStreamHoldsNothing(_ mode: String) async throws {
      let ring = try scene.emulatedRing(over: mode == "coexist" ? .kernel : .userChannel, "--rate", "300")
      let path = try scene.openFolder() + "/walk"
      let capture = try start("capture", ring.address, "--mode", mode, "--output", path)
      try scene.waitForTables(of: path)
      expectNow(capture, holds: Self.none)
    }

    @Test func aMonitorHoldsNothing() async throws {
      _ = try scene.emulatedRing()
      let log = try start("log", "record", "-o", try scene.openFolder() + "/air.btsnoop")
      try await log.line(on: .errors, containing: "recording")
      expectNow(log, holds: Self.none)
    }

    /// It reopens an adapter whenever one comes back.
    @Test func aDaemonHoldsBoth() async throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let folder = try scene.openFolder()
      try """
      {"directory": "\(folder)/captures", "statusSocket": "\(folder)/status",
       "devices": [{"name": "left", "address": "\(ring.address)", "sensor": "ring"}]}
      """.write(toFile: folder + "/ringtap.json", atomically: true, encoding: .utf8)
      let daemon = try start("daemon", folder + "/ringtap.json")
      try scene.demand(
        "bash", ["-c", "until [ -s \"$0\"/captures/left/*/ppg.csv ]; do sleep 0.05; done", folder])
      expectNow(daemon, holds: Self.both)
    }

    @Test func aHandedSocketBringsNone() async throws {
      let ring = try scene.emulatedRing(over: .userChannel, "--rate", "300")
      let path = try scene.openFolder() + "/walk"
      // `open` becomes the capture: the process id stays.
      let capture = try scene.start(
        Place.ringtap,
        [
          "open", "--user-channel", "hci0", "--user", "nobody", "--", program, "capture", ring.address,
          "--output",
          path,
        ])
      try scene.waitForTables(of: path)
      expectNow(capture, holds: Self.none)
    }
  }
}

/// A full pipe: writes to it block until it is read.
private final class FullPipe {
  let reader: Int32
  let writer: Int32

  init() throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    (reader, writer) = (ends[0], ends[1])
    let flags = fcntl(writer, F_GETFL)
    _ = fcntl(writer, F_SETFL, flags | O_NONBLOCK)
    let octets = [UInt8](repeating: 0x20, count: 4096)
    while write(writer, octets, octets.count) > 0 {}
    _ = fcntl(writer, F_SETFL, flags)
  }

  deinit {
    close(reader)
    close(writer)
  }
}
