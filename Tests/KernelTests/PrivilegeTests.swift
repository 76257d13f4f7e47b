import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Complete captures by an unprivileged user.
  @Suite final class PrivilegeTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// Runs a ringtap command through `open` as the user `nobody`. The program must be in a folder that every
    /// user may search, so that `nobody` can execute it.
    private func handed(_ sockets: [String], _ command: [String]) throws -> Program {
      try scene.start(Place.ringtap, ["open"] + sockets + ["--user", "nobody", "--"] + command)
    }

    /// The same under a shell, because Foundation considers a program ended when it closes inherited
    /// descriptors, as `open` does.
    ///
    /// - Returns: the shell, and the process id of the program that `open` becomes.
    private func running(_ sockets: [String], _ command: [String]) throws -> (shell: Program, process: Int32)
    {
      let shell = try scene.start(
        "bash",
        ["-c", "\"$@\" & echo \"process $!\"; wait $!", "bash", Place.ringtap, "open"] + sockets
          + ["--user", "nobody", "--"] + command)
      let words = try shell.line(containing: "process ").split(separator: " ")
      return (shell, try #require(Int32(words[1])))
    }

    /// Lines of /proc/PID/status by name.
    private func status(_ process: Int32) throws -> [String: String] {
      let text = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
      var lines: [String: String] = [:]
      for line in text.split(separator: "\n") {
        let parts = line.split(separator: ":", maxSplits: 1)
        lines[String(parts[0])] = parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : ""
      }
      return lines
    }

    private func expectNoPrivilege(_ process: Int32, at location: SourceLocation = #_sourceLocation) throws {
      let lines = try status(process)
      #expect(lines["Seccomp"] == "2", sourceLocation: location)
      for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        #expect(lines[name] == "0000000000000000", "\(name)", sourceLocation: location)
      }
      // Capabilities that the file may have; with no_new_privs executing it does not give them to nobody.
      #expect(lines["CapBnd"] == "0000000000003000", sourceLocation: location)
      #expect(lines["Uid"] == "65534\t65534\t65534\t65534", sourceLocation: location)
      #expect(lines["Gid"] == "65534\t65534\t65534\t65534", sourceLocation: location)
      #expect(lines["Groups"] == "", sourceLocation: location)
      #expect(lines["NoNewPrivs"] == "1", sourceLocation: location)
    }

    private func program() throws -> String { try scene.programForAll() }

    /// Our own host on an inherited user channel, against our emulation and against bumble's ring on btvirt's
    /// controller.
    @Test(arguments: ["emulated", "bumble"])
    func recordsInExclusiveModeWithAHandedSocket(_ kind: String) throws {
      let ring =
        try kind == "bumble"
        ? scene.bumbleRing(over: .userChannel, "--rate", "300")
        : scene.emulatedRing(over: .userChannel, "--rate", "300")
      let program = try program()
      let path = scene.path("open/capture")
      let (capture, process) = try running(
        ["--user-channel", "hci0"],
        [program, "capture", ring.address, "--address-type", "public", "--count", "1800", "--output", path])
      try scene.waitForTables(of: path)
      try expectNoPrivilege(process)
      let recorded = try scene.wholeCapture(path, endedBy: capture)
      #expect(recorded.session.mode == "exclusive")
    }

    /// The kernel's host, with an inherited management socket for the scan; the connect needs no privilege.
    @Test func findsAndRecordsInCoexistModeWithAHandedSocket() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let program = try program()
      let path = scene.path("open/capture")
      let (capture, process) = try running(
        ["--management"], [program, "capture", "--count", "1800", "--output", path])
      try scene.waitForTables(of: path)
      try expectNoPrivilege(process)
      let recorded = try scene.wholeCapture(path, endedBy: capture)
      #expect(recorded.session.mode == "coexist")
      #expect(recorded.session.device.address == ring.address)
    }

    @Test func logsWithAHandedMonitor() throws {
      let ring = try scene.emulatedRing()
      let program = try program()
      let path = scene.path("open/air.btsnoop")
      let (log, process) = try running(["--monitor"], [program, "log", "record", "-o", path])
      try scene.demand("bash", ["-c", "until [ -s \"$0\" ]; do sleep 0.05; done", path])
      try expectNoPrivilege(process)
      try scene.ringtap("read", ring.address, "2a26").expectSuccess()
      kill(process, SIGINT)
      #expect(try log.finish().status == 0)
      #expect(try OldBtmon.read(path).output.contains("ATT: Read Request (0x0a)"))
    }

    /// The command gets its sockets from descriptor 3 on, and no other descriptors.
    @Test func handsOverWhatTheConventionSays() throws {
      _ = try scene.emulatedRing(over: .userChannel)
      let script = "echo \"$LISTEN_PID $$ $LISTEN_FDS $LISTEN_FDNAMES $HOME\"; ls /proc/$$/fd; true"
      let result = try handed(
        ["--user-channel", "hci0", "--management", "--monitor"], ["bash", "-c", script]
      ).finish()
      let words = result.outputLines[0].split(separator: " ").map(String.init)
      #expect(words[0] == words[1])
      #expect(Array(words[2...]) == ["3", "hci0-user:hci-management:hci-monitor", "/nonexistent"])
      #expect(
        result.outputLines.dropFirst().compactMap { Int($0) }.filter { $0 < 200 } == [0, 1, 2, 3, 4, 5])
    }

    @Test func refusesToStayRootAndSaysWhatFails() throws {
      _ = try scene.emulatedRing()
      for arguments in [["--management", "--", "true"], ["--management", "--user", "root", "--", "true"]] {
        #expect(try scene.run(Place.ringtap, ["open"] + arguments).status == 2)
      }
      let busy = try scene.ringtap("open", "--user-channel", "hci0", "--user", "nobody", "--", "true")
      busy.expectFailure(saying: "bind(HCI_CHANNEL_USER)", "power off")
      let missing = try scene.ringtap("open", "--management", "--user", "nobody", "--", "/no/such/program")
      missing.expectFailure(saying: "execute /no/such/program", "check the path")
      try scene.unprivileged(["open", "--monitor", "--", "true"])
        .expectFailure(saying: "bind(HCI_CHANNEL_MONITOR)", "setcap")
    }

    @Test func recordsWithFileCapabilities() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let recorded = try scene.captureWithFileCapabilities([])
      #expect(recorded.session.device.address == ring.address)
      #expect(recorded.session.mode == "raw")
    }

    /// As in the systemd unit: ambient capabilities, no_new_privs, and a bounding set of only these two.
    @Test(arguments: ["raw", "exclusive"]) func recordsWithAmbientCapabilities(_ mode: String) throws {
      let isRaw = mode == "raw"
      let ring = try scene.emulatedRing(over: isRaw ? .kernel : .userChannel, "--rate", "300")
      let program = try program()
      let path = scene.path("open/capture")
      let rights = "-all,+net_raw,+net_admin"
      let capture = try scene.start(
        "setpriv",
        [
          "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs", "--inh-caps", rights,
          "--ambient-caps", rights, "--bounding-set", rights, program, "capture", "--mode", mode, "--count",
          "1800", "--output", path,
        ])
      try scene.waitForTables(of: path)
      // One thread holds the capabilities until the socket is open; then no thread does.
      let lines = try status(capture.identifier)
      for name in ["CapPrm", "CapEff", "CapAmb"] { #expect(lines[name] == "0000000000000000", "\(name)") }
      #expect(lines["CapBnd"] == "0000000000003000")
      #expect(lines["NoNewPrivs"] == "1")
      let recorded = try scene.wholeCapture(path, endedBy: capture)
      #expect(recorded.session.device.address == ring.address)
    }
  }
}

