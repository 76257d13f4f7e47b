package import ArgumentParser
import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
package import BLEWire
package import CommandKit

/// The command `ringtap bench`.
struct BenchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench",
    abstract: "Measure throughput, latency, jitter and loss.",
    discussion: """
      EXAMPLES
        ringtap bench notify 70:CB:0D:00:A1:B2 --duration 30 --svg link.svg
            notifications of a ring
        ringtap bench notify --transport virtual:source,payload=244,real-time \\
          --phy 2m --data-length 251
            notifications of an emulated source, at on-air speed
        ringtap bench sweep --intervals 7.5,30 --phys 1m,2m --payloads 20,244 --json
        ringtap bench requests --transport virtual:source
            reads and writes
      """,
    subcommands: [
      BenchNotifyCommand.self, BenchSweepCommand.self, BenchRequestsCommand.self,
    ],
    defaultSubcommand: BenchNotifyCommand.self)
}

/// `ringtap bench notify`: measures one stream.
struct BenchNotifyCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "notify",
    abstract: "Measure a stream of notifications.",
    discussion: """
      Measures the values of an emulated source, the raw stream of a ring, or the characteristic given by \
      --characteristic. Latency is the time from the kernel's timestamp to the subscriber's callback. \
      End-to-end latency starts at the sender's timestamp, if the values contain one of this machine's \
      clock, as those of an emulated source do. System calls and mallocs are those of the receive thread. As \
      in a capture, each notification is put into a queue.

      EXAMPLES
        ringtap bench notify 70:CB:0D:00:A1:B2 --duration 30 --svg link.svg
        ringtap bench notify --transport virtual:source,payload=244,real-time \\
          --phy 2m --data-length 251
        ringtap bench notify 70:CB:0D:00:50:C0 --characteristic 2a37 --json \\
          | jq .latencyNs

      Exit status 3: data was lost; the report lists where.
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @OptionGroup var options: BenchOptions
  @OptionGroup var thread: ReceiveThreadOptions

  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2; not needed with --transport virtual:…")
  var address: String?

  @Option(help: CharacteristicArgument.help)
  var characteristic: CharacteristicArgument?

  @Option(help: ArgumentHelp("Draw a chart as SVG into this file.", valueName: "file"))
  var svg: String?

  @OptionGroup var overwriting: OverwriteOptions

  @Flag(help: "Print one JSON object.")
  var json = false

  func run() async throws {
    try overwriting.check(svg, "--svg")
    let run = BenchRun(
      device: device, address: try BenchTarget.address(address, device), characteristic: characteristic,
      options: options, tuning: thread.tuning)
    let report = try await run.notifications()
    try report.show(json: json)
    if let svg { try BenchPicture.write([report], to: svg, ifExists: overwriting.existing) }
    if report.lost > 0 { throw ExitCode(3) }
  }
}

/// Duration and size of a measurement of notifications.
package struct BenchOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp("Duration of the measurement.", valueName: "seconds"),
    in: NumberRange(above: 0, upTo: 86_400, "seconds"))
  var duration = 5.0

  @Option(
    help: ArgumentHelp("Time that the stream runs before the measurement.", valueName: "seconds"),
    in: NumberRange(0...3600, "seconds"))
  var settling = 0.5

  @Option(
    help: "End after this many notifications.", in: NumberRange(2...1_000_000_000_000_000))
  package var count: Int?

  @Flag(
    name: .customLong("with-requests"),
    help:
      "Also send reads and discovery requests on the link, to show their effect on latency.")
  var withRequests = false

  @Option(help: "The ATT_MTU to request, 23 … 517.", in: Self.mtus)
  var mtu: Int = 517

  /// The MTUs that can be requested. The minimum is 23 (Core 5.4, Vol 3, Part F, 3.2.8). 517 bytes are enough
  /// for a prepared write of a value of 512 bytes.
  static let mtus = NumberRange(23...517)

  package init() {}

  var window: NotificationMeter.Window {
    .init(settling: .seconds(settling), duration: .seconds(duration), count: count)
  }
}

/// The device to measure.
package enum BenchTarget {
  /// Returns the given address, or the address of the peripheral in a virtual transport.
  package static func address(_ text: String?, _ device: DeviceReach) throws -> DeviceAddress {
    if let text { return try device.parse(text) }
    let prefix = "virtual:"
    guard let transport = device.radio.transport, transport.hasPrefix(prefix) else {
      throw ValidationError("give an address, or --transport virtual:…")
    }
    let specification: VirtualPeripheralSpecification
    do throws(VirtualPeripheralSpecification.ParseError) {
      specification = try VirtualPeripheralSpecification(parsing: String(transport.dropFirst(prefix.count)))
    } catch { throw ValidationError(error.description) }
    guard let address = specification.makePeripherals().first?.advertisement?.address else {
      throw ValidationError("'\(transport)' does not advertise; give an address")
    }
    return address
  }
}
