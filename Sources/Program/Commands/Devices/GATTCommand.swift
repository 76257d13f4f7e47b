import ArgumentParser
import BLEDissector
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CommandKit
import JSONText
import SensorSessions

/// The command `ringtap gatt ADDRESS`.
struct GATTCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "gatt",
    abstract: "Print a device's services and characteristics.",
    discussion: """
      With --output, also reads the values of all characteristics and descriptors, and writes the file that `ringtap serve` \
      reads: attributes with their handles, properties and values, and the security that the device demanded. A value that \
      cannot be read is reported on standard error and in a comment of the file.

      EXAMPLES
        ringtap gatt 70:CB:0D:00:A1:B2
        ringtap gatt 70:CB:0D:00:A1:B2 --output ring.txt
        ringtap gatt C4:12:34:56:78:9A --address-type random --json
            one object per line: type (service, include, characteristic,
            descriptor), handle, uuid; endHandle of services; valueHandle
            and properties of characteristics
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup var choice: DeviceOptions

  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2.")
  var address: String

  @Option(
    name: .shortAndLong, help: "Write the attributes and their values to this file, for `ringtap serve`.",
    completion: .file())
  var output: String?
  @OptionGroup var overwriting: OverwriteOptions

  @Flag(help: "Print one JSON object per line.")
  var json = false

  func run() async throws {
    let address = try device.parse(address)
    try overwriting.check(output, "--output")
    let isReading = output != nil
    let (database, values) = try await device.withConnection(to: address) { connection in
      let database = try await failing { () async throws(GATTError) in try await connection.discover() }
      return (database, isReading ? try await DeviceValues.read(database, connection) : DeviceValues())
    }
    guard let output else { return try GATTTree(json: json).show(database) }
    let name = radio.knownDevices?.device(at: address)?.name
    let clone = DeviceClone(of: database, values, address, name: name)
    if output == "-" {
      try Console.write(clone.text.utf8)
    } else {
      try failing { () throws(SystemError) in
        try Files.write(Array(clone.text.utf8).span, to: output, ifExists: overwriting.existing)
      }
      try GATTTree(json: json).show(database)
    }
    for remark in clone.remarks { Console.note(remark) }
    if output != "-" {
      let characteristics = database.services.reduce(0) { $0 + $1.characteristics.count }
      Console.note(
        "wrote \(output): \(counted(database.services.count, "service")), "
          + "\(counted(characteristics, "characteristic")), \(counted(values.values.count, "value"))")
    }
    if let interruption = clone.interruption { throw Failure("not all values were read: \(interruption)") }
  }
}

/// Prints an attribute tree, one line per attribute, with the name of its type if it is known.
struct GATTTree {
  var json = false

  func show(_ database: GATTDatabase) throws(Console.WriteError) {
    for service in database.services {
      try show(service)
      for include in service.includes { try show(include) }
      for characteristic in service.characteristics { try show(characteristic) }
    }
  }

  private func show(_ service: GATTDatabase.Service) throws(Console.WriteError) {
    let isPrimary = service.kind == .primary
    guard json else {
      let kind = isPrimary ? "service" : "secondary service"
      try Console.print(
        "\(service.range.start.rawValue.handleText)–\(service.range.end.rawValue.handleText)  "
          + "\(kind) \(service.uuid.shortText)\(name(service.uuid))")
      return
    }
    try Console.json { line in
      line.member("type", "service")
      line.member("handle", service.range.start.rawValue)
      line.member("endHandle", service.range.end.rawValue)
      line.member("uuid", service.uuid.description)
      line.member("name", known: service.uuid)
      line.member("primary", isPrimary)
    }
  }

  private func show(_ include: GATTDatabase.Include) throws(Console.WriteError) {
    guard json else {
      try Console.print(
        "  \(include.handle.rawValue.handleText)  include \(include.uuid.shortText) "
          + "(\(include.range.start.rawValue.handleText)–\(include.range.end.rawValue.handleText))\(name(include.uuid))"
      )
      return
    }
    try Console.json { line in
      line.member("type", "include")
      line.member("handle", include.handle.rawValue)
      line.member("includedHandle", include.range.start.rawValue)
      line.member("includedEndHandle", include.range.end.rawValue)
      line.member("uuid", include.uuid.description)
      line.member("name", known: include.uuid)
    }
  }

  private func show(_ characteristic: GATTDatabase.Characteristic) throws(Console.WriteError) {
    if json {
      try Console.json { line in
        line.member("type", "characteristic")
        line.member("handle", characteristic.handle.rawValue)
        line.member("valueHandle", characteristic.valueHandle.rawValue)
        line.member(
          "properties",
          array: { line in
            for name in characteristic.properties.names { line.value(name) }
          })
        line.member("uuid", characteristic.uuid.description)
        line.member("name", known: characteristic.uuid)
      }
    } else {
      try Console.print(
        "  \(characteristic.handle.rawValue.handleText)  characteristic \(characteristic.uuid.shortText)  "
          + "value \(characteristic.valueHandle.rawValue.handleText)  "
          + "[\(characteristic.properties.names.joined(separator: ", "))]\(name(characteristic.uuid))")
    }
    for descriptor in characteristic.descriptors { try show(descriptor) }
  }

  private func show(_ descriptor: GATTDatabase.Descriptor) throws(Console.WriteError) {
    guard json else {
      try Console.print(
        "    \(descriptor.handle.rawValue.handleText)  descriptor \(descriptor.uuid.shortText)\(name(descriptor.uuid))"
      )
      return
    }
    try Console.json { line in
      line.member("type", "descriptor")
      line.member("handle", descriptor.handle.rawValue)
      line.member("uuid", descriptor.uuid.description)
      line.member("name", known: descriptor.uuid)
    }
  }

  /// Returns two spaces and the name, such as ` Heart Rate`; empty if the name is unknown.
  private func name(_ uuid: BluetoothUUID) -> String { UUIDNames.name(of: uuid).map { "  \($0)" } ?? "" }
}

extension JSONLine {
  fileprivate mutating func member(_ name: String, known uuid: BluetoothUUID) {
    if let text = UUIDNames.name(of: uuid) { member(name, text) }
  }
}
