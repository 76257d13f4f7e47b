public import BLELinux
public import BLEStack
public import BLEWire
import Synchronization

/// An adapter shared with the kernel's own host: the `raw` and `coexist` modes.
///
/// Connects over the kernel's L2CAP socket, which requires no capability. CAP_NET_RAW is required to set the
/// PHY or the data length and to read the parameters in force, over the HCI raw channel, which is opened on
/// first use. If the adapter is unplugged and comes back under another index, `connect` finds it by its
/// address.
public actor KernelAdapter: SecuringAdapter {
  /// Scanning method of the adapter.
  public enum Discovery: Hashable, Sendable {
    /// With commands on the HCI raw channel: the `raw` mode. Requires CAP_NET_RAW.
    case rawChannel
    /// With the kernel's discovery, which `bluetoothd` uses too: the `coexist` mode. Requires CAP_NET_ADMIN.
    /// The kernel scans actively with its own timing, and the controller reports each device about once in
    /// 10 s.
    case management
  }

  /// The adapter, with the index that it had when it was last found.
  public nonisolated var info: AdapterInfo { found.withLock { $0 } }
  private nonisolated let found: Mutex<AdapterInfo>
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  public nonisolated var name: String { info.name }
  public nonisolated let discovery: Discovery
  public nonisolated var mode: String { discovery == .rawChannel ? "raw" : "coexist" }

  public var hooks: [any AdapterHook] = []
  private(set) var channel: RawChannel?
  /// The management socket; opened on first use.
  private(set) var management: ManagementChannel?
  var security = KernelSecurity()
  /// Timings loaded in the kernel, with which it creates links.
  private var initialTimings: [DeviceAddress: LinkParameterRange] = [:]
  let note: @Sendable (String) -> Void

  /// Creates the adapter.
  ///
  /// - Parameters:
  ///   - info: the kernel's adapter.
  ///   - discovery: scanning method.
  ///   - loop: the event loop; its thread is the receive thread.
  ///   - note: receives messages for the user about a pairing or a scan, one line each, on the receive
  ///     thread.
  public init(
    _ info: AdapterInfo, by discovery: Discovery = .rawChannel, on loop: EventLoop,
    note: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    found = Mutex(info)
    self.discovery = discovery
    self.loop = loop
    self.note = note
  }

  /// Returns all adapters, up or down. Requires no capability.
  public static func all() throws(HostError) -> [AdapterInfo] {
    do throws(SystemError) { return try AdapterInfo.all() } catch { throw HostError(error) }
  }

  /// Finds an adapter that is up by name or address, or the first adapter that is up.
  ///
  /// - Parameter name: `hci0`, the adapter's address such as `00:1A:7D:DA:71:13`, or `nil` for any.
  /// - Throws: `noBluetooth`, `noAdapter`, `severalAdapters`, `adapterDown`.
  public static func find(_ name: String?) throws(HostError) -> AdapterInfo {
    let all = try all()
    var wanted = all
    if let name {
      guard let parsed = AdapterName(name) else { throw .noAdapter(name, present: all) }
      wanted = [try parsed.find(among: all)]
    }
    guard let first = wanted.first else { throw .noAdapter(name, present: all) }
    guard let up = wanted.first(where: \.isUp) else { throw .adapterDown(first.name) }
    return up
  }

  /// Returns the index of an adapter, up or down. Does not check that an adapter with a given index exists.
  ///
  /// - Throws: `noBluetooth`, `noAdapter` and `severalAdapters` for an address.
  package static func index(of name: AdapterName) throws(HostError) -> UInt16 {
    switch name {
    case .index(let index): index
    case .address: try name.find(among: all()).index
    }
  }

  public var malformed: Int {
    get async { await (channel?.malformed ?? 0) + (management?.malformed ?? 0) }
  }
  public var unfinishedReports: Int { get async { await channel?.unfinishedReports ?? 0 } }

  /// Starts a scan. The kernel's discovery ignores `timing` and `duplicates`.
  ///
  /// - Throws: also `unsuitable` for a passive scan with the kernel's discovery.
  public func beginScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    guard discovery == .management else {
      return try await openChannel().startScan(kind, timing: timing, duplicates: duplicates, sink)
    }
    guard kind == .active else {
      throw .unsuitable("the kernel's discovery sends scan requests; use --mode raw for a passive scan")
    }
    if duplicates == .reportAll {
      note("the kernel's discovery reports a device about once in 10 s; use --mode raw for every report")
    }
    await follow()
    try await openManagement().startDiscovery(sink)
  }

  public func endScan() async throws(HostError) {
    switch discovery {
    case .rawChannel: try await channel?.stopScan()
    case .management: try await management?.stopDiscovery()
    }
  }

  public func onLost(_ body: @escaping @Sendable () -> Void) async {
    switch discovery {
    case .rawChannel: await channel?.onLost(body)
    case .management: await management?.onLost(body)
    }
  }

  /// Connects, in the `coexist` mode with the requested timing from the start. Other requested parameters are
  /// sent to the controller over the raw channel, which also reports the parameters in force. Without
  /// CAP_NET_RAW the link still comes up.
  public func link(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    await follow()
    let lever = await lever()
    let peer = identity(of: peer)
    let loaded = await loadTiming(of: request, for: peer, lever)
    func open() async throws(HostError) -> Connection {
      do throws(HostError) {
        return try await Connection.open(
          to: peer, from: info.address, on: loop, timeout: timeout, tap: tap, watching: lever.channel)
      } catch {
        await unloadTiming(for: peer)
        throw error
      }
    }
    let deadline = loop.clock.monotonic().advanced(by: timeout)
    var connection = try await open()
    do throws(HostError) {
      if try await !protect(connection, until: deadline) {
        await connection.close()
        guard await forget(peer) else { throw .notEncrypted(peer, .pinOrKeyMissing) }
        connection = try await open()
        _ = try await protect(connection, until: deadline)
        await noteSecurity(of: connection, isEncrypted: false)
      }
    } catch {
      await connection.close()
      await unloadTiming(for: peer)
      throw error
    }
    var rest = request
    switch (discovery, loaded) {
    case (.management, let timing):
      await unloadTiming(for: peer)
      // Request the timing again if the link was already up with other timing, or if the kernel did not load
      // it.
      if let timing, await connection.link.timing.map(timing.contains) ?? true { rest.leaveTiming() }
    case (.rawChannel, nil): break
    case (.rawChannel, .some):
      rest.leaveTiming()
      await connection.onSettled { [weak self] in await self?.endFastStart($0, as: peer, request) }
    }
    await lever.ask(rest, of: connection)
    return connection
  }

  public func change(_ connection: Connection, to request: LinkRequest) async {
    await lever().ask(request, of: connection)
  }

  /// Queries a link. The result includes version and features only if the kernel read them while the raw
  /// channel was open. In the `coexist` mode without CAP_NET_RAW, queries the kernel's host, which reports
  /// only the signal strength.
  public func facts(of connection: Connection) async throws(HostError) -> LinkFacts {
    do throws(HostError) { return try await openChannel().facts(connection.handle) } catch {
      guard discovery == .management, case .notPermitted = error else { throw error }
    }
    let reply = try await openManagement().command(GetConnectionInformation(connection.peer))
    var facts = LinkFacts()
    do throws(WireError) { facts.rssi = try ConnectionInformation(validating: reply.span).rssi } catch {
      throw .malformedReply(error)
    }
    return facts
  }

  private func lever() async -> LinkParameterControl {
    do throws(HostError) { return LinkParameterControl(try await openChannel(), nil) } catch {
      return LinkParameterControl(nil, error)
    }
  }

  public func release() async {
    for peer in initialTimings.keys { await unloadTiming(for: peer) }
    await endSecurity()
    await management?.close()
    management = nil
    await channel?.close()
    channel = nil
  }

  /// Finds the adapter again after it was unplugged, possibly under another index, and drops the channels of
  /// the removed adapter. The kernel's L2CAP sockets find an adapter by its address, but a channel belongs to
  /// an index and ends with the adapter.
  private func follow() async {
    let lost = channel
    if let lost, await lost.isOpen { return }
    guard let present = try? AdapterInfo.all(),
      let now = try? AdapterName.address(info.address).find(among: present), now.isUp
    else { return }
    let before = name
    found.withLock { $0 = now }
    if now.name != before { note("\(before) has come back as \(now.name)") }
    if channel === lost { channel = nil }
    guard let old = management, await !old.isOpen, management === old else { return }
    management = nil
    guard security.channel === old, let settings = security.settings else { return }
    // Links with bonded devices are refused until the kernel has their keys.
    security.hasLoadedKeys = false
    do throws(HostError) { try await secure(settings) } catch {
      note("\(name) does not have the keys of bonded devices: \(error)")
    }
  }

  func openManagement() async throws(HostError) -> ManagementChannel {
    let before = management
    // `follow` replaces the channel of pairing events.
    if let before, await before.isOpen || security.channel === before { return before }
    if management === before { management = nil }
    let opened = try await ManagementChannel.open(info, on: loop, note)
    if let management {
      await opened.close()
      return management
    }
    management = opened
    return opened
  }

  func openChannel() async throws(HostError) -> RawChannel {
    if let channel { return channel }
    let opened = try await RawChannel.open(info, on: loop, note: note)
    // Another task may have opened a channel in the meantime.
    if let channel {
      await opened.close()
      return channel
    }
    channel = opened
    return opened
  }
}