/// `setcap cap_net_raw,cap_net_admin+eip`, as in the help.
private enum FileCapabilities {
  static let setcap = "/usr/sbin/setcap"
  static let wanted = "cap_net_raw,cap_net_admin+eip"

  /// A folder on which files can have capabilities: the test kernel's /tmp is an overlay of a file system
  /// that does not store them.
  static let folder =
    Way.isInTestKernel ? URL(filePath: "/var/tmp") : FileManager.default.temporaryDirectory

  /// Found by trying: only root may set capabilities, and not every file system stores them.
  static let areKept: Bool = {
    let path = folder.appending(path: "ringtap-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    guard FileManager.default.createFile(atPath: path, contents: Data()),
      FileManager.default.isExecutableFile(atPath: setcap)
    else { return false }
    return (try? Program(setcap, [wanted, path]).finish().status) == 0
  }()
}

extension Scene {
  /// Reads the result of a six-second capture, in which nothing may be wrong.
  fileprivate func wholeCapture(_ path: String, endedBy program: Program) throws -> CaptureFolder {
    let result = try program.finish()
    #expect(result.status == 0, "\(result.errors)")
    let capture = try wholeCapture(path)
    capture.expectNoTrouble(samples: 1800)
    return capture
  }

  /// Runs a capture as nobody, with a program whose file has the capabilities.
  fileprivate func captureWithFileCapabilities(_ options: [String]) throws -> CaptureFolder {
    let program = try programWithFileCapabilities()
    let path = try openFolder() + "/capture"
    let capture = try start(
      "setpriv",
      [
        "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "-all", program, "capture",
        "--count", "1800", "--output", path,
      ] + options)
    try waitForTables(of: path)
    let status = try String(contentsOfFile: "/proc/\(capture.identifier)/status", encoding: .utf8)
    #expect(status.contains("CapEff:\t0000000000000000\n"))
    #expect(status.contains("Uid:\t65534\t65534\t65534\t65534\n"))
    return try wholeCapture(path, endedBy: capture)
  }

