public import BLELinux
public import BLEStack
public import BLEWire

/// An error between this program and the radio. Its description states the cause, then the remedy.
public enum HostError: Error, Hashable, Sendable {
  /// The kernel does not support Bluetooth, or the program runs outside the initial network namespace.
  case noBluetooth
  /// The adapter does not exist. Contains the requested name or address (`nil` for any) and the adapters
  /// present.
  case noAdapter(String?, present: [AdapterInfo])
  /// Several adapters have the requested address.
  case severalAdapters(DeviceAddress, [AdapterInfo])
  case adapterDown(String)
  /// The program lacks a capability that `action` requires.
  case notPermitted(action: String, capability: String)
  /// The controller refused a command.
  case commandRefused(HCIOpcode, HCIStatus)
  case commandTimedOut(HCIOpcode)
  /// The kernel's host refused a command of its management interface.
  case managementRefused(ManagementOpcode, ManagementStatus)
  case managementTimedOut(ManagementOpcode)
  /// The controller or the kernel's management interface sent a malformed reply.
  case malformedReply(WireError)
  /// Another program is scanning, or the kernel is connecting.
  case scanBusy(holder: String?)
  /// The ATT channel of the device could not be connected within the timeout.
  case noAnswer(DeviceAddress, seconds: Int)
  /// The device was connected, but its stream did not start within the timeout.
  case startTimedOut(DeviceAddress, seconds: Int)
  /// Another program holds the ATT channel of this device.
  case channelBusy(DeviceAddress, holder: String?)
  /// The kernel could not connect.
  case connectFailed(DeviceAddress, SystemError)
  /// The controller could not create the link.
  case linkFailed(DeviceAddress, HCIStatus)
  /// Pairing failed.
  case pairing(DeviceAddress, PairingError)
  /// A bonded device did not encrypt the link with its key; the status is `nil` if it did not respond.
  case notEncrypted(DeviceAddress, HCIStatus?)
  /// A controller that only this process uses, named by its transport, has failed.
  case controller(String, HCIHostFailure)
  /// The adapter is in use, so our own host cannot open it.
  case adapterBusy(String, holder: String?)
  /// The scan did not find the device.
  case notFound(String, seconds: Int)
  /// The device or the adapter lacks a feature that the operation needs.
  case unsuitable(String)
  case gatt(GATTError)
  case system(SystemError)
}