extension EventLoop {
  /// Starts the program's receive thread, with the name that `ps -L` shows.
  ///
  /// - Throws: `notPermitted` if the process may not use the priority; `unsuitable` if the processor does not
  ///   exist.
  public static func start(
    clock: LoopClock = .system, tuning: LoopTuning = LoopTuning()
  ) throws(HostError) -> EventLoop {
    do throws(SystemError) {
      return try EventLoop(name: "ringtap-receive", clock: clock, tuning: tuning)
    } catch {
      switch (error.condition, tuning.processor, tuning.realTimePriority) {
      case (.notPermitted, _, .some):
        throw .notPermitted(action: "a real-time priority", capability: "CAP_SYS_NICE")
      case (.invalid, let processor?, _):
        throw .unsuitable(
          "processor \(processor) does not exist, or this process may not use it; `taskset -p $$` shows "
            + "which it may"
        )
      default: throw HostError(error)
      }
    }
  }
}

// MARK: - Initial timing

/// Timing with which the kernel creates links. Without connection parameters loaded for the device, its
/// interval is 30 to 50 ms: `mgmt-api.txt`, 0x0035.
extension KernelAdapter {
  /// Loads the initial timing of a link into the kernel: the requested timing with the kernel's discovery, and
  /// that of a fast start with the raw channel.
  ///
  /// If the process is killed with SIGKILL, the kernel keeps the entry until the adapter is switched off.
  ///
  /// - Returns: The timing; `nil` if the link will start with the kernel's default.
  private func loadTiming(
    of request: LinkRequest, for peer: DeviceAddress, _ lever: LinkParameterControl
  ) async -> LinkParameterRange? {
    guard let timing = initialTiming(of: request, lever) else {
      // An earlier link may have ended before its fast start.
      await unloadTiming(for: peer)
      return nil
    }
    do throws(HostError) {
      let management = try await openManagement()
      initialTimings[peer] = timing
      try await management.command(LoadConnectionParameters(initialTimingEntries))
      return timing
    } catch {
      initialTimings[peer] = nil
      return nil
    }
  }

