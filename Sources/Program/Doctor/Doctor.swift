import BLEHost
import BLELinux
import BLEWire

/// Diagnoses why this process cannot reach a radio.
///
/// Each check reports a finding, with the cause and a remedy if there is a problem.
public struct Doctor: Sendable {
  typealias Finding = DoctorFinding

  let facts: DoctorFacts
  /// The only adapter to check, by name or address; `nil` to check all adapters.
  let adapter: String?
  private let holders: [UInt64: [Int]]
  let daemon: Int?

  public init(_ facts: DoctorFacts, adapter: String? = nil) {
    self.facts = facts
    self.adapter = adapter
    holders = ProcessFacts.socketHolders(root: facts.root)
    daemon = ProcessFacts.processID(named: "bluetoothd", root: facts.root)
  }

  /// Returns the findings. An obstacle precedes the obstacles that it may cause.
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
        .bluetooth, .obstacle, "\(error)", cause: error.guide?.cause ?? "unknown",
        nextStep: error.guide?.remedy ?? "sudo dmesg")
    }
    return Finding(
      .bluetooth, .obstacle, "the kernel has no Bluetooth sockets (\(error))",
      cause: "the bluetooth module is not loaded, or the kernel was built without Bluetooth",
      nextStep: "sudo modprobe bluetooth")
  }

  /// Checks the network namespace. Bluetooth sockets can be opened only in the initial network namespace:
  /// `bt_sock_create` in `net/bluetooth/af_bluetooth.c`.
  private func networkNamespace() -> Finding {
    guard let error = facts.socketError else {
      return Finding(.networkNamespace, .good, "this is the first network namespace")
    }
    guard hasModule, error.condition == .unsupported else {
      return Finding(
        .networkNamespace, .note, "cannot determine whether this is the first network namespace",
        cause: "the check needs a Bluetooth socket", nextStep: "make Bluetooth work in the kernel first")
    }
    let isFiltered = facts.start?.isFiltered ?? (ProcessFacts.status("Seccomp", root: facts.root) == "2")
    return Finding(
      .networkNamespace, .obstacle, "no Bluetooth sockets here although the kernel has Bluetooth (\(error))",
      cause: "they exist only in the first network namespace; this process runs in a container or sandbox"
        + (isFiltered ? ", or its seccomp filter forbids AF_BLUETOOTH" : ""),
      nextStep: "sudo nsenter --target 1 --net \(facts.program) doctor"
        + " (a container: start it with --network=host)")
  }

  private func capabilities() -> Finding {
    let raw = ProcessFacts.has(.netRaw, root: facts.root)
    let admin = ProcessFacts.has(.netAdmin, root: facts.root)
    if raw, admin { return Finding(.capabilities, .good, "this process has CAP_NET_RAW and CAP_NET_ADMIN") }
    if !facts.handed.isEmpty {
      let names = facts.handed.map(\.name).sorted().joined(separator: ", ")
      return Finding(.capabilities, .good, "inherited open sockets: \(names)")
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
    default: effect = "neither CAP_NET_RAW nor CAP_NET_ADMIN: no scans; connecting by address needs neither"
    }
    return Finding(
      .capabilities, raw || admin ? .note : .obstacle, effect,
      cause: "this process is not root, and its executable file has no capabilities"
        + (cannotGain ? "; with no_new_privs it could not gain them" : ""),
      nextStep: nextStep)
  }

  /// Reports the program's capabilities and its system-call filter.
  private func confinement() -> Finding {
    let names = facts.held.map(\.name).sorted().joined(separator: " and ")
    let rights =
      switch (facts.isRoot, facts.held.isEmpty) {
      case (true, _): "running as root: commands that use a radio keep all capabilities"
      case (_, true): "no capabilities held"
      case (_, false): "\(names): held by one thread until the sockets are open"
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
          "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER), a sandbox forbids them, or ringtap "
          + "has no filter for this processor architecture",
        nextStep: "nothing: everything works without; `grep Seccomp /proc/self/status` shows kernel support")
    }
  }

  /// Kernel versions in which a blocked receive holds the socket's lock: reference "linux-bluetooth-kernel",
  /// 8. Fixed by f7b94bdc1ec1.
  private static let lockedReceive: [ClosedRange<KernelVersion>] = [
    KernelVersion(6, 1, 70)...KernelVersion(6, 1, 82), KernelVersion(6, 6, 9)...KernelVersion(6, 6, 22),
    KernelVersion(6, 7, 0)...KernelVersion(6, 7, .max), KernelVersion(6, 8, 0)...KernelVersion(6, 8, 1),
  ]

  private func kernelVersion() -> Finding {
    guard let version = KernelVersion(root: facts.root) else {
      return Finding(
        .kernelVersion, .note, "the kernel's version cannot be read",
        cause: "/proc is not mounted or is hidden",
        nextStep: "mount -t proc proc /proc")
    }
    guard Self.lockedReceive.contains(where: { $0.contains(version) }) else {
      return Finding(.kernelVersion, .good, "Linux \(version): no known bugs that matter here")
    }
    return Finding(
      .kernelVersion, .note,
      "Linux \(version) blocks sends on a Bluetooth socket while another thread waits in recv",
      cause: "recv holds the socket's lock; ringtap waits in epoll and is not affected, other programs are",
      nextStep: "sudo apt-get upgrade (the fix is f7b94bdc1ec1: 6.8.2, 6.6.23, 6.1.83 and later have it)")
  }

  private func emulation() -> Finding {
    let path = "\(facts.root)/dev/vhci"
    do throws(SystemError) {
      try Files.checkWritable(path)
      return Finding(.emulation, .good, "virtual adapters can be created (/dev/vhci)")
    } catch {
      let isThere = Files.exists(path)
      return Finding(
        .emulation, .note, "cannot create virtual adapters; `ringtap emulate` works over byte streams only",
        cause: isThere ? "only root may open /dev/vhci" : "the hci_vhci module is not loaded",
        nextStep: isThere ? "sudo setfacl -m u:$USER:rw /dev/vhci" : "sudo modprobe hci_vhci")
    }
  }

  // MARK: Recording

  /// Minimum free disk space: enough for about twenty minutes of a ring's fastest stream, or for days of its
  /// usual stream.
  static let leastByteCount = 256 << 20

  private func folder() -> Finding {
    switch facts.freeByteCount {
    case .failure(let error):
      return Finding(
        .folder, .obstacle, "cannot record in \(facts.folder) (\(error))",
        cause: error.guide?.cause ?? "unknown",
        nextStep: "cd to a writable folder, or name one with --output (for doctor: --folder)")
    case .success(let count) where count < Self.leastByteCount:
      return Finding(
        .folder, .obstacle, "\(count >> 20) MiB are free in \(facts.folder)",
        cause: "a long capture needs more, and ends when the disk is full",
        nextStep: "df -h \(facts.folder); free some space, or record elsewhere (--output)")
    case .success(let count):
      return Finding(.folder, .good, "\(count >> 20) MiB are free in \(facts.folder)")
    }
  }

  /// 2024-01-01 in nanoseconds since the Unix epoch. An earlier system time is wrong, because this program
  /// did not exist.
  private static let earliest: Int64 = 1_704_067_200_000_000_000

  private func clock() -> Finding {
    guard facts.time.nanoseconds < Self.earliest else { return Finding(.clock, .good, "the clock is set") }
    return Finding(
      .clock, .obstacle, "the clock is not set: \(facts.time.nanoseconds / 1_000_000_000) s since 1970",
      cause: "it has not been set since boot; every row of a capture would have a wrong time",
      nextStep: "sudo timedatectl set-ntp true")
  }

  private func timeStamps() -> Finding {
    let nextStep = "nothing: everything works without; on another kernel, load does not delay the times"
    if let error = facts.untold[.time] {
      return Finding(
        .timeStamps, .note, "the kernel does not timestamp received packets (\(error))",
        cause:
          "\(Self.strange); rows get the time when ringtap read them (counted as `withoutKernelStamp`)",
        nextStep: nextStep)
    }
    if let error = facts.untold[.advertisingTime] {
      return Finding(
        .timeStamps, .note, "the kernel does not timestamp advertisements (\(error))",
        cause: "\(Self.strange); they get the time when ringtap read them", nextStep: nextStep)
    }
    return Finding(.timeStamps, .good, "the kernel timestamps received packets")
  }

  private static let strange = "this kernel, or its emulation (qemu-user, a sandbox), does not support it"

  private func drops() -> Finding {
    guard let error = facts.untold[.drops] else {
      return Finding(.drops, .good, "the kernel reports packets dropped from full queues")
    }
    guard let laterError = facts.untold[.laterDrops] else {
      return Finding(
        .drops, .note, "the kernel reports dropped packets only with the next packet (\(error))",
        cause: "it is older than Linux 4.12; drops after a link's last packet are not counted",
        nextStep: "nothing: everything works without; update the kernel for complete counts")
    }
    return Finding(
      .drops, .note, "the kernel does not report packets dropped from full queues (\(error); \(laterError))",
      cause: "\(Self.strange); `kernelQueue` in a capture's losses stays 0",
      nextStep:
        "nothing: everything works without; missing samples that the sensor numbers are still reported")
  }

  // MARK: Processes

  /// Returns the IDs of other processes that have a socket in `/proc/net/<table>`.
  func users(of table: String) -> [Int] {
    guard let text = Files.text(at: "\(facts.root)/proc/net/\(table)") else { return [] }
    var users: Set<Int> = []
    // Columns: sk RefCnt Rmem Wmem User Inode Parent (`bt_seq_show` in `net/bluetooth/af_bluetooth.c`).
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

/// The result of one check of `ringtap doctor`.
public struct DoctorFinding: Hashable, Sendable {
  public enum Check: String, CaseIterable, Hashable, Sendable {
    case bluetooth, networkNamespace, capabilities, confinement, rfkill, adapters, adapterState, holders,
      scan, advertising, links
    case kernelVersion, emulation, folder, clock, timeStamps, drops
  }

  public enum State: String, Hashable, Sendable {
    case good
    /// A fact worth knowing. The program can still reach devices.
    case note
    /// A problem that prevents the program from reaching devices.
    case obstacle
  }

  public let check: Check
  public let state: State
  public let finding: String
  public let cause: String?
  /// The command to run, or another remedy.
  public let nextStep: String?

  public init(
    _ check: Check, _ state: State, _ finding: String, cause: String? = nil, nextStep: String? = nil
  ) {
    precondition(
      state == .good || cause != nil && nextStep != nil, "what is wrong has a cause and a next step")
    self.check = check
    self.state = state
    self.finding = finding
    self.cause = cause
    self.nextStep = nextStep
  }
}
