import ArgumentParser
import BLEEmulation
import BLELinux
import BLEWire
import ColmiRing
import CommandKit

/// `ringtap emulate PERIPHERAL`.
package struct EmulateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "emulate",
    abstract: "Run a virtual controller with an emulated sensor.",
    subcommands: [
      EmulateRingCommand.self, EmulateHeartRateCommand.self, EmulateThermometerCommand.self,
      EmulateCoreCommand.self, EmulateCyclingCommand.self, EmulatePolarCommand.self,
      EmulateSourceCommand.self, EmulateAirCommand.self,
    ])
}

/// `ringtap emulate ring`: runs a virtual controller with a COLMI R02 in range until interrupted.
struct EmulateRingCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ring",
    abstract: "Emulate a COLMI R02 smart ring.",
    discussion: """
      Creates a kernel adapter through /dev/vhci (needs root) and switches it on, or serves the controller \
      as a byte stream. Prints a line when it is ready, and runs until Ctrl-C. The ring is found by its name \
      and responds like a real one. Its raw stream starts with frames captured from real rings and continues \
      with a simulated wearer, who rests with 72 beats per minute unless options set the heart, motion or \
      finger.

      EXAMPLES
        sudo ringtap emulate ring --vhci --rate 300 --real-time
        sudo ringtap emulate ring --vhci --rate 75 --real-time --motion run --bout 60
        ringtap emulate ring --transport tcp-server:127.0.0.1:6402
            then, elsewhere: ringtap capture --transport tcp-client:127.0.0.1:6402
        sudo ringtap emulate ring --adapter hci0 --mode exclusive
            on air, under the adapter's address; on another machine: ringtap capture
      """)

  @OptionGroup var options: EmulationOptions

  @Option(
    help: "Raw notifications per second of all three kinds together. A stock ring sends 3.",
    in: EmulatedSensorOptions.rates)
  var rate: Double = 3

  @Option(help: "Stop each raw stream after this many notifications.", in: .count)
  var count: Int?

  @Option(help: "The advertised name, at most 26 bytes.")
  var name = EmulatedRing.Configuration().name

  @Option(help: "The device address.")
  var address = EmulatedRing.Configuration().address.description

  @Option(help: "The type of the address: public or random.")
  var addressType = "public"

  @Option(
    help: "Number of rings, 1 … 64; the others are R02_0002, R02_0003, … at the following addresses.",
    in: NumberRange(1...64))
  var rings = 1

  @Option(
    help: "Milliseconds between advertisements, 20 … 10240. A real ring takes 1000.",
    in: NumberRange(20...10_240, "ms"))
  var advertisingInterval = 100

  @Flag(help: "Send no requests to the central, for MTU or connection parameters.")
  var quiet = false

  @Option(help: "Lose the link after this many raw notifications.", in: .count)
  var disconnectAfter: Int?

  @Option(
    help: "Damage every n-th raw notification: wrong checksum or truncated.",
    in: .count)
  var malformedEvery: Int?

  @OptionGroup var heart: EmulatedHeartOptions

  @Option(help: "The wearer's motion: rest, walk or run. Also sets the heart rate unless it is given.")
  var motion: String?

  @Option(help: ArgumentHelp("With --motion: steps per minute (walk 105, run 160).", valueName: "n"))
  var cadence: String?

  @Option(
    help: ArgumentHelp(
      "With --motion: alternate rest and motion, for this time each.", valueName: "seconds"))
  var bout: String?

  @Option(
    help: ArgumentHelp(
      "Optical pulse relative to a warm finger's, 0 to 1; 0.02 is cold.", valueName: "share")
  )
  var perfusion: String?

  @Option(help: ArgumentHelp("Take the ring off the finger for 5 s, at this interval.", valueName: "seconds"))
  var liftedEvery: String?

  @Option(help: ArgumentHelp("Take the ring off permanently after this time.", valueName: "seconds"))
  var takenOffAfter: String?

  @Option(
    help: ArgumentHelp(
      "Probability that an optical reading is missing, 0 to 1.", valueName: "probability"),
    in: .share)
  var dropout = 0.0

  @Option(
    help: ArgumentHelp(
      "Stop advertising this long after a link has ended, as some rings do.", valueName: "seconds"),
    in: NumberRange(above: 0, upTo: 86_400, "seconds"))
  var sleepsAfter: Double?

  @Option(
    help: "Days of stored data; the ring's clock is this machine's, in UTC.",
    in: NumberRange(1...31, "days"))
  var history = RingHistory().dayCount

  @Flag(help: "Also support temperature and heart rate variability, unlike an R02.")
  var allFeatures = false

  func validate() throws {
    _ = try wearer()
    guard (1...26).contains(name.utf8.count) else {
      throw ValidationError("--name must have 1 to 26 bytes")
    }
    if options.adapter != nil, rings > 1 || sleepsAfter != nil {
      throw ValidationError("--rings and --sleeps-after are for a virtual controller, not an --adapter")
    }
    _ = try parsedAddress()
  }

  /// The simulated wearer; `nil` if no option describes one.
  private func wearer() throws -> Wearer? {
    try heart.wearer(
      and: [
        ("motion", motion), ("cadence", cadence), ("bout", bout), ("perfusion", perfusion),
        ("lifted-every", liftedEvery), ("taken-off-after", takenOffAfter),
      ])
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
    ring.wearer = try wearer() ?? .even
    ring.dropoutRate = dropout
    ring.sleepsAfter = sleepsAfter.map { .seconds($0) }
    ring.behaviour = quiet ? .quiet : .active
    ring.history = RingHistory(dayCount: history)
    ring.features = allFeatures ? .all : .captured
    ring.clock = try? RingDateTime(
      secondsSince1970: SystemClock.now().nanoseconds / 1_000_000_000, convention: .utc)
    return ring
  }

  func run() async throws {
    let (ring, rings) = (try ringConfiguration(), rings)
    let emulation = Emulation(
      "raw notifications", key: "sentRawNotifications",
      device: .init(address: ring.address, name: ring.name)
    ) {
      (0..<rings).map { EmulatedRing(ring.sibling($0)) }
    } sent: { peripheral in
      guard let ring = peripheral as? EmulatedRing else { return (0, 0) }
      return (ring.sentRawNotifications, ring.droppedByRing)
    }
    try await emulation.run(options)
  }
}

