import ArgumentParser
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Recording
import SensorSessions

/// The command `ringtap devices`.
struct DevicesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "devices",
    abstract: "List and forget known devices.",
    discussion: """
      Each command that connects stores the device when its attributes are discovered: address, name, kind, the time \
      when it was seen, and the attributes. A stored device's name can be used in place of its address; --name then \
      needs no scan, and --address-type is not needed. If a device disconnected in response to an optional request, that \
      request is not sent again for 30 days, or until the device is forgotten. Devices that change their address, \
      emulated devices, and devices of replayed logs are not stored. With --no-remember, or RINGTAP_NO_REMEMBER=1 in the \
      environment, nothing is stored.

      Each device has one file in $XDG_STATE_HOME/ringtap/devices (default: ~/.local/state; for root: \
      /var/lib/ringtap/devices), readable by the owner only.

      EXAMPLES
        ringtap devices
        ringtap devices --json
        ringtap devices show R02_A1B2        its attributes as last discovered
        ringtap devices forget 70:CB:0D:00:A1:B2
        ringtap devices forget --all
      """,
    subcommands: [List.self, Show.self, Forget.self], defaultSubcommand: List.self)

  fileprivate static func known() throws -> KnownDevices {
    guard let folder = KnownDevices.standardFolder else {
      throw Failure("neither XDG_STATE_HOME nor HOME is set: no devices are stored")
    }
    return KnownDevices(in: folder) { Console.note($0) }
  }

  /// Returns the devices with that name or address. Throws if no device matches.
  fileprivate static func devices(_ text: String, in known: KnownDevices) throws -> [KnownDevice] {
    let devices = known.named(text)
    guard !devices.isEmpty else {
      throw Failure("\(text.printable) is unknown; `ringtap devices` lists the known devices")
    }
    return devices
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list", abstract: "List the devices, most recently seen first.",
      discussion: """
        EXAMPLES
          ringtap devices
          ringtap devices list --json
        """)

    @Flag(help: "Print one JSON object per line.")
    var json = false

    func run() throws {
      let devices = try DevicesCommand.known().all()
      if devices.isEmpty, !json { Console.note("no known devices yet") }
      for device in devices {
        if json {
          try Console.json { device.encodeSummary(into: &$0) }
        } else {
          try Console.print(DevicesCommand.text(device))
        }
      }
    }
  }

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show", abstract: "Show a device with its attributes as last discovered.",
      discussion: """
        EXAMPLES
          ringtap devices show 70:CB:0D:00:A1:B2
          ringtap devices show R02_A1B2 --json
        """)

    @Argument(help: "The device's address or name.")
    var device: String

    @Flag(help: "Print one JSON object per line.")
    var json = false

    func run() throws {
      for device in try DevicesCommand.devices(device, in: DevicesCommand.known()) {
        if json {
          var line = JSONLine()
          device.encode(into: &line)
          try Console.write(line.octets)
          continue
        }
        try Console.print(DevicesCommand.text(device))
        if let hash = device.discovery.databaseHash { try Console.print("database hash \(hash.hexText)") }
        if let revision = device.firmwareRevision {
          try Console.print("firmware \(revision.printable)")
        }
        for item in device.avoided {
          try Console.print("ended a link when it was \(item.suspect), \(DevicesCommand.text(item.since))")
        }
        try GATTTree().show(device.discovery.database)
        switch device.discovery.extent {
        case .whole: break
        case .part:
          Console.note("partly discovered; `ringtap gatt \(device.address)` discovers all attributes")
        case .none: Console.note("outdated; `ringtap gatt \(device.address)` discovers the attributes again")
        }
      }
    }
  }

  struct Forget: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "forget", abstract: "Remove a device, or all devices, and their pairing keys.",
      discussion: """
        EXAMPLES
          ringtap devices forget 70:CB:0D:00:A1:B2
          ringtap devices forget --all
        """)

    @Argument(help: "The device's address or name.")
    var device: String?

    @Flag(help: "Remove all devices, including damaged files.")
    var all = false

    func validate() throws {
      guard all != (device != nil) else { throw ValidationError("give a device or --all") }
    }

    func run() throws {
      let known = try DevicesCommand.known()
      let bonds = BondFiles(in: known.folder) { Console.note($0) }
      guard let device else {
        let count = try failing { () throws(SystemError) in
          for bond in bonds.bonds() { try bonds.forget(bond.device) }
          return try known.forgetAll()
        }
        return Console.note("\(count) \(count == 1 ? "device" : "devices") forgotten")
      }
      // A paired device may be missing in the list of known devices.
      let paired = bonds.bonds().map(\.device).filter { $0.bits == DeviceAddress(device)?.bits }
      let found = paired.isEmpty ? try DevicesCommand.devices(device, in: known) : known.named(device)
      // A name may match several devices. Ask the user for an address to avoid removing the wrong device.
      guard found.count == 1 || DeviceAddress(device) != nil else {
        let addresses = found.map(\.address.description).joined(separator: ", ")
        throw Failure(
          "several devices are named '\(device.printable)': \(addresses); forget one by its address")
      }
      try failing { () throws(SystemError) in
        for device in found { try known.forget(device.address) }
        for address in Set(paired + found.map(\.address)) { try bonds.forget(address) }
      }
    }
  }

  /// Returns a line such as `70:CB:0D:00:A1:B2 public ring R02_A1B2 2026-11-21 13:20:04`.
  fileprivate static func text(_ device: KnownDevice) -> String {
    [
      device.address.description, device.address.type.name.description, device.kind.rawValue,
      device.name?.printable ?? "-", text(device.lastSeen),
    ].joined(separator: "  ")
  }

  /// Returns a local time such as `2026-11-21 13:20:04`.
  fileprivate static func text(_ time: ReceiveTime) -> String {
    let time = LocalTime(time)
    func two(_ part: Int) -> String { NumberText.padded(part, 2) }
    return "\(NumberText.padded(time.year, 4))-\(two(time.month))-\(two(time.day)) "
      + "\(two(time.hour)):\(two(time.minute)):\(two(time.second))"
  }
}

/// The command `ringtap adapters`.
struct AdaptersCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "adapters",
    abstract: "List the Bluetooth adapters.",
    discussion: """
      EXAMPLE
        ringtap adapters --json
            one object per line: name, address, vendor (if known), up, bus
      """,
    shouldDisplay: false)

  @Flag(help: "Print one JSON object per line.")
  var json = false

  func run() throws {
    let adapters = try failing { () throws(HostError) in try KernelAdapter.all() }
    let vendors = VendorNames()
    for adapter in adapters {
      let vendor = vendors.name(of: adapter.address)
      if json {
        try Console.json { line in
          line.member("name", adapter.name)
          line.member("address", adapter.address.description)
          if let vendor { line.member("vendor", vendor) }
          line.member("up", adapter.isUp)
          line.member("bus", adapter.busName)
        }
      } else {
        try Console.print(
          "\(adapter.name)  \(adapter.address)  \(adapter.isUp ? "up" : "down")  \(adapter.busName)"
            + (vendor.map { "  (\($0.printable))" } ?? ""))
      }
    }
    if adapters.isEmpty { throw Failure(HostError.noAdapter(nil, present: [])) }
  }
}
