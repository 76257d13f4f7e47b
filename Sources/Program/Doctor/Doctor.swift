import BLEHost
import BLELinux
import BLEWire

/// Diagnoses why this process cannot reach a radio.
///
/// Each check reports its finding and, unless it is good, the cause and what to do.
public struct Doctor: Sendable {
  typealias Finding = DoctorFinding

  let facts: DoctorFacts
  /// The only adapter to check; `nil` for the first that is up.
  let adapter: String?
  private let holders: [UInt64: [Int]]
  let daemon: Int?

  public init(_ facts: DoctorFacts, adapter: String? = nil) {
    self.facts = facts
    self.adapter = adapter
    holders = ProcessFacts.socketHolders(root: facts.root)
    daemon = ProcessFacts.processID(named: "bluetoothd", root: facts.root)
  }

  /// The findings, ordered so that an obstacle precedes those that it may cause.
  public func findings() -> [DoctorFinding] {
    var findings = [bluetooth(), networkNamespace(), capabilities(), confinement()] + rfkill()
    if facts.socketError == nil {
      findings += adapters() + adapterStates() + adapterHolders() + scans() + advertising() + links()
    }
    return findings + [kernelVersion(), emulation(), folder(), clock(), timeStamps(), drops()]
  }

  // MARK: Kernel

  private var hasModule: Bool { Files.exists("\(facts.root)/sys/module/bluetooth") }

  private func bluetooth() -> Finding {
    guard let error = facts.socketError else {
      return Finding(.bluetooth, .good, "the kernel has Bluetooth sockets")
    }
    if hasModule { return Finding(.bluetooth, .good, "the kernel has Bluetooth") }
    guard error.condition == .unsupported else {
      return Finding(
        .bluetooth, .obstacle, "\(error)", cause: error.guide?.cause ?? "the kernel does not say",
        nextStep: error.guide?.remedy ?? "sudo dmesg")
    }
    return Finding(
      .bluetooth, .obstacle, "the kernel has no Bluetooth sockets (\(error))",
      cause: "the bluetooth module is not loaded, or the kernel is built without",
      nextStep: "sudo modprobe bluetooth")
  }

  /// Bluetooth sockets exist in the initial network namespace only: `bt_sock_create` in
  /// `net/bluetooth/af_bluetooth.c`.
  private func networkNamespace() -> Finding {
    guard let error = facts.socketError else {
      return Finding(.networkNamespace, .good, "this is the first network namespace")
    }
    guard hasModule, error.condition == .unsupported else {
      return Finding(
        .networkNamespace, .note, "whether this is the first network namespace cannot be told",
        cause: "without Bluetooth in the kernel no socket tells", nextStep: "see to the kernel first")
    }
    let isFiltered = facts.start?.isFiltered ?? (ProcessFacts.status("Seccomp", root: facts.root) == "2")
    return Finding(
      .networkNamespace, .obstacle, "no Bluetooth sockets here, though the kernel has Bluetooth (\(error))",
      cause: "they exist in the first network namespace only: this process is in a container or a sandbox"
        + (isFiltered ? ", or its filter of system calls (seccomp) forbids AF_BLUETOOTH" : ""),
      nextStep: "sudo nsenter --target 1 --net \(facts.program) doctor"
        + " (a container: start it with --network=host)")
  }

  private func capabilities() -> Finding {
    let raw = ProcessFacts.has(.netRaw, root: facts.root)
    let admin = ProcessFacts.has(.netAdmin, root: facts.root)
    if raw, admin { return Finding(.capabilities, .good, "CAP_NET_RAW and CAP_NET_ADMIN are there") }
    if !facts.handed.isEmpty {
      let names = facts.handed.map(\.name).sorted().joined(separator: ", ")
      return Finding(.capabilities, .good, "open sockets were handed over: \(names)")
    }
    let cannotGain =
      facts.start?.hasNoNewPrivileges ?? (ProcessFacts.status("NoNewPrivs", root: facts.root) == "1")
    let nextStep =
      cannotGain
      ? "sudo \(facts.program) open --user \"$USER\" --management -- \(facts.program) scan"
      : "sudo setcap cap_net_raw,cap_net_admin+eip \(facts.program)"
    let effect: String
    switch (raw, admin) {
    case (true, _):
      effect = "no CAP_NET_ADMIN: coexist mode cannot scan, and exclusive mode cannot open an adapter"
    case (_, true): effect = "no CAP_NET_RAW: raw mode cannot scan; coexist mode can"
    default: effect = "neither CAP_NET_RAW nor CAP_NET_ADMIN: no scan; a connect by address needs neither"
    }
    return Finding(
      .capabilities, raw || admin ? .note : .obstacle, effect,
      cause: "this process is not root, and its program's file has no capabilities"
        + (cannotGain ? "; with no_new_privs it would not get them either" : ""),
      nextStep: nextStep)
  }

