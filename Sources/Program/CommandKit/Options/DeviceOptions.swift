package import ArgumentParser
import BLEEmulation
package import BLEHost
package import BLELinux
import BLEStack
package import BLEWire
import JSONText
package import RingTap
package import SensorSessions

/// Options for selecting and using the radio, on every command that uses one.
package struct AdapterOptions: ParsableArguments {
  package init() {}

  package typealias Mode = RadioChoice.Mode

  @Option(help: "The adapter: hci0 or its address (default: first up).")
  package var adapter: String?

  @Option(help: "How to reach the radio; see `ringtap help modes`.")
  package var mode = Mode.auto

  @Option(
    help: ArgumentHelp(
      """
      Instead of an adapter: virtual:ring, replay:FILE, serial:/dev/ttyAMA0,115200 … (`ringtap help modes`).
      """, valueName: "spec"))
  package var transport: String?

  @Option(
    help: ArgumentHelp(
      "In exclusive mode: log all HCI packets to this file: .pcapng with nanoseconds, else btsnoop.",
      valueName: "file", visibility: .hidden))
  package var packetLog: String?

  @Flag(
    help: ArgumentHelp(
      """
      Keep keys in the --packet-log: encryption keys, and those exchanged in pairing. By default they are \
      replaced with zeros.
      """, visibility: .hidden))
  package var logKeys = false

  @Flag(
    help: ArgumentHelp(
      """
      Continue unencrypted if a bonded device does not encrypt the link: it has lost its key, or is another \
      device. By default that is an error.
      """, visibility: .hidden))
  package var acceptUnencrypted = false

  @Flag(name: [.short, .long], help: "Print more on standard error.")
  package var verbose = false

  @Flag(
    help: ArgumentHelp(
      """
      Neither use nor store known devices (see `ringtap devices`). RINGTAP_NO_REMEMBER=1 in the environment \
      has the same effect.
      """, visibility: .hidden))
  package var noRemember = false

  package func validate() throws { try choice().validate() }

  /// Returns the radio that the options select.
  package func choice() throws -> RadioChoice {
    var choice = RadioChoice()
    (choice.adapter, choice.mode, choice.packetLog) = (adapter, mode, packetLog)
    choice.transport = try transport.map(RadioChoice.transport)
    (choice.logsKeys, choice.acceptsUnencrypted, choice.remembers) = (logKeys, acceptUnencrypted, !noRemember)
    return choice
  }

  /// Opens the radio: see `RadioChoice.open`.
  package func open(_ tuning: LoopTuning = LoopTuning(), links: Int? = nil) async throws -> Radio {
    try await choice().open(tuning, links: links)
  }

  /// The stored keys of bonded devices; `nil` if this command does not use known devices.
  package var bondFiles: BondFiles? { (try? choice())?.bondFiles }

  /// The known devices; `nil` if this command does not use known devices.
  package var knownDevices: KnownDevices? { (try? choice())?.knownDevices }
}

/// Options for the device to connect to: address type and timeout.
package struct DeviceOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      "The address's type (default: as stored, else public).", valueName: "type"))
  package var addressType: AddressKind?

  @Option(
    help: ArgumentHelp(
      "Timeout for finding, connecting, starting, and each response (at most 30).",
      valueName: "seconds"), in: NumberRange(above: 0, upTo: 3600, "seconds"))
  package var timeout = 20.0

  package enum AddressKind: String, CaseIterable, ExpressibleByArgument {
    case `public`, random

    var type: AddressType { self == .public ? .public : .random }
  }
}

/// A command or option group that connects to a device.
///
/// Option groups are siblings, not nested: to check a group, a debug build of swift-argument-parser builds
/// its options four times, so each level of nesting quadruples the time.
package protocol ReachesDevice {
  var radio: AdapterOptions { get }
  var link: LinkOptions { get }
  var choice: DeviceOptions { get }
}

extension ReachesDevice {
  package var device: DeviceReach { DeviceReach(radio: radio, link: link, choice: choice) }
}