extension HostError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .noBluetooth:
      "this kernel has no Bluetooth sockets (AF_BLUETOOTH); load the bluetooth module, and run "
        + "containers in the host's network namespace"
    case .noAdapter(let name?, let present) where !present.isEmpty: Self.noAdapter(name, present)
    case .noAdapter:
      "no Bluetooth adapter found; plug one in, or load its driver (see `rfkill list` and `dmesg`)"
    case .severalAdapters(let address, let adapters):
      "\(adapters.map(\.name).joined(separator: " and ")) have the same address \(address); choose one by "
        + "name, such as --adapter \(adapters[0].name)"
    case .adapterDown(let name):
      "\(name) is down; bring it up with `btmgmt --index \(name.dropFirst(3)) power on` "
        + "(check `rfkill list` if that fails)"
    case .notPermitted(let action, let capability):
      "\(action) needs \(capability); run as root, or once `sudo setcap "
        + "cap_net_raw,cap_net_admin\(capability == "CAP_SYS_NICE" ? ",cap_sys_nice" : "")+eip` on the ringtap binary"
    case .commandRefused(let opcode, let status):
      ErrorGuide.text(
        "the controller refused command 0x\(String(opcode.rawValue, radix: 16)): \(status.text)",
        status.guide?.remedy)
    case .commandTimedOut(let opcode):
      "the controller did not answer command 0x\(String(opcode.rawValue, radix: 16)); "
        + "reset or replug the adapter"
    case .managementRefused(let opcode, let status):
      ErrorGuide.text(
        "the kernel refused management command 0x\(String(opcode.rawValue, radix: 16)): \(status.text)",
        status.guide?.remedy)
    case .managementTimedOut(let opcode):
      "the kernel did not answer management command 0x\(String(opcode.rawValue, radix: 16)); "
        + "reset or replug the adapter"
    case .malformedReply(let error):
      "the adapter's reply cannot be read (\(error)); reset or replug the adapter"
    case .scanBusy(let holder):
      "the adapter is scanning or connecting for \(holder ?? "another program"); stop that first "
        + "(`bluetoothctl scan off`)"
    case .noAnswer(let address, let seconds):
      "\(address) (\(address.type.name)) did not answer within \(seconds) s; it is off, out of range, "
        + "connected to another host, or has the other --address-type"
    case .startTimedOut(let address, let seconds):
      "\(address) was connected, but its stream did not start within \(seconds) s: it answers too slowly, or "
        + "not at all; bring it near, switch it off and on, or raise --timeout"
    case .channelBusy(let address, let holder):
      "the ATT channel of \(address) is held by \(holder ?? "another program"); disconnect it there "
        + "first (`bluetoothctl disconnect \(address)`)"
    case .connectFailed(let address, let error):
      "cannot connect to \(address) (\(error)): "
        + (error.guide.map { "\($0.cause); \($0.remedy)" } ?? "bring the device near and try again")
    case .linkFailed(let address, let status):
      ErrorGuide.text("cannot connect to \(address): \(status.text)", status.guide?.remedy)
    case .pairing(let address, let error):
      "cannot pair with \(address): \(ErrorGuide.text(of: error))"
    case .notEncrypted(let address, let status):
      "\(address) is bonded and did not encrypt the link (\(status?.name ?? "no answer")): it has lost its "
        + "key, or another device uses its address; run `ringtap pair --forget \(address)` and pair again, "
        + "or continue unencrypted with --accept-unencrypted"
    case .controller(let name, let failure): Self.controllerFailure(name, failure)
    case .adapterBusy(let name, let holder):
      "\(name) is in use by \(holder ?? "the kernel or another program"); free it with "
        + "`btmgmt --index \(name.drop { !$0.isNumber }) power off`, and stop the program that uses it"
    case .notFound(let what, let seconds):
      "no \(what) found within \(seconds) s; wake it, bring it near, disconnect it from other hosts, "
        + "or give its address"
    case .unsuitable(let why): why
    case .gatt(let error): "\(error)"
    case .system(let error): "\(error)"
    }
  }

  private static func noAdapter(_ name: String, _ present: [AdapterInfo]) -> String {
    let names = present.map { "\($0.name) (\($0.address == .any ? "no address" : $0.address.description))" }
    let text = "there is no adapter \(name); choose one of \(names.joined(separator: ", ")) with --adapter"
    guard case .address? = AdapterName(name), let unknown = present.first(where: { $0.address == .any })
    else { return text }
    return text
      + "; the kernel reads an address when an adapter is first brought up: try "
      + "`btmgmt --index \(unknown.index) power on`"
  }

  /// Returns an error for a device that is bonded with another address of this computer. The controller was
  /// replaced, or now reports another address.
  static func bonded(
    _ device: DeviceAddress, as local: DeviceAddress, not own: DeviceAddress
  ) -> HostError {
    .unsuitable(
      "\(device) was paired with this computer as \(local), but the adapter is \(own); use the adapter that "
        + "it was paired with, run `ringtap pair --forget \(device)` and pair again, or continue unencrypted "
        + "with --accept-unencrypted"
    )
  }

  private static func controllerFailure(_ name: String, _ failure: HCIHostFailure) -> String {
    switch failure {
    case .startUpRefused(let opcode, let status):
      ErrorGuide.text(
        "\(name): the controller refused command 0x\(String(opcode.rawValue, radix: 16)) during start-up: "
          + status.text, status.guide?.remedy)
    case .commandTimedOut(let opcode):
      "\(name): the controller did not answer command 0x\(String(opcode.rawValue, radix: 16)) within 2 s; "
        + "check the transport (baud rate, flow control), reset the controller"
    case .hardwareError(let code):
      "\(name): the controller reports hardware error 0x\(String(code, radix: 16)) again, after "
        + "\(HCIHost.resetLimit) resets in a minute; replug it"
    case .unaskedReset, .restarted:
      "\(name): the controller keeps resetting itself, \(HCIHost.resetLimit) times in a minute; "
        + "check its power supply"
    case .notLowEnergy: "\(name): the controller has no Bluetooth LE; use another one"
    case .noDataBuffers: "\(name): the controller has no data buffers; use another one"
    case .dataBuffersTooSmall(let byteCount):
      "\(name): the controller accepts at most \(counted(byteCount, "byte")) of data, but Bluetooth LE needs 27; use "
        + "another one"
    case .transportLost:
      "\(name): the controller disappeared; replug it, or restart the program at the other end"
    }
  }
}

extension Duration {
  /// Returns the remaining time for the next of several steps: at least half of this duration, so that
  /// each step has a chance to succeed.
  package func left(after elapsed: Duration) -> Duration { max(self - elapsed, self / 2) }
}

extension HostError {
  /// The controller was reset and operations in progress were lost. The caller may retry.
  package static let controllerReset = HostError.gatt(.closed(.linkLost(.controllerReset)))

  /// Converts a system error to a host error.
  package init(_ error: SystemError) {
    self = error.condition == .unsupported ? .noBluetooth : .system(error)
  }

  /// Converts a system error that occurred while a connection was started or ended.
  init(connecting address: DeviceAddress, _ error: SystemError) {
    switch error.condition {
    case .unsupported: self = .noBluetooth
    case .busy: self = .channelBusy(address, holder: Self.daemon)
    // 20 s is the kernel's own limit: HCI_LE_CONN_TIMEOUT.
    case .timedOut: self = .noAnswer(address, seconds: 20)
    default: self = .connectFailed(address, error)
    }
  }

  /// Converts a system error that occurred while a port to a controller was opened.
  init(opening name: String, _ error: SystemError) {
    switch error.condition {
    case .unsupported: self = .noBluetooth
    case .busy: self = .adapterBusy(name, holder: Self.daemon)
    case .notPermitted:
      self = .notPermitted(action: "opening \(name)", capability: "CAP_NET_ADMIN or access to the port")
    case .adapterGone: self = .noAdapter(name, present: (try? KernelAdapter.all()) ?? [])
    default: self = .system(error)
    }
  }

  /// Name `bluetoothd` with its process ID; `nil` if it is not running.
  static var daemon: String? {
    ProcessFacts.processID(named: "bluetoothd").map { "bluetoothd (process \($0))" }
  }
}