  /// There is no fast start if `bluetoothd` runs, because each load replaces the entries that `bluetoothd`
  /// loaded, or if the lasting timing could not be set afterwards.
  private func initialTiming(of request: LinkRequest, _ lever: LinkParameterControl) -> LinkParameterRange? {
    if discovery == .management { return request.timing }
    guard request.startsFast, lever.channel != nil, ProcessFacts.has(.netRaw), HostError.daemon == nil else {
      return nil
    }
    return request.initialTiming
  }

  /// Sets the lasting timing of a link: the requested one, otherwise the kernel's default. Timing that the
  /// device has requested meanwhile stays in force.
  private func endFastStart(_ connection: Connection, as peer: DeviceAddress, _ request: LinkRequest) async {
    await unloadTiming(for: peer)
    var rest = request
    (rest.phy, rest.dataLength) = (nil, nil)
    let range = LinkParameterRange.default
    let own = range.minimumInterval...range.maximumInterval
    // If the link outlives this process, it must return to the kernel's default timing.
    _ = await connection.firstTiming(
      .init(interval: own.upperBound, latency: range.latency, supervisionTimeout: range.supervisionTimeout))
    if rest.timing == nil, await connection.isFast { rest.interval = own }
    await change(connection, to: rest)
  }

  /// Removes the entry of a device. Linux 6.11 and later apply a load of exactly one entry to a live link, so
  /// the default entry is listed twice.
  private func unloadTiming(for peer: DeviceAddress) async {
    guard initialTimings.removeValue(forKey: peer) != nil, let management else { return }
    let former = LoadConnectionParameters.Entry(peer, .default)
    // The kernel keeps the entry of a device that it connects to on its own, so the first load resets that
    // entry. Both may fail if the adapter was removed; its entries are then gone too.
    _ = try? await management.command(LoadConnectionParameters(initialTimingEntries + [former, former]))
    _ = try? await management.command(LoadConnectionParameters(initialTimingEntries))
  }