  /// The program's capabilities, and its filter of system calls.
  private func confinement() -> Finding {
    let names = facts.held.map(\.name).sorted().joined(separator: " and ")
    let rights =
      switch (facts.isRoot, facts.held.isEmpty) {
      case (true, _): "root keeps its capabilities where a radio is reached"
      case (_, true): "no capability is held"
      case (_, false): "\(names): held by one thread, until the sockets are open"
      }
    switch facts.filter {
    case .on: return Finding(.confinement, .good, "\(rights); system calls are filtered")
    case .notAsked:
      return Finding(
        .confinement, .note, "\(rights); system calls are not filtered", cause: "RINGTAP_SECCOMP=off is set",
        nextStep: "unset RINGTAP_SECCOMP")
    case .refused(let error):
      return Finding(
        .confinement, .note, "\(rights); system calls are not filtered (\(error))",
        cause:
          "the kernel has no filters of system calls (CONFIG_SECCOMP_FILTER), a sandbox forbids them, or this "
          + "processor's calls are not known here",
        nextStep: "nothing: all works without; `grep Seccomp /proc/self/status` tells what the kernel has")
    }
  }

  /// Versions in which a blocked receive holds the socket's lock: reference "linux-bluetooth-kernel", 8;
  /// fixed by f7b94bdc1ec1.
  private static let lockedReceive: [ClosedRange<KernelVersion>] = [
    KernelVersion(6, 1, 70)...KernelVersion(6, 1, 82), KernelVersion(6, 6, 9)...KernelVersion(6, 6, 22),
    KernelVersion(6, 7, 0)...KernelVersion(6, 7, .max), KernelVersion(6, 8, 0)...KernelVersion(6, 8, 1),
  ]

  private func kernelVersion() -> Finding {
    guard let version = KernelVersion(root: facts.root) else {
      return Finding(
        .kernelVersion, .note, "the kernel's version cannot be read",
        cause: "/proc is not there or is hidden",
        nextStep: "mount -t proc proc /proc")
    }
    guard Self.lockedReceive.contains(where: { $0.contains(version) }) else {
      return Finding(.kernelVersion, .good, "Linux \(version) is not known for mistakes that matter here")
    }
    return Finding(
      .kernelVersion, .note,
      "Linux \(version) stops who sends on a Bluetooth socket while another thread waits in recv",
      cause: "the receive holds the socket's lock; ringtap waits in epoll, and is not hurt, but others are",
      nextStep: "sudo apt-get upgrade (the fix is f7b94bdc1ec1: 6.8.2, 6.6.23, 6.1.83 and later have it)")
  }

  private func emulation() -> Finding {
    let path = "\(facts.root)/dev/vhci"
    do throws(SystemError) {
      try Files.checkWritable(path)
      return Finding(.emulation, .good, "virtual adapters can be made (/dev/vhci)")
    } catch {
      let isThere = Files.exists(path)
      return Finding(
        .emulation, .note, "no virtual adapters can be made; `ringtap emulate` works over streams only",
        cause: isThere ? "only root may open /dev/vhci" : "the hci_vhci module is not loaded",
        nextStep: isThere ? "sudo setfacl -m u:$USER:rw /dev/vhci" : "sudo modprobe hci_vhci")
    }
  }

  // MARK: Recording

