import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CommandKit
import JSONText

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