/// The device options of a command: radio, link parameters, address type and timeout.
package struct DeviceReach: Sendable {
  package var radio: AdapterOptions
  package var link: LinkOptions
  package var choice: DeviceOptions

  package var timeout: Double { choice.timeout }

  /// Parses an argument: a device address, or the name of a known device.
  package func parse(_ text: String) throws -> DeviceAddress {
    if let address = DeviceAddress(text, type: choice.addressType?.type ?? .public) {
      guard choice.addressType == nil, let known = radio.knownDevices?.named(text), known.count == 1 else {
        return address
      }
      return known[0].address
    }
    let known = radio.knownDevices?.named(text) ?? []
    guard let device = known.first else {
      throw ValidationError(
        "'\(text.printable)' is neither a device address such as 70:CB:0D:00:A1:B2 nor a name listed by "
          + "`ringtap devices`"
      )
    }
    guard known.count == 1 else {
      let addresses = known.map(\.address.description).joined(separator: ", ")
      throw ValidationError("several devices are named '\(text.printable)': \(addresses)")
    }
    return device.address
  }

  /// Returns the stored address of the device with that name, so that no scan is needed; `nil` if unknown.
  package func known(_ name: String?) -> DeviceAddress? {
    guard let name, let known = radio.knownDevices?.named(name), known.count == 1, known[0].name == name
    else {
      return nil
    }
    Console.note(
      "\(name.printable) is known as \(known[0].address); to search for it, run `ringtap devices forget "
        + "\(known[0].address)`")
    return known[0].address
  }

  /// Connects, exchanges the MTU, runs `body`, and closes the connection, even if `body` throws. Ctrl-C
  /// cancels `body`.
  package func withConnection<Value: Sendable>(
    to address: DeviceAddress, _ body: @escaping @Sendable (Connection) async throws -> Value
  ) async throws -> Value {
    let (request, timeout, isVerbose) = (try link.request(), Duration.seconds(timeout), radio.verbose)
    return try await withLink(to: address) { adapter, connection in
      do throws(GATTError) { try await connection.exchangeMTU() } catch {
        // If the device disconnects in response to a request, connects once more and omits this request.
        guard case .closed(.linkLost) = error, case .request(let pdu)? = await connection.suspect?.cause
        else {
          return try await failing { () async throws(GATTError) in throw error }
        }
        Console.note("\(LinkRemark.notAskedAgain(.request(pdu)))")
        let second = try await failing { () async throws(HostError) in
          try await adapter.connect(to: address, asking: request, timeout: timeout, tap: nil)
        }
        await second.avoid([pdu])
        await second.blame(.request(pdu))
        return try await Self.use(second, timeout, isVerbose) { try await Self.runTrusting(second, body) }
      }
      return try await Self.runTrusting(connection, body)
    }
  }

  /// Runs `body`. If it fails because the attributes cached by an earlier program have changed, runs it once
  /// more.
  private static func runTrusting<Value: Sendable>(
    _ connection: Connection, _ body: @escaping @Sendable (Connection) async throws -> Value
  ) async throws -> Value {
    do { return try await body(connection) } catch {
      guard await connection.end == nil, await connection.usesRecalledAttributes else { throw error }
      let changes = await connection.attributeChangeCount
      try? await connection.verify()
      guard await connection.attributeChangeCount != changes else { throw error }
      Console.note("\(LinkRemark.attributesReplaced)")
      return try await body(connection)
    }
  }

  /// Runs `body`, and closes the connection, even if `body` throws.
  private static func use<Value: Sendable>(
    _ connection: Connection, _ timeout: Duration, _ isVerbose: Bool,
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    await connection.limitAnswers(to: timeout)
    do {
      let value = try await closing(connection, after: Interruption.patience) { try await body() }
      await close(connection, isVerbose)
      return value
    } catch {
      await close(connection, isVerbose)
      throw error
    }
  }

  /// Connects and runs `body` like `withConnection`, but sends nothing on the ATT channel.
  ///
  /// - Parameter links: number of connections after which capabilities are dropped; `.max` to keep the
  ///   capabilities, if `body` opens a socket that needs them.
  package func withLink<Value: Sendable>(
    to address: DeviceAddress, links: Int = 1,
    _ body: @escaping @Sendable (any Adapter, Connection) async throws -> Value
  ) async throws -> Value {
    try await withLink(links: links, locating: { _ in address }, body)
  }

  /// Finds the device, then connects and runs `body` like `withLink(to:)`.
  ///
  /// - Parameters:
  ///   - tuning: settings of the receive thread.
  ///   - tap: receives the link's packets for a packet log.
  ///   - links: number of devices to connect to.
  package func withLink<Value: Sendable>(
    _ tuning: LoopTuning = LoopTuning(), tap: PacketTap? = nil, links: Int = 1,
    locating locate: @escaping @Sendable (Radio) async throws -> DeviceAddress,
    _ body: @escaping @Sendable (any Adapter, Connection) async throws -> Value
  ) async throws -> Value {
    let isVerbose = radio.verbose
    let timeout = Duration.seconds(timeout)
    let request = try link.request()
    return try await withRadio(tuning, links: links) { radio in
      let address = try await locate(radio)
      let connection = try await failing { () async throws(HostError) in
        try await radio.adapter.connect(to: address, asking: request, timeout: timeout, tap: nil)
      }
      return try await Self.use(connection, timeout, isVerbose) { try await body(radio.adapter, connection) }
    }
  }

  /// Action of `withRadio` after a signal.
  package enum Ending: Sendable {
    /// Cancels the body, and abandons it if it does not end soon.
    case prompt
    /// Cancels the body and waits for it, because it writes files.
    case whole
  }

  /// Opens the radio, runs `body`, and closes the radio, even if `body` throws. Ctrl-C cancels `body`.
  ///
  /// - Parameters:
  ///   - tuning: settings of the receive thread.
  ///   - links: number of devices to connect to.
  package func withRadio<Value: Sendable>(
    _ tuning: LoopTuning = LoopTuning(), _ ending: Ending = .prompt, links: Int = 1,
    _ body: @escaping @Sendable (Radio) async throws -> Value
  ) async throws -> Value {
    let options = radio
    return try await Interruption.cancelling {
      let radio = try await Interruption.leaving { try await options.open(tuning, links: links) }
      do {
        let value =
          switch ending {
          // A link to an unresponsive device is closed earlier. This limit covers all other waits.
          case .prompt:
            try await Interruption.leaving(after: Interruption.leavingPatience) { try await body(radio) }
          case .whole: try await body(radio)
          }
        await radio.end()
        return value
      } catch {
        await radio.end()
        throw error
      }
    }
  }

  /// Runs `body`, which waits for one response from a device. Fails after --timeout.
  package func answering<Value: Sendable>(
    _ address: DeviceAddress, _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let timeout = timeout
    return try await leaving(body) {
      try await Task.sleep(for: .seconds(timeout))
      return Failure(HostError.noAnswer(address, seconds: Int(timeout)))
    }
  }

  private static func close(_ connection: Connection, _ isVerbose: Bool) async {
    let statistics = await connection.statistics
    if isVerbose {
      Console.note(
        "MTU \(await connection.mtu), \(statistics.received) PDUs received, \(statistics.sent) sent, "
          + "\(statistics.malformed) malformed, \(statistics.kernelQueueDrops) dropped by the kernel")
      if let link = LinkText.inForce(await connection.link) { Console.note("link: \(link)") }
      if let error = statistics.lastMalformed { Console.note("last malformed: \(error)") }
    }
    if let note = LinkText.strays(statistics.strayResponses) { Console.note(note) }
    for remark in await connection.remarks { Console.note("\(remark)") }
    for note in LinkText.refusals(await connection.changes) { Console.note(note) }
    await connection.close()
  }
}