  /// A copy of the program whose file has the capabilities. It is large, so all tests of a test kernel share
  /// one, which is removed with the kernel.
  func programWithFileCapabilities() throws -> String {
    let folder = Way.isInTestKernel ? FileCapabilities.folder.path : self.folder.path
    let path = folder + "/ringtap-with-capabilities"
    try demand("chmod", ["755", self.folder.path])
    if !FileManager.default.fileExists(atPath: path) {
      try demand("cp", [Place.ringtap, path])
      try demand("chmod", ["755", path])
      try demand(FileCapabilities.setcap, [FileCapabilities.wanted, path])
    }
    return path
  }

  /// A copy of the program that every user may execute.
  fileprivate func programForAll() throws -> String {
    let path = try openFolder() + "/ringtap"
    try demand("cp", [Place.ringtap, path])
    try demand("chmod", ["755", folder.path, path])
    return path
  }
}

extension WithoutKernel {
  @Suite final class FileCapabilityTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// The ring is in the capture's own process: the test shows that a program with file capabilities can
    /// record.
    @Test(
      .enabled("only root may set them, and not every file system keeps them") {
        await FileCapabilities.areKept
      })
    func recordsWithFileCapabilities() throws {
      let recorded = try scene.captureWithFileCapabilities(
        ["--transport", "virtual:ring,rate=300"])
      #expect(recorded.session.mode == "exclusive")
    }
  }

  /// The systemd units, judged by systemd itself.
  @Suite final class SystemdUnitTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private nonisolated static let units = ["ringtap-capture@.service", "ringtap.service"]
    private static let folder = URL(filePath: Place.root + "/Tools/systemd")

    /// A copy of a unit that names the program under test.
    private func copy(_ unit: String) throws -> String {
      let text = try String(contentsOf: Self.folder.appending(path: unit), encoding: .utf8)
      let path = scene.path(unit)
      let local = try text.replacingOccurrences(of: "/usr/local/bin/ringtap", with: Place.ringtap)
      #expect(local != text)
      try Data(local.utf8).write(to: URL(filePath: path))
      return path
    }

    @Test(arguments: units) func isWhatSystemdUnderstands(_ unit: String) throws {
      let result = try scene.run("systemd-analyze", ["verify", try copy(unit)])
      #expect(result.status == 0)
      // For lines that it does not know, it only prints warnings.
      #expect(result.errors == "" && result.output == "", "\(result.errors)\(result.output)")
    }

