import BLEHost
import BLELinux
import BLEWire

/// Checks of adapters and of the programs that use them.
extension Doctor {
  /// The adapters to check.
  private var chosen: [AdapterInfo] { facts.adapters.filter { $0.isChosen(by: adapter) } }

  /// Returns whether the kernel's host can use the adapter in its current state.
  private func isUsable(_ info: AdapterInfo) -> Bool {
    guard info.isUp else { return false }
    switch facts.views[info.index] {
    case .settings(let settings): return settings.isPowered && settings.isLowEnergy
    case .refused: return false
    case .silent, nil: return true
    }
  }

  private func isHanded(_ info: AdapterInfo) -> Bool { facts.handed.contains(.userChannel(info.index)) }

  /// Severity of a problem with one adapter: an obstacle only if no other adapter is usable.
  private var weight: DoctorFinding.State {
    chosen.contains { isUsable($0) || isHanded($0) } ? .note : .obstacle
  }

  /// Checks for rfkill switches that disable radios: `/sys/class/rfkill`.
  func rfkill() -> [DoctorFinding] {
    let folder = "\(facts.root)/sys/class/rfkill"
    var findings: [DoctorFinding] = []
    for entry in Files.names(in: folder).sorted() {
      func value(_ name: String) -> String? {
        Files.text(at: "\(folder)/\(entry)/\(name)").map { String($0.prefix { $0 != "\n" }) }
      }
      guard value("type") == "bluetooth", let name = value("name"),
        adapter == nil || name == adapter || chosen.contains(where: { $0.name == name })
      else {
        continue
      }
      if value("hard") == "1" {
        findings.append(
          Finding(
            .rfkill, weight, "\(name) is blocked by a switch",
            cause: "a hardware switch or key on the machine (rfkill, hard)",
            nextStep: "turn the machine's radio switch on; check with `rfkill list bluetooth`"))
      } else if value("soft") == "1" {
        findings.append(
          Finding(
            .rfkill, weight, "\(name) is blocked by software",
            cause: "a program, or the desktop's flight mode (rfkill, soft)",
            nextStep: "sudo rfkill unblock bluetooth"))
      }
    }
    return findings.isEmpty ? [Finding(.rfkill, .good, "no Bluetooth radio is blocked")] : findings
  }

  func adapters() -> [DoctorFinding] {
    guard chosen.isEmpty else {
      return [Finding(.adapters, .good, chosen.map { "\($0.name) \($0.address)" }.joined(separator: ", "))]
    }
    if let adapter, !facts.adapters.isEmpty {
      let present = facts.adapters.map { "\($0.name) \($0.address)" }.joined(separator: ", ")
      return [
        Finding(
          .adapters, .obstacle, "there is no \(adapter)", cause: "there are: \(present)",
          nextStep: "ringtap doctor --adapter \(facts.adapters[0].name)")
      ]
    }
    return [
      Finding(
        .adapters, .obstacle, "there is no Bluetooth adapter",
        cause: "none is plugged in, or its driver or firmware is missing",
        nextStep: "sudo dmesg | grep -i -e bluetooth -e firmware")
    ]
  }

  func adapterStates() -> [DoctorFinding] {
    chosen.map { info in
      let name = info.name
      let index = String(info.index)
      if isHanded(info) {
        return Finding(
          .adapterState, .good, "this process inherited the user channel of \(name)")
      }
      switch facts.views[info.index] {
      case .refused(let status) where status != .permissionDenied:
        return Finding(
          .adapterState, weight, "the kernel's host does not use \(name) (\(status.name))",
          cause: "a program has opened its user channel, or the adapter is still being set up",
          nextStep: "stop that program (see `holders`), then ringtap doctor --adapter \(name)")
      case .settings(let settings) where info.isUp && settings.isPowered && !settings.isLowEnergy:
        return Finding(
          .adapterState, weight, "LE is switched off on \(name)", cause: "a setting in the kernel's host",
          nextStep: "sudo btmgmt --index \(index) le on")
      default:
        guard info.isUp else {
          return Finding(
            .adapterState, weight, "\(name) is down",
            cause: "it was not powered on, or rfkill blocks it",
            nextStep: "sudo btmgmt --index \(index) power on (exclusive mode needs it down)")
        }
        return Finding(.adapterState, .good, "\(name) is up")
      }
    }
  }

