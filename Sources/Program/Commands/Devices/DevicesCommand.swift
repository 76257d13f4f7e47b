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

/// `ringtap devices`.
struct DevicesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "devices",
    abstract: "List and forget known devices.",
    discussion: """
      Each command that connects remembers the device when its attributes are discovered: address, name, what it is, \
      when it was seen, and its attributes. A device that is remembered can be named where a command takes an address, \
      --name then needs no scan, and --address-type need not be given. A request that the device ended a link at, and \
      that is only nice to have, is not sent for 30 days, or until the device is forgotten. Not remembered: devices that change their \
      address, emulated ones, and those of replayed logs; none at all with --no-remember, or RINGTAP_NO_REMEMBER=1 in \
      the environment.

      The devices are in $XDG_STATE_HOME/ringtap/devices (default: ~/.local/state; root's are in \
      /var/lib/ringtap/devices), one file each, readable for the owner only.

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

  /// The devices that an argument names, at least one.
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
      commandName: "forget", abstract: "Remove a device, or all, with the keys of its pairing.",
      discussion: """
        EXAMPLES
          ringtap devices forget 70:CB:0D:00:A1:B2
          ringtap devices forget --all
        """)

    @Argument(help: "The device's address or name.")
    var device: String?

    @Flag(help: "Remove all devices, damaged files included.")
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
      // A device may be paired without having been stored.
      let paired = bonds.bonds().map(\.device).filter { $0.bits == DeviceAddress(device)?.bits }
      let found = paired.isEmpty ? try DevicesCommand.devices(device, in: known) : known.named(device)
      // A name may match several devices; ask rather than remove the wrong one.
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

  /// For example `70:CB:0D:00:A1:B2  public  ring  R02_A1B2  2026-11-21 13:20:04`.
  fileprivate static func text(_ device: KnownDevice) -> String {
    [
      device.address.description, device.address.type.name.description, device.kind.rawValue,
      device.name?.printable ?? "-", text(device.lastSeen),
    ].joined(separator: "  ")
  }

  /// `2026-11-21 13:20:04`
  fileprivate static func text(_ time: ReceiveTime) -> String {
    let time = LocalTime(time)
    func two(_ part: Int) -> String { NumberText.padded(part, 2) }
    return "\(NumberText.padded(time.year, 4))-\(two(time.month))-\(two(time.day)) "
      + "\(two(time.hour)):\(two(time.minute)):\(two(time.second))"
  }
}
