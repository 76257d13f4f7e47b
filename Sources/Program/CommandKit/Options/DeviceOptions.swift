package import ArgumentParser
import BLEEmulation
package import BLEHost
package import BLELinux
import BLEStack
package import BLEWire
import JSONText
package import SensorSessions

/// Options for selecting and using the radio, on every command that uses one.
package struct AdapterOptions: ParsableArguments {
  package init() {}

  package enum Mode: String, CaseIterable, ExpressibleByArgument {
    case auto, raw, coexist, exclusive
  }

  @Option(help: "The adapter, such as hci0 (default: the first up).")
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

  package func validate() throws {
    if packetLog != nil, try specification() == nil {
      throw ValidationError(
        "--packet-log is for exclusive mode; in other modes record the kernel's packets with `btmon -w FILE`")
    }
    if logKeys, packetLog == nil { throw ValidationError("--log-keys needs --packet-log") }
    guard transport != nil else { return }
    if mode == .raw || mode == .coexist { throw ValidationError("--transport is for exclusive mode") }
    if adapter != nil { throw ValidationError("give --adapter or --transport, not both") }
    _ = try specification()
  }

  /// The transport in exclusive mode; `nil` in the other modes.
  private func specification() throws -> TransportSpecification? {
    if let transport {
      do throws(TransportSpecification.ParseError) { return try TransportSpecification(transport) } catch {
        throw ValidationError(error.description)
      }
    }
    let handed = InheritedSockets.userChannel.map { "hci\($0)" }
    // An inherited user channel selects exclusive mode.
    guard mode == .exclusive || mode == .auto && handed != nil && adapter ?? handed == handed else {
      return nil
    }
    let name = adapter ?? handed ?? "hci0"
    guard name.hasPrefix("hci"), let index = UInt16(name.dropFirst(3)) else {
      throw ValidationError("'\(name)' is not an adapter name such as hci0")
    }
    return .hciSocket(index: index)
  }

  /// Opens the radio and drops the capabilities that are no longer needed.
  ///
  /// - Parameters:
  ///   - tuning: settings of the receive thread.
  ///   - links: number of devices to connect to; after that, only lost links are reconnected. 0 for a scan,
  ///     `nil` if unknown.
  package func open(_ tuning: LoopTuning = LoopTuning(), links: Int? = nil) async throws -> Radio {
    let transport = try specification()
    switch transport {
    case .hciSocket?, nil: break
    default: if links != nil { ProcessRights.keep([]) }
    }
    let loop = try failing { () throws(HostError) in try EventLoop.start(tuning: tuning) }
    do { return try await open(transport, links, on: loop) } catch {
      loop.stop()
      throw error
    }
  }

  private func open(
    _ transport: TransportSpecification?, _ links: Int?, on loop: EventLoop
  ) async throws -> Radio {
    guard let specification = transport else {
      let info = try failing { () throws(HostError) in try KernelAdapter.find(adapter) }
      var kernel = beside(info, loop)
      if let links { kernel = SparingAdapter(kernel, links: links) }
      let radio = Radio(adapter: remembering(kernel))
      try await secure(radio)
      return radio
    }
    var radio = try await Radio.exclusive(
      specification, log: packetLog, keys: logKeys ? .logged : .concealed, loop)
    // The user channel stays open, so no capability is needed again.
    if links != nil { ProcessRights.keep([]) }
    try await secure(radio)
    radio.adapter = remembering(radio.adapter)
    return radio
  }

  /// Passes the stored keys to the adapter, which encrypts links with bonded devices. The kernel accepts keys
  /// from root only. Without root, the kernel still uses the keys that it got from `bluetoothd`.
  private func secure(_ radio: Radio) async throws {
    guard let bonds = bondFiles, !bonds.bonds().isEmpty else { return }
    if radio.adapter.mode == "coexist"
      || radio.adapter.exclusive == nil && ProcessFacts.processID(named: "bluetoothd") != nil
    {
      Console.note(
        "bluetoothd keeps its own bonds and decides which links are encrypted: the bonds of `ringtap pair` "
          + "are not used in \(radio.adapter.mode) mode, and a device that lost its key is not detected")
    }
    guard let adapter = radio.adapter.securing else { return }
    var settings = SecuritySettings(store: bonds)
    if acceptUnencrypted { settings.bondedLinks = .any }
    let wanted = settings
    try await failing { () async throws(HostError) in
      do throws(HostError) { try await adapter.secure(wanted) } catch {
        // The adapter has the bonds despite the error, and rejects links that it cannot encrypt.
        guard radio.adapter.exclusive == nil, !ProcessFacts.has(.netAdmin) else { throw error }
      }
    }
  }

  /// The stored keys of bonded devices; `nil` if this command does not use known devices.
  package var bondFiles: BondFiles? {
    knownDevices.map { devices in BondFiles(in: devices.folder) { Console.note($0) } }
  }

  /// The known devices; `nil` if this command does not use them. Emulated and replayed devices are not
  /// stored, because they do not exist in later runs.
  package var knownDevices: KnownDevices? {
    if noRemember || ProcessFacts.environment("RINGTAP_NO_REMEMBER") != nil { return nil }
    switch try? specification() {
    case .virtual?, .replay?: return nil
    default: return KnownDevices.standardFolder.map { KnownDevices(in: $0) { Console.note($0) } }
    }
  }

  private func remembering(_ adapter: any Adapter) -> any Adapter {
    knownDevices.map { RememberingAdapter(adapter, $0) { Console.note($0) } } ?? adapter
  }
}