  /// All current entries, because each load replaces the whole list; entries that `bluetoothd` had loaded for
  /// other devices are lost, because no command can read them.
  private var initialTimingEntries: [LoadConnectionParameters.Entry] {
    initialTimings.map { LoadConnectionParameters.Entry($0.key, $0.value) }
  }
}

// MARK: - The raw channel

/// Receives all packets of a raw channel, from the controller and from other users of the controller.
package final class ControllerObserver: @unchecked Sendable {
  // No lock: called on the event loop's thread only. A packet begins with its H4 type byte.
  let heard: (Span<UInt8>) -> Void
  let lost: (HostError) -> Void

  package init(heard: @escaping (Span<UInt8>) -> Void, lost: @escaping (HostError) -> Void) {
    (self.heard, self.lost) = (heard, lost)
  }
}

extension KernelAdapter {
  /// Sends a command on the raw channel and waits for its reply.
  @discardableResult
  package func command(_ command: any HCICommand) async throws(HostError) -> [UInt8] {
    try await openChannel().command(command)
  }

  /// Sends a command on the management socket and waits for its reply.
  @discardableResult
  package func manage(_ command: any ManagementCommand) async throws(HostError) -> [UInt8] {
    try await openManagement().command(command)
  }

  /// Passes all further packets to the observer. Replaces any earlier observer.
  package func tell(_ observer: ControllerObserver) async throws(HostError) {
    try await openChannel().tell(observer)
  }

  /// Passes the queued packets of the raw channel to the observer. The kernel queues an event on the raw
  /// channel before it acts on the event.
  package func catchUp() { channel?.assumeIsolated { $0.drain() } }

  package var bondStore: (any BondStore)? { security.settings?.store }

  /// Creates a connection from the ATT channel of a link that a central created.
  package func adopt(
    _ descriptor: consuming FileDescriptor, peer: DeviceAddress, tap: PacketTap?
  ) throws(HostError) -> Connection {
    let carrier: SocketCarrier
    do throws(SystemError) {
      descriptor.prepareToReceive()
      carrier = try SocketCarrier(descriptor, loop)
    } catch { throw HostError(error) }
    channel?.assumeIsolated { $0.watch(for: carrier) }
    let handle = carrier.connectionHandle ?? ConnectionHandle(0)
    let connection = Connection(carrier, peer: peer, handle: handle, on: loop, tap: tap)
    do { try connection.assumeIsolated { try $0.attach() } } catch { throw .adapterDown(name) }
    security.add(connection)
    return connection
  }

  /// Sets callbacks around the kernel's pairing events. `arrive` runs before each event, to accept centrals
  /// that have just connected. `changed` runs after each event, because keys may have changed.
  ///
  /// - Returns: `false` if callbacks are already set.
  package func whenPairing(arrive: @escaping () -> Void, changed: @escaping () -> Void) -> Bool {
    guard security.centrals == nil else { return false }
    security.centrals = (arrive, changed)
    return true
  }

  /// Removes the observer and the callbacks that `tell` and `whenPairing` set.
  package func endCentrals() {
    security.centrals = nil
    channel?.assumeIsolated { $0.tell(nil) }
  }
}