/// Time limit for reconnecting, on every command that keeps a device connected.
package struct PatienceOptions: ParsableArguments {
  package init() {}

  /// Default in seconds. A ring that is charged or out of range usually returns sooner.
  private static let standard = 60.0

  @Option(
    help: ArgumentHelp(
      "How long to try to reconnect; 0 for not at all (default: 60, in replay 0).",
      valueName: "seconds"), in: NumberRange(0...86_400, "seconds"))
  package var patience: Double?

  /// Returns the time limit for reconnecting. In a replay the default is 0, because the log already contains
  /// the reconnections.
  package func duration(on radio: Radio) -> Duration {
    .seconds(patience ?? (radio.replay == nil ? Self.standard : 0))
  }
}

/// Text about a gap in a recording, for the user.
package enum GapText {
  /// Returns the reason for the end of the link: `the link was lost: the device went silent (0x08, Connection
  /// Timeout)`.
  package static func cause(_ gap: SessionGap) -> String {
    guard let reason = gap.reason else { return "\(gap.end)" }
    let digits = String(reason.rawValue, radix: 16)
    return "\(gap.end) (0x\(digits.count < 2 ? "0" : "")\(digits), \(reason.name))"
  }

  /// Returns the reason for the end of the link, and the time until the next attempt: `…; reconnecting in 2.0
  /// s: 5 links in a row ended within 3 s`.
  package static func lost(_ gap: SessionGap) -> String {
    let start = cause(gap) + "; reconnecting"
    guard gap.pause > .zero else { return start }
    let seconds = Double(gap.pause / .milliseconds(1)) / 1_000
    return start + " in \(seconds) s: \(counted(gap.shortLinks, "link")) in a row ended within 3 s"
  }
}

/// Scheduling of the receive thread, on every command that records or measures a stream.
package struct ReceiveThreadOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Keep the receive thread polling for this long after each packet before it sleeps. Avoids the latency \
      of a wake-up, at the cost of a busy processor.
      """, valueName: "microseconds"), in: NumberRange(0...1_000_000, "microseconds"))
  package var spin = 0

  @Option(
    help: ArgumentHelp("Pin the receive thread to this processor.", valueName: "number"),
    in: NumberRange(0...1023))
  package var cpu: Int?

  @Option(
    help: ArgumentHelp(
      """
      Give the receive thread this real-time priority, 1 … 99 (SCHED_FIFO). Needs CAP_SYS_NICE; with \
      CAP_IPC_LOCK the program's memory is locked too.
      """, valueName: "priority"), in: NumberRange(1...99))
  package var realtime: Int?

  package var tuning: LoopTuning {
    var tuning = LoopTuning()
    tuning.spinMicroseconds = spin
    tuning.processor = cpu
    tuning.realTimePriority = realtime
    return tuning
  }
}