extension EmulatedRing.Configuration {
  /// Returns the ring with this number. Number 0 is this ring.
  fileprivate func sibling(_ number: Int) -> Self {
    guard number > 0 else { return self }
    var ring = self
    let digits = String(number + 1)
    ring.name = "R02_" + String(repeating: "0", count: 4 - digits.count) + digits
    ring.address = DeviceAddress(bits: address.bits + UInt64(number), type: address.type)
    return ring
  }
}

/// `ringtap emulate source`: runs a virtual controller with a source of notifications in range until
/// interrupted.
struct EmulateSourceCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "source",
    abstract: "Emulate a device that notifies as fast as the link allows, for measurements.",
    discussion: """
      Sends numbered notifications of one characteristic after the subscription. A value starts with its \
      number (4 bytes, little-endian). If it has at least 12 bytes, its send time follows (8 bytes, \
      nanoseconds of CLOCK_MONOTONIC).

      EXAMPLES
        ringtap emulate source --payload 244 --real-time \\
          --transport tcp-server:127.0.0.1:6402
        ringtap gatt 70:CB:0D:00:50:C0 --transport tcp-client:127.0.0.1:6402
            in another terminal, while the command above runs
      """)

  @OptionGroup var options: EmulationOptions

  @Option(
    help: "Bytes per value, 4 to 512; truncated to what the MTU allows.",
    in: NumberRange(EmulatedSource.payloadByteCounts, "bytes"))
  var payload = EmulatedSource.Configuration().payloadByteCount

  @Option(
    help: "Notifications per second (default: as many as the link allows).",
    in: EmulatedSensorOptions.rates)
  var rate: Double?

  @Option(help: "Stop after this many notifications on each link.", in: .count)
  var count: Int?

  func run() async throws {
    var source = EmulatedSource.Configuration()
    source.payloadByteCount = payload
    source.notificationsPerSecond = rate
    source.notificationLimit = count
    let configuration = source
    let emulation = Emulation(
      "notifications", key: "sentNotifications",
      device: .init(address: source.address, name: source.name)
    ) {
      [EmulatedSource(configuration)]
    } sent: { peripheral in
      ((peripheral as? EmulatedSource)?.sent ?? 0, 0)
    }
    try await emulation.run(options)
  }
}

/// `ringtap emulate air`: runs controllers that are in range of each other, for hosts that advertise and
/// connect themselves.
struct EmulateAirCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "air",
    abstract: "Emulate controllers in range of each other.",
    discussion: """
      Each --transport is one controller. Hosts may connect and disconnect at any time, in any order; each \
      finds its controller in the state after power-on. Runs until Ctrl-C.

      EXAMPLE
        ringtap emulate air --real-time --transport tcp-server:127.0.0.1:6402 \\
          --transport tcp-server:127.0.0.1:6403
      """)

  @OptionGroup var options: EmulationOptions

  func run() async throws {
    try await Emulation("", key: nil, device: nil) {
      []
    } sent: { _ in
      (0, 0)
    }.run(options)
  }
}