  /// Finds processes with open sockets on the adapters.
  func adapterHolders() -> [DoctorFinding] {
    let users = users(of: "hci")
    var findings: [DoctorFinding] = []
    let lost = chosen.filter { info in
      if case .refused(let status)? = facts.views[info.index] {
        return status == .invalidIndex && !isHanded(info)
      }
      return false
    }
    for info in lost {
      let others = users.filter { $0 != daemon }
      findings.append(
        Finding(
          .holders, weight, "\(info.name) is held by \(others.isEmpty ? "another program" : name(others))",
          cause: others.isEmpty
            ? "only root can see which" : "it has opened the adapter's user channel or another HCI socket",
          nextStep: others.isEmpty
            ? "sudo \(facts.program) doctor" : "kill \(others.map(String.init).joined(separator: " "))"))
    }
    if let daemon {
      findings.append(
        Finding(
          .holders, .note, "bluetoothd (process \(daemon)) is running",
          cause: "it also scans and connects, and holds the ATT channel of each device it is connected to",
          nextStep:
            "nothing: --mode auto selects coexist mode; for exclusive use, sudo systemctl stop bluetooth"
        ))
    }
    let rest = users.filter { $0 != daemon }
    if lost.isEmpty, !rest.isEmpty {
      findings.append(
        Finding(
          .holders, .note, "HCI sockets are open in \(name(rest))",
          cause: "a monitor socket only listens; any other may scan or change settings",
          nextStep:
            "nothing, unless a scan is refused; then kill \(rest.map(String.init).joined(separator: " "))"))
    }
    return findings.isEmpty ? [Finding(.holders, .good, "no other program uses the adapters")] : findings
  }

  func scans() -> [DoctorFinding] {
    let findings = chosen.compactMap { info -> DoctorFinding? in
      switch facts.scans[info.index] {
      case .busy:
        let users = users(of: "hci")
        let who = users.isEmpty ? "another program" : name(users)
        return Finding(
          .scan, daemon == nil ? weight(ofScanOn: info) : .note,
          "\(info.name) is scanning or connecting for \(who)",
          cause: "a controller scans for one program at a time; coexist mode shares bluetoothd's scan",
          nextStep: daemon == nil
            ? "kill \(users.map(String.init).joined(separator: " "))" : "bluetoothctl scan off")
      case .unknown(let why):
        return Finding(
          .scan, .note, "cannot determine whether \(info.name) is scanning", cause: why,
          nextStep: "sudo \(facts.program) doctor")
      case .idle, nil: return nil
      }
    }
    return findings.isEmpty ? [Finding(.scan, .good, "no program is scanning")] : findings
  }

  private func weight(ofScanOn info: AdapterInfo) -> DoctorFinding.State {
    let isOther = chosen.contains { $0.index != info.index && isUsable($0) && facts.scans[$0.index] == .idle }
    return isOther ? .note : .obstacle
  }

  /// Checks for advertising that is on, possibly because the program that started it was killed. Advertising
  /// makes this machine visible to other devices.
  func advertising() -> [DoctorFinding] {
    let findings = chosen.compactMap { info -> DoctorFinding? in
      let index = String(info.index)
      switch facts.advertising[info.index] {
      case .byKernel:
        return Finding(
          .advertising, .note, "the kernel is advertising on \(info.name)",
          cause: daemon == nil
            ? "`btmgmt`, or a program that ended and left it on" : "bluetoothd, or another program",
          nextStep: daemon == nil
            ? "sudo btmgmt --index \(index) clr-adv; sudo btmgmt --index \(index) advertising off"
            : "nothing if this is intended; else bluetoothctl advertise off")
      case .byCommands:
        let users = users(of: "hci").filter { $0 != daemon }
        return Finding(
          .advertising, .note, "\(info.name) is advertising, started by HCI commands",
          cause: users.isEmpty
            ? "a program was killed and left it on, such as `ringtap serve --mode raw` after `kill -9`"
            : name(users) + ", or a program that was killed",
          nextStep: users.isEmpty
            ? "sudo btmgmt --index \(index) power off; sudo btmgmt --index \(index) power on"
            : "nothing if this is intended")
      case .unknown(let why):
        return Finding(
          .advertising, .note, "cannot determine whether \(info.name) is advertising", cause: why,
          nextStep: "sudo \(facts.program) doctor")
      case .off, nil: return nil
      }
    }
    return findings.isEmpty
      ? [Finding(.advertising, .good, "no advertising was found")] : findings
  }

  /// Finds existing links. The ATT channel of a link cannot be opened a second time.
  func links() -> [DoctorFinding] {
    let holders = users(of: "l2cap")
    let who =
      holders.isEmpty ? "a program that has just ended, or that only root can see" : name(holders)
    let findings = chosen.flatMap { info in
      (facts.links[info.index] ?? []).filter(\.isLowEnergy).map { link in
        Finding(
          .links, .note, "\(info.name) is connected to \(link.peer)",
          cause: "by \(who); only one program can use the device's ATT channel",
          nextStep: "bluetoothctl disconnect \(link.peer)")
      }
    }
    return findings.isEmpty ? [Finding(.links, .good, "no device is connected")] : findings
  }
}

extension AdapterInfo {
  /// Returns whether to check this adapter.
  func isChosen(by adapter: String?) -> Bool {
    guard let adapter else { return true }
    return AdapterName(adapter)?.isName(of: self) == true
  }
}
