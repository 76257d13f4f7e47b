import BLEHost
import BLELinux
import BLEWire
import Doctor
import Foundation
import TestKit
import Testing

/// Each check with made-up facts: a folder stands for `/`, and values for the results of system calls.
/// `KernelTests` checks the same on a real system.
@Suite struct DoctorFindingTests {
  private typealias State = DoctorFinding.State

  private static let hci0 = AdapterInfo(
    index: 0, address: DeviceAddress(bits: 0x0000_5E00_5301, type: .public), isUp: true, bus: 1)
  /// Settings of an adapter that is powered with LE, and of one that is powered with BR/EDR only.
  /// `mgmt-api.txt`, 0x0004.
  private static let (lowEnergy, classic): (UInt32, UInt32) = (0x201, 0x081)
  /// CAP_NET_RAW is bit 13, CAP_NET_ADMIN bit 12 (`linux/capability.h`).
  private static let (both, raw, admin) = ("0000000000003000", "0000000000002000", "0000000000001000")

  private static func settings(_ bits: UInt32) throws -> DoctorFacts.HostView {
    let reply =
      [UInt8](repeating: 0, count: 13) + [0, 8, 16, 24].map { UInt8(truncatingIfNeeded: bits >> $0) }
    return .settings(try ControllerSettings(informationReply: reply.span))
  }

  /// A machine without any problem.
  private func healthy(_ root: String) throws -> DoctorFacts {
    try write(
      "proc/self/status", "Name:\tringtap\nCapEff:\t\(Self.both)\nNoNewPrivs:\t0\nSeccomp:\t0\n", in: root)
    try write("proc/sys/kernel/osrelease", "6.12.1\n", in: root)
    try write("proc/version", "Linux version 6.12.1 (gcc) #1 SMP\n", in: root)
    try write("sys/module/bluetooth/version", "2.22\n", in: root)
    try write("dev/vhci", "", in: root)
    var facts = DoctorFacts()
    facts.root = root
    facts.program = "/usr/bin/ringtap"
    facts.adapters = [Self.hci0]
    facts.views = [0: try Self.settings(Self.lowEnergy)]
    facts.scans = [0: .idle]
    facts.freeByteCount = .success(1 << 40)
    facts.time = ReceiveTime(nanoseconds: 1_795_000_000_000_000_000)
    return facts
  }

  private func write(_ path: String, _ text: String, in root: String) throws {
    let file = URL(filePath: root).appending(path: path)
    try FileManager.default.createDirectory(
      at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: file)
  }

  /// A process that holds sockets with these inodes.
  private func process(_ id: Int, _ name: String, sockets: [Int] = [], in root: String) throws {
    try write("proc/\(id)/comm", name + "\n", in: root)
    let folder = root + "/proc/\(id)/fd"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    for (number, inode) in sockets.enumerated() {
      try FileManager.default.createSymbolicLink(
        atPath: "\(folder)/\(number + 3)", withDestinationPath: "socket:[\(inode)]")
    }
  }

  /// A table in the format of `bt_seq_show` in `net/bluetooth/af_bluetooth.c`.
  private func table(_ name: String, _ inodes: [Int], in root: String) throws {
    let rows = inodes.map { "0000000000000000 2      0      0      0      \($0)    0     " }
    try write(
      "proc/net/\(name)",
      (["sk               RefCnt Rmem   Wmem   User   Inode  Parent"] + rows).joined(separator: "\n") + "\n",
      in: root)
  }

  /// The only finding that is not good.
  private func trouble(
    _ facts: DoctorFacts, adapter: String? = nil, at location: SourceLocation = #_sourceLocation
  ) throws -> DoctorFinding {
    let bad = Doctor(facts, adapter: adapter).findings().filter { $0.state != .good }
    try #require(bad.count == 1, "\(bad)", sourceLocation: location)
    return bad[0]
  }

