import ArgumentParser
import BLECore
import BLEEmulation
import BLEHost
import BLEPacketLog
import BLESystem
import Synchronization

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
      Makes an adapter through /dev/vhci (needs root) and brings it up, or serves the controller as a byte stream; \
      prints one line when it can be used, and runs until Ctrl-C. The ring is found by its name and answers as the \
      real one; its raw stream starts with frames captured from real rings and goes on with a made-up wearer at rest.

      EXAMPLES
        sudo ringtap emulate ring --vhci --rate 300
        ringtap emulate ring --transport tcp-server:127.0.0.1:6402
            then, elsewhere: ringtap capture --transport tcp-client:127.0.0.1:6402
      """)

  @Flag(help: "Attach to the kernel through /dev/vhci (root).")
  var vhci = false

  @Option(
    help: ArgumentHelp(
      "Serve the controller as an H4 byte stream instead: tcp-server:HOST:PORT, unix:PATH, pty:.",
      valueName: "spec"))
  var transport: String?

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
    guard vhci != (transport != nil) else {
      throw ValidationError("say where to attach: --vhci, or --transport")
    }
    _ = try specification()
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

  private func specification() throws -> TransportSpecification? {
    guard let transport else { return nil }
    do throws(TransportSpecification.ParseError) {
      let specification = try TransportSpecification(transport)
      switch specification {
      case .tcpServer, .unix, .pseudoTerminal: return specification
      default:
        throw TransportSpecification.ParseError(
          "\(transport) cannot be served; tcp-server:, unix: and pty: can")
      }
    } catch { throw ValidationError(error.description) }
  }

  func run() async throws {
    let ring = try ringConfiguration()
    let sent = Mutex(0)
    do {
      try await Interruption.cancelling {
        if let specification = try specification() {
          try await serve(specification, ring, sent)
        } else {
          let emulation = try await ControllerAttachment.attach(controller(ring), to: VHCI())
          try ready("hci\(emulation.index ?? 0)", ring)
          await untilEnded(emulation, sent)
        }
      }
    } catch is CancellationError {
      // A signal is how an emulation ends.
    }
    let count = sent.withLock { $0 }
    if json {
      try Console.json { line in
        line.member("event", "end")
        line.member("sentRawNotifications", count)
      }
    } else {
      try Console.print("end \(count) raw notifications sent")
    }
  }

  /// One peer after the other, each with a controller fresh from reset.
  private func serve(
    _ specification: TransportSpecification, _ ring: EmulatedRing.Configuration, _ sent: borrowing Mutex<Int>
  ) async throws {
    var name = ""
    let server = try StreamServer(specification) { name = $0 }
    try ready(name, ring)
    while !Task.isCancelled {
      let peer = try await server.next()
      let emulation = try await failing { () async throws(SystemError) in
        try await ControllerAttachment.attach(controller(ring), to: peer.take(), .stream)
      }
      await untilEnded(emulation, sent)
      if case .pseudoTerminal = specification { return }
    }
  }

  private func controller(_ ring: EmulatedRing.Configuration) -> VirtualController {
    VirtualController(
      VirtualController.Configuration(commandSet: extended ? .extended : .legacy),
      peripherals: [EmulatedRing(ring)])
  }

  /// Until the other end closes, or the task is cancelled.
  private func untilEnded(_ emulation: ControllerAttachment, _ sent: borrowing Mutex<Int>) async {
    await withTaskCancellationHandler {
      await emulation.ended()
    } onCancel: {
      Task { await emulation.detach() }
    }
    let count = await emulation.inspect { controller in
      controller.peripherals.compactMap { $0 as? EmulatedRing }.reduce(0) { $0 + $1.sentRawNotifications }
    }
    sent.withLock { $0 += count }
  }

  private func ready(_ name: String, _ ring: EmulatedRing.Configuration) throws(Console.Closed) {
    guard json else { return try Console.print("ready \(name) \(ring.address) \(ring.name)") }
    try Console.json { line in
      line.member("event", "ready")
      line.member("adapter", name)
      line.member("address", ring.address.description)
      line.member("addressType", addressType)
      line.member("name", ring.name)
    }
  }
}