    /// systemd's exposure level, 0 … 100: an ordinary service has 96.
    @Test(arguments: units) func isLockedDown(_ unit: String) throws {
      let result = try scene.run(
        "systemd-analyze",
        ["security", "--offline=yes", "--threshold=20", "--no-pager", try copy(unit)])
      #expect(result.status == 0, "\(result.outputLines.last ?? "")")
    }

    /// Settings that would break Bluetooth sockets, or hide bluetoothd.
    @Test(arguments: zip(units, ["", " AF_INET AF_INET6"]))
    func leavesBluetoothItsSockets(_ unit: String, _ more: String) throws {
      let text = try String(contentsOf: Self.folder.appending(path: unit), encoding: .utf8)
      let lines = text.split(separator: "\n").map(String.init)
      let families = lines.filter { $0.hasPrefix("RestrictAddressFamilies=") }
      #expect(families == ["RestrictAddressFamilies=AF_BLUETOOTH AF_UNIX\(more)"])
      for name in ["PrivateNetwork", "PrivateUsers", "ProtectProc", "ProcSubset", "NetworkNamespacePath"] {
        #expect(!lines.contains { $0.hasPrefix(name + "=") }, "\(name)")
      }
    }

    /// Brokers in the local network can be reached, and no others. Judged by Python's `ipaddress`.
    @Test func reachesTheLocalNetwork() throws {
      let text = try String(contentsOf: Self.folder.appending(path: "ringtap.service"), encoding: .utf8)
      let lines = text.split(separator: "\n").map(String.init)
      #expect(lines.contains("IPAddressDeny=any"))
      let allowed = try #require(lines.first { $0.hasPrefix("IPAddressAllow=") }?.dropFirst(15))
      let judge = """
        import ipaddress, sys
        names = {"localhost": ["127.0.0.0/8", "::1/128"], "link-local": ["169.254.0.0/16", "fe80::/64"]}
        networks = [ipaddress.ip_network(n) for w in sys.argv[1].split() for n in names.get(w, [w])]
        for text in sys.argv[2:]:
            address = ipaddress.ip_address(text)
            print(int(any(address.version == n.version and address in n for n in networks)))
        """
      let addresses = [
        "127.0.0.1", "::1", "10.1.2.3", "172.16.0.1", "172.31.9.9", "192.168.1.20", "169.254.3.4", "fe80::1",
        "fd12::7",
        "8.8.8.8", "172.32.0.1", "203.0.113.7", "2001:db8::1", "1.1.1.1",
      ]
      let result = try scene.demand("python3", ["-c", judge, String(allowed)] + addresses)
      #expect(result.outputLines.map { $0 == "1" } == addresses.indices.map { $0 < 9 })
    }

    /// The password file belongs to root: the service reads systemd's copy.
    @Test func readsThePasswordAsACredential() throws {
      let text = try String(contentsOf: Self.folder.appending(path: "ringtap.service"), encoding: .utf8)
      #expect(text.contains("\nLoadCredential=ringtap.password:ringtap.password\n"))
      let file = scene.path("ringtap.json")
      try #"""
      {"directory": "/tmp/captures", "publish": {"to": "mqtt://ward@broker.local", "password-file": "/etc/credstore/ringtap.password"},
       "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}]}
      """#.write(toFile: file, atomically: true, encoding: .utf8)
      let without = try scene.run(
        "env", ["-u", "CREDENTIALS_DIRECTORY", Place.ringtap, "daemon", "--check", file])
      #expect(without.status == 1 && without.errors.contains("\(file):1: publish: "))
      let credentials = scene.path("credentials")
      try FileManager.default.createDirectory(atPath: credentials, withIntermediateDirectories: true)
      try "secret\n".write(toFile: credentials + "/ringtap.password", atomically: true, encoding: .utf8)
      let with = try scene.run(
        "env", ["CREDENTIALS_DIRECTORY=\(credentials)", Place.ringtap, "daemon", "--check", file])
      #expect(with.status == 0, "\(with.errors)")
    }
  }
}
