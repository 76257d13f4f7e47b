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
      EmulateMeasureCommand.self,
    ])
}

/// `ringtap emulate ring`: until interrupted, an adapter with a COLMI R02 in its range.
struct EmulateRingCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ring",
    abstract: "A COLMI R02 smart ring behind a virtual adapter of this kernel.",
    discussion: """
      Makes an adapter through /dev/vhci (needs root) and brings it up, or serves the controller as a byte stream; \
      prints one line when it can be used, and runs until Ctrl-C. The ring is found by its name and answers as the \
      real one; its raw stream starts with frames captured from real rings and goes on with a made-up wearer, who is at \
      rest with 72 beats a minute unless something is said of their heart, motion or finger.

      EXAMPLES
        sudo ringtap emulate ring --vhci --rate 300 --real-time
        sudo ringtap emulate ring --vhci --rate 75 --real-time --motion run --bout 60
        ringtap emulate ring --transport tcp-server:127.0.0.1:6402
            then, elsewhere: ringtap capture --transport tcp-client:127.0.0.1:6402
        sudo ringtap emulate ring --adapter hci0 --mode exclusive
            on air, under the adapter's address; on another board: ringtap capture
      """)

  @OptionGroup var options: EmulationOptions

  @Option(
    help: "Raw notifications a second, over all three kinds. A stock ring sends 3.",
    in: EmulatedSensorOptions.rates)
  var rate: Double = 3

  @Option(help: "Stop each raw stream after this many notifications.", in: .count)
  var count: Int?

  @Option(help: "The name that it advertises; at most 26 octets.")
  var name = EmulatedRing.Configuration().name

  @Option(help: "Its device address.")
  var address = EmulatedRing.Configuration().address.description

  @Option(help: "public or random.")
  var addressType = "public"

  @Option(
    help: "So many rings, 1 … 64; the further ones are R02_0002, R02_0003, … at the addresses that follow.",
    in: NumberRange(1...64))
  var rings = 1

  @Option(
    help: "Milliseconds from one advertisement to the next, 20 … 10240. A real ring takes 1000.",
    in: NumberRange(20...10_240, "ms"))
  var advertisingInterval = 100

  @Flag(help: "Ask the central for nothing: no MTU exchange, no slower connection parameters.")
  var quiet = false

  @Option(help: "Lose the link after this many raw notifications.", in: .count)
  var disconnectAfter: Int?

  @Option(
    help: "Break each so-many-th raw notification: wrong checksum, or cut short.",
    in: .count)
  var malformedEvery: Int?

  @OptionGroup var heart: EmulatedHeartOptions

  @Option(help: "What its wearer does: rest, walk or run. The heart rate goes with it if not given.")
  var motion: String?

  @Option(help: ArgumentHelp("Steps a minute, with --motion; 105 walking, 160 running.", valueName: "n"))
  var cadence: String?

  @Option(
    help: ArgumentHelp(
      "By turns at rest and in motion for so long each, with --motion.", valueName: "seconds"))
  var bout: String?

  @Option(
    help: ArgumentHelp(
      "The pulse in the light as a share of a warm finger's, 0 to 1; 0.02 is a cold one.", valueName: "share")
  )
  var perfusion: String?

  @Option(help: ArgumentHelp("Be off the finger for 5 s, so often.", valueName: "seconds"))
  var liftedEvery: String?

  @Option(help: ArgumentHelp("Be taken off the finger then, for good.", valueName: "seconds"))
  var takenOffAfter: String?

  @Option(
    help: ArgumentHelp(
      "How likely it takes no reading of the light, 0 to 1.", valueName: "probability"),
    in: .share)
  var dropout = 0.0

  @Option(
    help: ArgumentHelp(
      "Advertise for so long after a link, and then no more, as some rings do.", valueName: "seconds"),
    in: NumberRange(above: 0, upTo: 86_400, "seconds"))
  var sleepsAfter: Double?

  @Option(
    help: "Days that it has stored of a made-up wearer; its clock is this machine's, in UTC.",
    in: NumberRange(1...31, "days"))
  var history = RingHistory().dayCount

  @Flag(help: "It measures temperature and heart rate variability too, unlike an R02.")
  var allFeatures = false

  func validate() throws {
    _ = try wearer()
    guard (1...26).contains(name.utf8.count) else {
      throw ValidationError("--name must have 1 to 26 octets")
    }
    if options.adapter != nil, rings > 1 || sleepsAfter != nil {
      throw ValidationError("--rings and --sleeps-after are for a virtual controller, not an --adapter")
    }
    _ = try parsedAddress()
  }

  /// `nil` if nothing is said of one.
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
  /// Another one of the kind; number 0 is this one.
  fileprivate func sibling(_ number: Int) -> Self {
    guard number > 0 else { return self }
    var ring = self
    let digits = String(number + 1)
    ring.name = "R02_" + String(repeating: "0", count: 4 - digits.count) + digits
    ring.address = DeviceAddress(bits: address.bits + UInt64(number), type: address.type)
    return ring
  }
}

/// `ringtap emulate source`: until interrupted, an adapter with a source of notifications in its range.
struct EmulateSourceCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "source",
    abstract: "A device that notifies as fast as the link takes it, for measuring.",
    discussion: """
      One characteristic notifies numbered values from the subscription on. A value starts with its number (4 octets, \
      little-endian) and, if it has 12 octets or more, when it was sent (8 octets, nanoseconds of CLOCK_MONOTONIC).

      EXAMPLES
        ringtap emulate source --payload 244 --real-time \\
          --transport tcp-server:127.0.0.1:6402
        ringtap gatt 70:CB:0D:00:50:C0 --transport tcp-client:127.0.0.1:6402
            elsewhere, while the one above runs
      """)

  @OptionGroup var options: EmulationOptions

  @Option(
    help: "Octets of each value, 4 to 512; cut to what the MTU allows.",
    in: NumberRange(EmulatedSource.payloadByteCounts, "octets"))
  var payload = EmulatedSource.Configuration().payloadByteCount

  @Option(
    help: "Notifications a second; as many as the link takes if not given.",
    in: EmulatedSensorOptions.rates)
  var rate: Double?

  @Option(help: "Stop after this many notifications of each link.", in: .count)
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

/// `ringtap emulate air`: controllers that hear each other, for hosts that advertise and connect by themselves.
struct EmulateAirCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "air",
    abstract: "Controllers that hear each other, and nothing else in their range.",
    discussion: """
      Each --transport is one controller and waits for its host; the air begins when all have come and ends when all \
      have gone.

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
