import ArgumentParser
import BLEHost
import BLEStack
import BLEWire
import CommandKit

/// `ringtap gatt ADDRESS`.
struct GATTCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "gatt",
    abstract: "Print a device's services and characteristics.",
    discussion: """
      EXAMPLES
        ringtap gatt 70:CB:0D:00:A1:B2
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

  @Flag(help: "Print one JSON object per line.")
  var json = false

  func run() async throws {
    let address = try device.parse(address)
    let database = try await device.withConnection(to: address) { client in
      try await failing { () async throws(GATTError) in try await client.discover() }
    }
    try GATTTree(json: json).show(database)
  }
}
