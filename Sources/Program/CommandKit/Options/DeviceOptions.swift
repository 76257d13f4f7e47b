package import ArgumentParser
import BLEEmulation
package import BLEHost
package import BLELinux
import BLEStack
package import BLEWire
import JSONText
package import SensorSessions

/// How to reach the radio, on every command that does.
package struct AdapterOptions: ParsableArguments {
  package init() {}

  package enum Mode: String, CaseIterable, ExpressibleByArgument {
    case auto, raw, coexist, exclusive
  }

  @Option(help: "The adapter, such as hci0; the first that is up if not given.")
  package var adapter: String?

  @Option(
    help: """
      How to reach the radio: raw is beside the kernel's host, coexist is beside bluetoothd too, exclusive is our own \
      host on an adapter that is down. auto is coexist where bluetoothd runs, else raw.
      """)
  package var mode = Mode.auto

  @Option(
    help: ArgumentHelp(
      """
      A controller of our own instead of an adapter: hci-socket:0, serial:/dev/ttyAMA0,115200[,flow], \
      tcp-client:HOST:PORT, tcp-server:HOST:PORT, unix:PATH, pty:, virtual:ring (or heart-rate, thermometer, core, \
      cycling, polar); or a packet log in place of a controller: replay:FILE[,speed=1x|10x|max][,link=N].
      """, valueName: "spec"))
  package var transport: String?

  @Option(
    help: ArgumentHelp(
      "In exclusive mode: log every HCI packet, both ways, into this file: .pcapng with nanoseconds, else btsnoop.",
      valueName: "file"))
  package var packetLog: String?

  @Flag(
    help: """
      Leave keys in the --packet-log: of encryption, and those that pairing gives away. Else there are zeros in their \
      place.
      """)
  package var logKeys = false

  @Flag(
    help: """
      Go on in clear text if a bonded device does not encrypt the link: it has lost its key, or is another device. Else \
      that is an error.
      """)
  package var acceptUnencrypted = false

  @Flag(name: [.short, .long], help: "Say more on standard error: malformed packets, parameters in force.")
  package var verbose = false

  @Flag(
    help: """
      Neither look up nor remember devices (see `ringtap devices`). RINGTAP_NO_REMEMBER=1 in the environment does the \
      same.
      """)
  package var noRemember = false

  package func validate() throws {
    if packetLog != nil, try specification() == nil {
      throw ValidationError(
        "--packet-log is for exclusive mode; in the others the kernel has the packets: `btmon -w FILE`")
    }
    if logKeys, packetLog == nil { throw ValidationError("--log-keys needs --packet-log") }
    guard transport != nil else { return }
    if mode == .raw || mode == .coexist { throw ValidationError("--transport is for exclusive mode") }
    if adapter != nil { throw ValidationError("--adapter or --transport, not both") }
    _ = try specification()
  }

  /// The transport of exclusive mode; `nil` for the others.
  private func specification() throws -> TransportSpecification? {
    if let transport {
      do throws(TransportSpecification.ParseError) { return try TransportSpecification(transport) } catch {
        throw ValidationError(error.description)
      }
    }
    let handed = InheritedSockets.userChannel.map { "hci\($0)" }
    // What was handed over is meant to be used.
    guard mode == .exclusive || mode == .auto && handed != nil && adapter ?? handed == handed else {
      return nil
    }
    let name = adapter ?? handed ?? "hci0"
    guard name.hasPrefix("hci"), let index = UInt16(name.dropFirst(3)) else {
      throw ValidationError("'\(name)' is no adapter; it looks like hci0")
    }
    return .hciSocket(index: index)
  }

  /// Takes hold of the radio and says how. Gives up the capabilities that nothing asks for any more.
  ///
  /// - Parameters:
  ///   - tuning: of the receive thread.
  ///   - links: how many devices will be connected to, after which only lost links are made again; 0 for a scan, `nil`
  ///     where nobody knows.
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
    // The user channel is never opened again.
    if links != nil { ProcessRights.keep([]) }
    try await secure(radio)
    radio.adapter = remembering(radio.adapter)
    return radio
  }

  /// Links with devices that were paired with are encrypted by their keys. The kernel takes keys from root only; without
  /// them it still has those of `bluetoothd`.
  private func secure(_ radio: Radio) async throws {
    guard let bonds = bondFiles, !bonds.bonds().isEmpty else { return }
    if radio.adapter.mode == "coexist"
      || radio.adapter.exclusive == nil && ProcessFacts.processID(named: "bluetoothd") != nil
    {
      Console.note(
        "bluetoothd keeps its own bonds and decides which links are encrypted: the bonds of `ringtap pair` do not count in "
          + "\(radio.adapter.mode) mode, and a device without its key is not noticed")
    }
    guard let adapter = radio.adapter.securing else { return }
    var settings = SecuritySettings(store: bonds)
    if acceptUnencrypted { settings.bondedLinks = .any }
    let wanted = settings
    try await failing { () async throws(HostError) in
      do throws(HostError) { try await adapter.secure(wanted) } catch {
        // The adapter knows of the bonds all the same, and refuses links that it cannot encrypt.
        guard radio.adapter.exclusive == nil, !ProcessFacts.has(.netAdmin) else { throw error }
      }
    }
  }

  /// The keys of devices that were paired with; `nil` where nothing is to be remembered.
  package var bondFiles: BondFiles? {
    knownDevices.map { devices in BondFiles(in: devices.folder) { Console.note($0) } }
  }

  /// The devices that are known; `nil` where nothing is to be remembered. Emulated devices and those of logs are not
  /// there when they are looked for again.
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
  /// An adapter that the kernel keeps.
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

