import ArgumentParser
import BLECore
import BLEEmulation
import BLEPacketLog
import BLESystem

/// `ringtap emulate PERIPHERAL`.
struct EmulateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "emulate",
    abstract: "Runs a virtual controller with an emulated peripheral.",
    subcommands: [EmulateRingCommand.self])
}

/// `ringtap emulate ring`: until interrupted, an adapter with a COLMI R02 in its range.
struct EmulateRingCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ring",
    abstract: "A COLMI R02 smart ring behind a virtual adapter of this kernel.",
    discussion: """
      Makes an adapter through /dev/vhci (needs root), brings it up, prints one line when it can be used, \
      and runs until Ctrl-C. The ring is found by its name and answers as the real one; its raw stream \
      starts with frames captured from real rings and goes on with a made-up wearer at rest.
      """)

  @Flag(help: "Attach to the kernel through /dev/vhci; for now the only way.")
  var vhci = false

  @Option(help: "Raw notifications a second, over all three kinds. A stock ring sends 3.")
  var rate: Double = 3

  @Option(help: "Stop each raw stream after this many notifications.")
  var count: Int?

  @Option(help: "The name that it advertises; at most 26 octets.")
  var name = EmulatedRing.Configuration().name

  @Option(help: "Its device address.")
  var address = EmulatedRing.Configuration().address.description

  @Option(help: "public or random.")
  var addressType = "public"

  @Option(help: "Milliseconds from one advertisement to the next. A real ring takes 1000.")
  var advertisingInterval = 100

  @Flag(help: "Give the controller the extended advertising commands.")
  var extended = false

  @Flag(help: "Ask the central for nothing: no MTU exchange, no slower connection parameters.")
  var quiet = false

  @Option(help: "Lose the link after this many raw notifications.")
  var disconnectAfter: Int?

  @Option(help: "Break each so-many-th raw notification: wrong checksum, or cut short.")
  var malformedEvery: Int?

  @Flag(help: "Print JSON lines.")
  var json = false

  func validate() throws {
    guard vhci else { throw ValidationError("say where to attach: --vhci") }
    guard rate > 0, rate <= 100_000 else { throw ValidationError("--rate must be above 0") }
    guard (1...26).contains(name.utf8.count) else {
      throw ValidationError("--name must have 1 to 26 octets")
    }
    guard advertisingInterval >= 20 else {
      throw ValidationError("--advertising-interval must be at least 20")
    }
    for (option, value) in [
      ("--count", count), ("--disconnect-after", disconnectAfter), ("--malformed-every", malformedEvery),
    ] where (value ?? 1) < 1 {
      throw ValidationError("\(option) must be at least 1")
    }
    _ = try parsedAddress()
  }

  private func parsedAddress() throws -> DeviceAddress {
    let types: [String: AddressType] = ["public": .public, "random": .random]
    guard let type = types[addressType] else {
      throw ValidationError("--address-type must be public or random")
    }
    guard let address = DeviceAddress(address, type: type) else {
      throw ValidationError("--address must look like 70:CB:0D:00:A1:B2")
    }
    return address
  }

  private func ringConfiguration() throws -> EmulatedRing.Configuration {
    var ring = EmulatedRing.Configuration()
    ring.name = name
    ring.address = try parsedAddress()
    ring.advertisingInterval = .milliseconds(advertisingInterval)
    ring.notificationsPerSecond = rate
    ring.notificationLimit = count
    ring.disconnectAfter = disconnectAfter
    ring.malformedEvery = malformedEvery
    ring.behaviour = quiet ? .quiet : .active
    return ring
  }

  func run() async throws {
    let ring = try ringConfiguration()
    let controller = VirtualController(
      VirtualController.Configuration(commandSet: extended ? .extended : .legacy),
      peripherals: [EmulatedRing(ring)])
    let emulation = try await ControllerAttachment.attach(controller, to: VHCI())
    let adapter = "hci\(emulation.index ?? 0)"
    if json {
      try Console.json { line in
        line.member("event", "ready")
        line.member("adapter", adapter)
        line.member("address", ring.address.description)
        line.member("addressType", addressType)
        line.member("name", name)
      }
    } else {
      try Console.print("ready \(adapter) \(ring.address) \(name)")
    }
    // Until a signal: the sleep ends by being cancelled.
    _ = try? await Interruption.cancelling { try await Task.sleep(for: .seconds(1 << 40)) }
    let sent = await emulation.inspect { controller in
      controller.peripherals.compactMap { $0 as? EmulatedRing }.reduce(0) { $0 + $1.sentRawNotifications }
    }
    await emulation.detach()
    if json {
      try Console.json { line in
        line.member("event", "end")
        line.member("sentRawNotifications", sent)
      }
    } else {
      try Console.print("end \(sent) raw notifications sent")
    }
  }
}