  private func expect(
    _ finding: DoctorFinding, _ check: DoctorFinding.Check, _ state: DoctorFinding.State, _ words: String...,
    doing nextStep: String, at location: SourceLocation = #_sourceLocation
  ) {
    #expect(finding.check == check, sourceLocation: location)
    #expect(finding.state == state, sourceLocation: location)
    for word in words {
      let text = finding.finding + " / " + (finding.cause ?? "")
      #expect(text.contains(word), "\(text)", sourceLocation: location)
    }
    #expect(
      finding.nextStep?.contains(nextStep) == true, "\(finding.nextStep ?? "")", sourceLocation: location)
  }

  @Test func findsNothingOnAHealthyMachine() async throws {
    try withFolder { root in
      let findings = Doctor(try healthy(root)).findings()
      #expect(findings.allSatisfy { $0.state == .good }, "\(findings.filter { $0.state != .good })")
      #expect(Set(findings.map(\.check)) == Set(DoctorFinding.Check.allCases))
    }
  }

  // MARK: The kernel and this process

  @Test func tellsAMissingModuleFromANamespace() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      facts.socketError = SystemError(call: "socket", number: EAFNOSUPPORT)
      expect(
        try trouble(facts), .networkNamespace, .obstacle, "first network namespace",
        doing: "nsenter --target 1 --net /usr/bin/ringtap")
      try write("proc/self/status", "CapEff:\t\(Self.both)\nSeccomp:\t2\n", in: root)
      expect(try trouble(facts), .networkNamespace, .obstacle, "seccomp", doing: "--network=host")
      try FileManager.default.removeItem(atPath: root + "/sys/module/bluetooth")
      let finding = Doctor(facts).findings().first { $0.state == .obstacle }
      expect(try #require(finding), .bluetooth, .obstacle, "not loaded", doing: "sudo modprobe bluetooth")
    }
  }

  @Test func tellsWhichCapabilitiesAreMissing() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      let setcap = "sudo setcap cap_net_raw,cap_net_admin+eip /usr/bin/ringtap"
      try write("proc/self/status", "CapEff:\t\(Self.raw)\n", in: root)
      expect(try trouble(facts), .capabilities, .note, "no CAP_NET_ADMIN", doing: setcap)
      try write("proc/self/status", "CapEff:\t\(Self.admin)\n", in: root)
      expect(try trouble(facts), .capabilities, .note, "no CAP_NET_RAW", doing: setcap)
      try write("proc/self/status", "CapEff:\t0000000000000000\n", in: root)
      expect(try trouble(facts), .capabilities, .obstacle, "neither CAP_NET_RAW nor", doing: setcap)
      try write("proc/self/status", "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n", in: root)
      expect(try trouble(facts), .capabilities, .obstacle, "no_new_privs", doing: "ringtap open --user")
      facts.handed = [.management]
      #expect(Doctor(facts).findings().allSatisfy { $0.state == .good })
    }
  }

  /// The program has dropped the capability itself: what counts is how it was started.
  @Test func judgesByHowItWasStarted() throws {
    try withFolder { root in
      var facts = try healthy(root)
      try write("proc/self/status", "CapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n", in: root)
      facts.start = ProcessRights.Start(capabilities: [], hasNoNewPrivileges: false, isFiltered: false)
      expect(try trouble(facts), .capabilities, .obstacle, "no capabilities", doing: "sudo setcap")
      facts.start?.hasNoNewPrivileges = true
      expect(try trouble(facts), .capabilities, .obstacle, "no_new_privs", doing: "ringtap open --user")
    }
  }

  @Test func tellsWhatIsHeldAndFiltered() throws {
    try withFolder { root in
      var facts = try healthy(root)
      func said() -> String? { Doctor(facts).findings().first { $0.check == .confinement }?.finding }
      #expect(said() == "no capabilities held; system calls are filtered")
      facts.held = [.netRaw, .netAdmin]
      #expect(said()?.hasPrefix("CAP_NET_ADMIN and CAP_NET_RAW: held by one thread") == true)
      facts.isRoot = true
      #expect(said()?.hasPrefix("running as root") == true)
      facts.filter = .notAsked
      expect(try trouble(facts), .confinement, .note, "RINGTAP_SECCOMP=off", doing: "unset RINGTAP_SECCOMP")
      facts.filter = .refused(SystemError(call: "seccomp", number: EINVAL))
      expect(
        try trouble(facts), .confinement, .note, "Invalid argument", "CONFIG_SECCOMP_FILTER",
        doing: "nothing")
    }
  }

  /// The version ranges of the reference, their ends, and Debian's version format.
  @Test(arguments: [
    ("6.1.69", true), ("6.1.70", false), ("6.1.82-cloud", false), ("6.1.83", true), ("6.6.8", true),
    ("6.6.9", false), ("6.6.22", false), ("6.6.23", true), ("6.7.0", false), ("6.7.12", false),
    ("6.8.1", false),
    ("6.8.2", true), ("6.1.0-18-amd64 Debian 6.1.76-1", false), ("6.1.0-31-amd64 Debian 6.1.128-1", true),
  ])
  func knowsBadKernels(_ version: String, _ isGood: Bool) async throws {
    try withFolder { root in
      let facts = try healthy(root)
      let words = version.split(separator: " ")
      try write("proc/sys/kernel/osrelease", words[0] + "\n", in: root)
      try write(
        "proc/version",
        "Linux version \(words[0]) (x@y) #1 SMP \(words.dropFirst().joined(separator: " "))\n", in: root)
      guard !isGood else {
        #expect(Doctor(facts).findings().allSatisfy { $0.state == .good })
        return
      }
      expect(try trouble(facts), .kernelVersion, .note, "recv", doing: "f7b94bdc1ec1")
    }
  }

  @Test func tellsWhyThereIsNoEmulation() async throws {
    try withFolder { root in
      let facts = try healthy(root)
      try FileManager.default.removeItem(atPath: root + "/dev/vhci")
      expect(try trouble(facts), .emulation, .note, "hci_vhci", doing: "sudo modprobe hci_vhci")
    }
  }

  // MARK: Requirements of a recording

  @Test func looksAtTheFolderTheClockAndTheStamps() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      facts.folder = "/data"
      facts.freeByteCount = .success(255 << 20)
      expect(try trouble(facts), .folder, .obstacle, "255 MiB", doing: "df -h /data")
      facts.freeByteCount = .failure(SystemError(call: "access /data", number: EROFS))
      expect(try trouble(facts), .folder, .obstacle, "read-only", doing: "--output")
      facts.freeByteCount = .success(256 << 20)
      facts.time = ReceiveTime(nanoseconds: 42_000_000_000)
      expect(try trouble(facts), .clock, .obstacle, "42 s since 1970", doing: "timedatectl set-ntp true")
    }
  }

  /// A fact that the kernel does not report is not a problem.
  @Test func tellsWhatTheKernelDoesNotTell() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      func lack(_ untold: [ReceiveFact: String]) {
        facts.untold = untold.mapValues { SystemError(call: $0, number: ENOPROTOOPT) }
      }
      lack([.advertisingTime: "setsockopt(HCI_TIME_STAMP)"])
      expect(
        try trouble(facts), .timeStamps, .note, "stamp advertisements", "HCI_TIME_STAMP", doing: "nothing")
      lack([.advertisingTime: "setsockopt(HCI_TIME_STAMP)", .time: "setsockopt(SO_TIMESTAMPNS)"])
      expect(
        try trouble(facts), .timeStamps, .note, "does not timestamp received packets",
        "setsockopt(SO_TIMESTAMPNS): Protocol not available", "withoutKernelStamp", doing: "nothing")
      lack([.drops: "getsockopt(SO_MEMINFO)"])
      expect(try trouble(facts), .drops, .note, "only with the next packet", "SO_MEMINFO", doing: "update")
      lack([.drops: "getsockopt(SO_MEMINFO)", .laterDrops: "setsockopt(SO_RXQ_OVFL)"])
      expect(
        try trouble(facts), .drops, .note, "does not report packets dropped", "SO_MEMINFO", "SO_RXQ_OVFL",
        doing: "nothing")
      // SO_MEMINFO reports the same drops, and earlier.
      lack([.laterDrops: "setsockopt(SO_RXQ_OVFL)"])
      #expect(Doctor(facts).findings().allSatisfy { $0.state == .good })
    }
  }

  // MARK: Adapters

  @Test func tellsASwitchFromSoftware() async throws {
    try withFolder { root in
      let facts = try healthy(root)
      func block(soft: Int, hard: Int) throws {
        for (name, value) in [
          ("type", "bluetooth"), ("name", "hci0"), ("soft", "\(soft)"), ("hard", "\(hard)"),
        ] {
          try write("sys/class/rfkill/rfkill3/\(name)", value + "\n", in: root)
        }
      }
      try write("sys/class/rfkill/rfkill0/type", "wlan\n", in: root)
      try write("sys/class/rfkill/rfkill0/soft", "1\n", in: root)
      try block(soft: 0, hard: 0)
      #expect(Doctor(facts).findings().allSatisfy { $0.state == .good })
      try block(soft: 1, hard: 0)
      #expect(try trouble(facts).nextStep == "sudo rfkill unblock bluetooth")
      try block(soft: 1, hard: 1)
      expect(try trouble(facts), .rfkill, .note, "hci0 is blocked by a switch", doing: "radio switch")
      #expect(
        Doctor(facts, adapter: "hci1").findings().allSatisfy { $0.check != .rfkill || $0.state == .good })
    }
  }

  @Test func looksForTheAdapter() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      expect(
        try trouble(facts, adapter: "hci7"), .adapters, .obstacle, "no hci7", "hci0",
        doing: "ringtap doctor --adapter hci0")
      facts.adapters = []
      expect(try trouble(facts), .adapters, .obstacle, "no Bluetooth adapter", doing: "dmesg")
    }
  }

  /// An adapter that is down is a problem only if it is the one to be used.
  @Test func tellsTheStateOfAdapters() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      let down = AdapterInfo(index: 1, address: Self.hci0.address, isUp: false, bus: 1)
      facts.adapters.append(down)
      facts.views[1] = try Self.settings(0x200)
      expect(try trouble(facts), .adapterState, .note, "hci1 is down", doing: "btmgmt --index 1 power on")
      expect(try trouble(facts, adapter: "hci1"), .adapterState, .obstacle, "hci1 is down", doing: "power on")
      // Both have this address.
      expect(
        try trouble(facts, adapter: "00:00:5E:00:53:01"), .adapterState, .note, "hci1 is down",
        doing: "power on")
      expect(
        try trouble(facts, adapter: "00:1A:7D:DA:71:13"), .adapters, .obstacle, "no 00:1A:7D:DA:71:13",
        "hci0 00:00:5E:00:53:01", doing: "--adapter hci0")
      facts.handed = [.userChannel(1)]
      #expect(Doctor(facts, adapter: "hci1").findings().allSatisfy { $0.state == .good })
      facts.views[0] = try Self.settings(Self.classic)
      expect(
        try trouble(facts, adapter: "hci0"), .adapterState, .obstacle, "LE is switched off on hci0",
        doing: "btmgmt --index 0 le on")
    }
  }

  // MARK: Other programs

  @Test func namesWhoHasTheUserChannel() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      facts.views[0] = .refused(.invalidIndex)
      facts.scans = [:]
      try table("hci", [4711, 4712], in: root)
      try process(88, "python3", sockets: [9, 4711], in: root)
      try process(89, "cat", sockets: [10], in: root)
      let findings = Doctor(facts).findings().filter { $0.state == .obstacle }
      #expect(findings.map(\.check) == [.adapterState, .holders])
      expect(
        try #require(findings.last), .holders, .obstacle, "hci0 is held by python3 (process 88)",
        doing: "kill 88")
    }
  }

  @Test func namesTheDaemonAndOthers() async throws {
    try withFolder { root in
      let facts = try healthy(root)
      try table("hci", [1, 2], in: root)
      try process(12, "btmon", sockets: [2], in: root)
      expect(try trouble(facts), .holders, .note, "btmon (process 12)", doing: "kill 12")
      try table("hci", [1], in: root)
      try process(812, "bluetoothd", sockets: [1], in: root)
      expect(
        try trouble(facts), .holders, .note, "bluetoothd (process 812) is running",
        doing: "systemctl stop bluetooth")
    }
  }

  @Test func namesWhoScans() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      facts.scans = [0: .busy]
      try table("hci", [5], in: root)
      try process(7, "hcitool", sockets: [5], in: root)
      let findings = Doctor(facts).findings().filter { $0.check == .scan }
      expect(
        findings[0], .scan, .obstacle, "hci0 is scanning or connecting for hcitool (process 7)",
        doing: "kill 7")
      facts.scans = [0: .unknown("it needs CAP_NET_RAW")]
      let unknown = Doctor(facts).findings().filter { $0.check == .scan }
      expect(unknown[0], .scan, .note, "it needs CAP_NET_RAW", doing: "sudo /usr/bin/ringtap doctor")
    }
  }

  /// Advertising is reported because it is unknown who enabled it and whether they still run.
  @Test func tellsOfAdvertising() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      facts.advertising = [0: .byCommands]
      expect(
        try trouble(facts), .advertising, .note, "hci0 is advertising, started by HCI commands",
        "a program was killed",
        doing: "sudo btmgmt --index 0 power off; sudo btmgmt --index 0 power on")
      facts.advertising = [0: .byKernel]
      expect(
        try trouble(facts), .advertising, .note, "the kernel is advertising on hci0",
        "ended and left it on",
        doing: "sudo btmgmt --index 0 clr-adv; sudo btmgmt --index 0 advertising off")
      facts.advertising = [0: .unknown("it needs CAP_NET_RAW")]
      expect(
        try trouble(facts), .advertising, .note, "it needs CAP_NET_RAW",
        doing: "sudo /usr/bin/ringtap doctor")
    }
  }

  @Test func namesWhoHasALink() async throws {
    try withFolder { root in
      var facts = try healthy(root)
      let peer = try #require(DeviceAddress("70:CB:0D:00:A1:B2"))
      facts.links = [
        0: [
          AdapterLink(peer: peer, handle: ConnectionHandle(64), isLowEnergy: true),
          AdapterLink(peer: Self.hci0.address, handle: ConnectionHandle(1), isLowEnergy: false),
        ]
      ]
      try table("l2cap", [77], in: root)
      try process(31, "gatttool", sockets: [77], in: root)
      expect(
        try trouble(facts), .links, .note, "hci0 is connected to 70:CB:0D:00:A1:B2", "gatttool (process 31)",
        doing: "bluetoothctl disconnect 70:CB:0D:00:A1:B2")
    }
  }

  /// Runs the program on this machine: every finding is printed, and the exit status agrees with the lines.
  @Test func printsWhatItFinds() async throws {
    let json = try await Ringtap.run(["doctor", "--json"])
    struct Line: Decodable {
      var check: String
      var state: String
      var finding: String
      var cause: String?
      var nextStep: String?
    }
    let lines = try json.outputLines.map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
    #expect(lines.count > 5)
    #expect(lines.allSatisfy { $0.state == "good" || $0.cause != nil && $0.nextStep != nil })
    #expect(json.status == (lines.contains { $0.state == "obstacle" } ? 1 : 0))
    #expect(json.errorLines == [])
    let help = try await Ringtap.run(["doctor", "--help"])
    #expect(help.outputLines.contains { $0.contains("ringtap doctor --adapter hci1") })
    #expect(try await Ringtap.run(["doctor", "--adapter", "x"]).status == 2)
  }
}