/// Which device, and how long it may take.
package struct DeviceOptions: ParsableArguments {
  package init() {}

  @Option(
    help: "The kind of the device's address: public or random; as remembered, else public, if not given.")
  package var addressType: AddressKind?

  @Option(
    help: ArgumentHelp(
      "How long it may take to find the device, then to connect and start a stream, then until each answer (30 at most).",
      valueName: "seconds"), in: NumberRange(above: 0, upTo: 3600, "seconds"))
  package var timeout = 20.0

  package enum AddressKind: String, CaseIterable, ExpressibleByArgument {
    case `public`, random

    var type: AddressType { self == .public ? .public : .random }
  }
}

/// Commands, and groups of options, with a device to connect to.
///
/// Groups stand side by side, not in each other: a debug build of swift-argument-parser makes a group's options four times
/// to check them, so that each level takes four times as long as the one above.
package protocol ReachesDevice {
  var radio: AdapterOptions { get }
  var link: LinkOptions { get }
  var choice: DeviceOptions { get }
}

extension ReachesDevice {
  package var device: DeviceReach { DeviceReach(radio: radio, link: link, choice: choice) }
}

/// A device to connect to, and by what.
package struct DeviceReach: Sendable {
  package var radio: AdapterOptions
  package var link: LinkOptions
  package var choice: DeviceOptions

  package var timeout: Double { choice.timeout }

  /// The device of an argument: an address, or the name of a device that is remembered.
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
        "'\(text.printable)' is no device address, such as 70:CB:0D:00:A1:B2, and no name that `ringtap devices` tells"
      )
    }
    guard known.count == 1 else {
      let addresses = known.map(\.address.description).joined(separator: ", ")
      throw ValidationError("several devices are named '\(text.printable)': \(addresses)")
    }
    return device.address
  }

  /// Where a device of that name was last, so that it need not be looked for; `nil` where that is not known.
  package func known(_ name: String?) -> DeviceAddress? {
    guard let name, let known = radio.knownDevices?.named(name), known.count == 1, known[0].name == name
    else {
      return nil
    }
    Console.note(
      "\(name.printable) is \(known[0].address) as remembered; "
        + "`ringtap devices forget \(known[0].address)` to have it looked for")
    return known[0].address
  }

  /// Connects, exchanges the MTU, runs `body`, and closes the channel whatever happens. Ctrl-C cancels `body`.
  package func withConnection<Value: Sendable>(
    to address: DeviceAddress, _ body: @escaping @Sendable (GATTClient) async throws -> Value
  ) async throws -> Value {
    let (request, timeout, isVerbose) = (try link.request(), Duration.seconds(timeout), radio.verbose)
    return try await withLink(to: address) { adapter, connection in
      let client = GATTClient(connection)
      do throws(GATTError) { try await client.exchangeMTU() } catch {
        // A device that ends its link when it is asked is connected once more, and not asked.
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

  /// Runs `body`; once more if it fails by attributes that an earlier program has found and that have changed since.
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

  /// Runs `body`, and closes the channel whatever happens.
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

  /// The same without a word on the channel.
  ///
  /// - Parameter links: how many devices will be connected to; `.max` where a socket is opened after the link.
  package func withLink<Value: Sendable>(
    to address: DeviceAddress, links: Int = 1,
    _ body: @escaping @Sendable (any Adapter, Connection) async throws -> Value
  ) async throws -> Value {
    try await withLink(links: links, locating: { _ in address }, body)
  }

  /// The same with a device that is looked for first.
  ///
  /// - Parameters:
  ///   - tuning: of the receive thread.
  ///   - tap: for a packet log of the link.
  ///   - links: how many devices will be connected to.
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

  /// What a signal makes of the body of `withRadio`.
  package enum Ending: Sendable {
    /// It is cancelled, and left behind where it does not end soon.
    case prompt
    /// It is cancelled, and sees to it by itself that it ends soon: it writes files.
    case whole
  }

  /// Takes hold of the radio, runs `body`, and lets it go whatever happens. Ctrl-C cancels `body`.
  ///
  /// - Parameters:
  ///   - tuning: of the receive thread.
  ///   - links: how many devices will be connected to.
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
          // A link is closed first where its device does not answer; this is for all other waits.
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

  /// Runs `body`, which waits for one answer of a device, for as long as --timeout allows.
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
