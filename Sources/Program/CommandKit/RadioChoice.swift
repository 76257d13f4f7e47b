import ArgumentParser
import BLEEmulation
package import BLEHost
package import BLELinux
import BLEReplay
import BLESecurity
import BLEStack
package import BLEWire
import JSONText
import Recording
package import RingTap
package import SensorSessions

/// The radio to use and the way to reach it, from a command's radio options or from `radio` in the daemon's
/// configuration.
package struct RadioChoice: Hashable, Sendable {
  package enum Mode: String, CaseIterable, ExpressibleByArgument, Sendable {
    case auto, raw, coexist, exclusive
  }

  /// The adapter, such as `hci0`, or its address; `nil` for the first adapter that is up. An address is
  /// resolved each time the radio is opened.
  package var adapter: String?
  package var mode = Mode.auto
  /// A controller to use instead of an adapter.
  package var transport: TransportSpecification?
  /// The packet log in exclusive mode.
  package var packetLog: String?
  /// Whether the packet log contains keys.
  package var logsKeys = false
  /// Whether to continue unencrypted if a bonded device does not encrypt the link.
  package var acceptsUnencrypted = false
  /// Whether to use and store known devices.
  package var remembers = true

  package init() {}

  /// Parses a transport.
  ///
  /// - Throws: `ValidationError` with a valid example.
  package static func transport(_ text: String) throws -> TransportSpecification {
    do throws(TransportSpecification.ParseError) { return try TransportSpecification(text) } catch {
      throw ValidationError(error.description)
    }
  }

  /// Parses the name or address of an adapter.
  ///
  /// - Throws: `ValidationError` with valid examples.
  package static func adapter(_ text: String) throws -> AdapterName {
    guard let name = AdapterName(text) else {
      throw ValidationError(
        "'\(text.printable)' is not an adapter name such as hci0, or an adapter's address (see "
          + "`ringtap adapters`)")
    }
    return name
  }

  /// Checks that the settings fit together.
  ///
  /// - Throws: `ValidationError` that names the conflicting settings.
  package func validate() throws {
    if let adapter { _ = try Self.adapter(adapter) }
    if packetLog != nil, transport == nil, !isExclusive {
      throw ValidationError(
        "--packet-log is for exclusive mode; in other modes record the kernel's packets with `btmon -w FILE`")
    }
    if logsKeys, packetLog == nil { throw ValidationError("--log-keys needs --packet-log") }
    guard transport != nil else { return }
    if mode == .raw || mode == .coexist { throw ValidationError("--transport is for exclusive mode") }
    if adapter != nil { throw ValidationError("give --adapter or --transport, not both") }
  }

  /// Returns the transport in exclusive mode; `nil` in the other modes.
  ///
  /// - Throws: `ValidationError` if the adapter's name is invalid.
  ///
  /// - Throws: `Failure` if no adapter has the address, or several have it.
  private func exclusiveTransport() throws -> TransportSpecification? {
    if let transport { return transport }
    guard isExclusive else { return nil }
    guard let adapter else { return .hciSocket(index: InheritedSockets.userChannel ?? 0) }
    let name = try Self.adapter(adapter)
    return .hciSocket(index: try failing { () throws(HostError) in try KernelAdapter.index(of: name) })
  }

  /// Whether this process uses the adapter alone. An inherited user channel selects exclusive mode.
  private var isExclusive: Bool {
    guard mode == .auto, let handed = InheritedSockets.userChannel else { return mode == .exclusive }
    guard let adapter else { return true }
    return AdapterName(adapter).flatMap { try? KernelAdapter.index(of: $0) } == handed
  }

  // MARK: Opening

  /// Opens the radio and drops the capabilities that are no longer needed.
  ///
  /// - Parameters:
  ///   - tuning: settings of the receive thread.
  ///   - links: number of devices to connect to; 0 for a scan, `nil` if unknown. After these connections,
  ///     only lost links are reconnected.
  package func open(_ tuning: LoopTuning = LoopTuning(), links: Int? = nil) async throws -> Radio {
    let transport = try exclusiveTransport()
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
      let kernel = beside(info, loop)
      if let links { await kernel.add(SparedRights(after: links, kernel.discovery)) }
      let radio = Radio(kernel)
      await remember(kernel)
      try await secure(radio)
      return radio
    }
    let radio = try await Radio.exclusive(
      specification, log: packetLog, keys: logsKeys ? .logged : .concealed, loop)
    // The user channel stays open, so this process needs no capability later.
    if links != nil { ProcessRights.keep([]) }
    try await secure(radio)
    await remember(radio.adapter)
    return radio
  }

  /// Opens an adapter that stays under the kernel's control.
  private func beside(_ info: AdapterInfo, _ loop: EventLoop) -> KernelAdapter {
    switch mode {
    case .coexist: return KernelAdapter(info, by: .management, on: loop) { Console.note($0) }
    case .raw, .exclusive: return KernelAdapter(info, on: loop) { Console.note($0) }
    case .auto:
      let choice = ModeChoice.here()
      Console.note(choice.note(on: info.name))
      return choice.adapter(info, on: loop) { Console.note($0) }
    }
  }

  /// Passes the stored keys to the adapter, which encrypts links with bonded devices. The kernel accepts keys
  /// from root only. Without root, the kernel still uses the keys that `bluetoothd` has loaded.
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
    if acceptsUnencrypted { settings.bondedLinks = .any }
    let wanted = settings
    try await failing { () async throws(HostError) in
      do throws(HostError) { try await adapter.secure(wanted) } catch {
        // Despite the error, the adapter has the bonds, and rejects links that it cannot encrypt.
        guard radio.adapter.exclusive == nil, !ProcessFacts.has(.netAdmin) else { throw error }
      }
    }
  }

  // MARK: Known devices

  /// The stored keys of bonded devices; `nil` if this command does not use known devices.
  package var bondFiles: BondFiles? {
    knownDevices.map { devices in BondFiles(in: devices.folder) { Console.note($0) } }
  }

  /// The known devices; `nil` if this command does not use known devices. Emulated and replayed devices are
  /// not stored, because they do not exist in later runs.
  package var knownDevices: KnownDevices? {
    guard remembers, ProcessFacts.environment("RINGTAP_NO_REMEMBER") == nil else { return nil }
    switch transport {
    case .virtual?, .replay?: return nil
    default: return KnownDevices.standardFolder.map { KnownDevices(in: $0) { Console.note($0) } }
    }
  }

  private func remember(_ adapter: any Adapter) async {
    if let knownDevices { await adapter.add(DeviceJournal(knownDevices) { Console.note($0) }) }
  }
}