extension AdapterOptions {
  /// Opens an adapter that stays under the kernel's control.
  private func beside(_ info: AdapterInfo, _ loop: EventLoop) -> any Adapter {
    switch mode {
    case .coexist: return CoexistAdapter(info, on: loop) { Console.note($0) }
    case .raw, .exclusive: return KernelAdapter(info, on: loop) { Console.note($0) }
    case .auto:
      let choice = ModeChoice.here()
      Console.note(choice.note(on: info.name))
      return choice.adapter(info, on: loop) { Console.note($0) }
    }
  }
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
/// Option groups are siblings, not nested: a debug build of swift-argument-parser builds a group's options
/// four times to check them, so each level of nesting multiplies the time by four.
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

  /// Connects, exchanges the MTU, runs `body`, and always closes the connection. Ctrl-C cancels `body`.
  package func withConnection<Value: Sendable>(
    to address: DeviceAddress, _ body: @escaping @Sendable (GATTClient) async throws -> Value
  ) async throws -> Value {
    let (request, timeout, isVerbose) = (try link.request(), Duration.seconds(timeout), radio.verbose)
    return try await withLink(to: address) { adapter, connection in
      let client = GATTClient(connection)
      do throws(GATTError) { try await client.exchangeMTU() } catch {
        // If the device disconnects in response to a request, connect once more and leave the request out.
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
    _ connection: Connection, _ body: @escaping @Sendable (GATTClient) async throws -> Value
  ) async throws -> Value {
    do { return try await body(GATTClient(connection)) } catch {
      guard await connection.end == nil, await connection.usesRecalledAttributes else { throw error }
      let changes = await connection.attributeChangeCount
      try? await GATTClient(connection).verify()
      guard await connection.attributeChangeCount != changes else { throw error }
      Console.note("\(LinkRemark.attributesReplaced)")
      return try await body(GATTClient(connection))
    }
  }

  /// Runs `body`, and always closes the connection.
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

  /// Like `withConnection`, but sends nothing on the ATT channel.
  ///
  /// - Parameter links: number of devices to connect to; `.max` if `body` opens another socket on the link.
  package func withLink<Value: Sendable>(
    to address: DeviceAddress, links: Int = 1,
    _ body: @escaping @Sendable (any Adapter, Connection) async throws -> Value
  ) async throws -> Value {
    try await withLink(links: links, locating: { _ in address }, body)
  }

  /// Like `withLink(to:)`, but finds the device first.
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

  /// How `withRadio` ends its body after a signal.
  package enum Ending: Sendable {
    /// Cancels the body, and abandons it if it does not end soon.
    case prompt
    /// Cancels the body and waits for it, because it writes files.
    case whole
  }

  /// Opens the radio, runs `body`, and always closes the radio. Ctrl-C cancels `body`.
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
          // Links to unresponsive devices are closed earlier; this limit covers all other waits.
          case .prompt:
            try await Interruption.leaving(after: Interruption.leavingPatience) { try await body(radio) }
          case .whole: try await body(radio)
          }
        await radio.close()
        return value
      } catch {
        await radio.close()
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