  /// About twenty minutes of a ring's fastest possible stream, and days of its usual one.
  static let leastByteCount = 256 << 20

  private func folder() -> Finding {
    switch facts.freeByteCount {
    case .failure(let error):
      return Finding(
        .folder, .obstacle, "nothing can be recorded in \(facts.folder) (\(error))",
        cause: error.guide?.cause ?? "the kernel does not say",
        nextStep: "cd to a folder of your own, or give one with --output (here: --folder)")
    case .success(let count) where count < Self.leastByteCount:
      return Finding(
        .folder, .obstacle, "\(count >> 20) MiB are free in \(facts.folder)",
        cause: "a long capture takes more; it would end when the disk is full",
        nextStep: "df -h \(facts.folder), and free some room, or record elsewhere (--output)")
    case .success(let count):
      return Finding(.folder, .good, "\(count >> 20) MiB are free in \(facts.folder)")
    }
  }

  /// 2024-01-01; this program was written later, so an earlier time is wrong.
  private static let earliest: Int64 = 1_704_067_200_000_000_000

  private func clock() -> Finding {
    guard facts.time.nanoseconds < Self.earliest else { return Finding(.clock, .good, "the clock is set") }
    return Finding(
      .clock, .obstacle, "the clock says \(facts.time.nanoseconds / 1_000_000_000) s since 1970",
      cause: "it was not set since the machine started; every row of a capture would have a wrong time",
      nextStep: "sudo timedatectl set-ntp true")
  }

  private func timeStamps() -> Finding {
    let nextStep = "nothing: all works without; use another kernel for times that no load delays"
    if let error = facts.untold[.time] {
      return Finding(
        .timeStamps, .note, "the kernel does not stamp what it receives (\(error))",
        cause:
          "\(Self.strange); rows have the time at which this program took them: `withoutKernelStamp` counts",
        nextStep: nextStep)
    }
    if let error = facts.untold[.advertisingTime] {
      return Finding(
        .timeStamps, .note, "the kernel does not stamp advertisements (\(error))",
        cause: "\(Self.strange); they have the time at which this program took them", nextStep: nextStep)
    }
    return Finding(.timeStamps, .good, "the kernel stamps what it receives")
  }

  private static let strange = "this kernel, or what stands for one (qemu-user, a sandbox), cannot do that"

  private func drops() -> Finding {
    guard let error = facts.untold[.drops] else {
      return Finding(.drops, .good, "the kernel tells what it drops where a queue is full")
    }
    guard let laterError = facts.untold[.laterDrops] else {
      return Finding(
        .drops, .note, "the kernel tells what it drops with the next packet only (\(error))",
        cause: "it is older than Linux 4.12; what is dropped after the last packet of a link is not counted",
        nextStep: "nothing: all works without; update the kernel for counts without a gap")
    }
    return Finding(
      .drops, .note, "the kernel does not tell what it drops where a queue is full (\(error); \(laterError))",
      cause: "\(Self.strange); `kernelQueue` stays 0 in a capture's losses, whatever is dropped",
      nextStep:
        "nothing: all works without; samples that the sensor numbers are told as missing all the same")
  }

  // MARK: Processes

  /// Process IDs, without this process, that have a socket in `/proc/net/<table>`.
  func users(of table: String) -> [Int] {
    guard let text = Files.text(at: "\(facts.root)/proc/net/\(table)") else { return [] }
    var users: Set<Int> = []
    // sk RefCnt Rmem Wmem User Inode Parent: `bt_seq_show` in `net/bluetooth/af_bluetooth.c`.
    for line in text.split(separator: "\n").dropFirst() {
      let columns = line.split(separator: " ", omittingEmptySubsequences: true)
      guard columns.count > 5, let inode = UInt64(columns[5]) else { continue }
      users.formUnion(holders[inode] ?? [])
    }
    users.remove(ProcessFacts.ownID)
    return users.sorted()
  }

  func name(_ processes: [Int]) -> String {
    processes.map { "\(ProcessFacts.processName($0, root: facts.root) ?? "?") (process \($0))" }
      .joined(separator: ", ")
  }
}