/// Operations of commands on a radio.
extension Radio {
  /// Finds a sensor and prints its address. A replay of a single link has no scan: the result is the address
  /// of the link's peer.
  package func find(
    _ search: SensorSearch, named name: String?, within timeout: Duration, isVerbose: Bool
  ) async throws(HostError) -> DeviceAddress {
    if let peer = replay?.peer, name == nil { return peer }
    let found = try await SensorFinder.find(search, named: name, on: adapter, within: timeout) {
      Console.note(search: $0, always: isVerbose)
    }
    Console.note(found: found)
    return found.address
  }

  /// Runs ringtap's own host on the specified controller.
  ///
  /// - Parameters:
  ///   - path: the packet log, or `nil`.
  ///   - keys: whether the packet log contains keys.
  package static func exclusive(
    _ specification: TransportSpecification, log path: String?,
    keys: CapturingTransport.Keys = .concealed, _ loop: EventLoop
  ) async throws -> Radio {
    if case .virtual(let description) = specification {
      do throws(VirtualPeripheralSpecification.ParseError) {
        _ = try VirtualPeripheralSpecification(parsing: description)
      } catch { throw ValidationError(error.description) }
    }
    // Without libcrypto, the host uses legacy pairing, and the command `pair` prints the reason.
    let controller = try await failing { () async throws(HostError) in
      try await ControllerPath.open(specification, on: loop) {
        try? P256KeyPair.maker()
      } waiting: {
        Console.note("waiting for a controller at \($0)")
      }
    }
    controller.replay?.whenOver {
      Interruption.interrupt(
        because: "the log ended before the command finished; check that it contains what the command asks for"
      )
    }
    var log: PacketLogFile?
    do throws(HostError) {
      var transport = controller.transport
      if let path {
        let file = try await PacketLogFile.start(
          path,
          announcing: RunningLog.Origin(adapter: specification.description, mode: "exclusive")
        ) { Console.note(failure: "the packet log stopped: \($0)") }
        transport = file.capturing(transport, keys: keys)
        if keys == .logged {
          Console.note(
            "warning: \(path) will contain keys that decrypt the links of these devices; keep it private")
        }
        log = file
      }
      let adapter = try await HostAdapter.open(transport, name: specification.description, on: loop)
      return Radio(adapter, controller, log: log)
    } catch {
      await controller.emulation?.detach()
      _ = await log?.finish()
      throw Failure(error)
    }
  }

  /// Closes the radio within the time limit for the end of a command, and prints a message if its logs are
  /// incomplete. The radio cannot be used afterwards.
  package func end() async {
    // If the controller does not respond, it remains open for the next program.
    try? await Interruption.leaving(after: Interruption.closingPatience) { [adapter, emulation] in
      await adapter.close()
      await emulation?.detach()
    }
    if let replay { for note in ReplayText.notes(of: replay) { Console.note(note) } }
    defer { adapter.loop.stop() }
    guard let outcome = await log?.finish() else { return }
    if let failure = outcome.failure { Console.note(failure: "the packet log is incomplete: \(failure)") }
    if outcome.lost > 0 {
      Console.note("\(counted(outcome.lost, "packet is", "packets are")) missing from the packet log")
    }
  }
}
