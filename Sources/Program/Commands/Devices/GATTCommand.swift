import ArgumentParser
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
