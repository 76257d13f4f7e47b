public import BLELinux
public import BLEStack
public import BLEWire

/// An adapter shared with the kernel's host and `bluetoothd`: the `coexist` mode.
///
/// Scans with the kernel's discovery, which `bluetoothd` uses too, and connects over the kernel's L2CAP
/// socket like `KernelAdapter`. CAP_NET_ADMIN is required to scan and to set the timing; CAP_NET_RAW to set
/// the PHY or the data length and to read the parameters in force. Connecting requires no capability.
public actor CoexistAdapter: Adapter {
  public nonisolated var info: AdapterInfo { kernel.info }
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  public nonisolated var name: String { info.name }
  public nonisolated let mode = "coexist"

  package let kernel: KernelAdapter
  private let note: @Sendable (String) -> Void
  private var channel: ManagementChannel?
  /// Timings loaded in the kernel for connection attempts in progress.
  private var wishes: [DeviceAddress: LinkParameterRange] = [:]

  /// Creates the adapter.
  ///
  /// - Parameters:
  ///   - info: the kernel's adapter.
  ///   - loop: runs the receive thread.
  ///   - note: receives messages for the user about a scan, one line each, on the receive thread.
  public init(_ info: AdapterInfo, on loop: EventLoop, note: @escaping @Sendable (String) -> Void) {
    self.loop = loop
    self.note = note
    kernel = KernelAdapter(info, on: loop, note: note)
  }

  public var malformed: Int { get async { await (channel?.malformed ?? 0) + kernel.malformed } }

  /// Starts the kernel's discovery. The kernel scans actively with its own timing, and the controller reports
  /// each device about once in 10 s. `timing` and `duplicates` are ignored.
  ///
  /// - Throws: `unsuitable` for a passive scan.
  public func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    guard kind == .active else {
      throw .unsuitable("the kernel's discovery sends scan requests; use --mode raw for a passive scan")
    }
    if duplicates == .reportAll {
      note("the kernel's discovery reports a device about once in 10 s; use --mode raw for every report")
    }
    try await openChannel().startDiscovery(sink)
  }

  public func stopScan() async throws(HostError) { try await channel?.stopDiscovery() }

  public func onLost(_ body: @escaping @Sendable () -> Void) async { await channel?.onLost(body) }

  /// Connects with the requested timing, which the kernel uses from the start. Other requested parameters are
  /// sent to the controller over the raw channel.
  public func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let loaded = await load(request.timing, for: peer)
    let connection: Connection
    do throws(HostError) {
      connection = try await kernel.connect(to: peer, asking: LinkRequest(), timeout: timeout, tap: tap)
    } catch {
      await unload(loaded, for: peer)
      throw error
    }
    await unload(loaded, for: peer)
    var rest = request
    // Request the timing again if the link was already up with another one, or if the kernel did not load it.
    if let loaded, await connection.link.timing.map(loaded.contains) ?? true { rest.leaveTiming() }
    if !rest.isEmpty { await kernel.change(connection, to: rest) }
    return connection
  }

  public func change(_ connection: Connection, to request: LinkRequest) async {
    await kernel.change(connection, to: request)
  }

  /// Queries a link. Without CAP_NET_RAW, queries the kernel's host instead, which reports only the signal
  /// strength.
  public func facts(of connection: Connection) async throws(HostError) -> LinkFacts {
    do throws(HostError) { return try await kernel.facts(of: connection) } catch {
      guard case .notPermitted = error else { throw error }
    }
    let reply = try await openChannel().command(GetConnectionInformation(connection.peer))
    var facts = LinkFacts()
    do throws(WireError) { facts.rssi = try ConnectionInformation(validating: reply.span).rssi } catch {
      throw .malformedReply(error)
    }
    return facts
  }

  public func close() async {
    await channel?.close()
    channel = nil
    await kernel.close()
  }

  // MARK: Timing

  /// Loads the timing of a connection attempt into the kernel.
  ///
  /// - Returns: The loaded timing; `nil` if none was requested or the load failed.
  private func load(_ timing: LinkParameterRange?, for peer: DeviceAddress) async -> LinkParameterRange? {
    guard let timing else { return nil }
    do throws(HostError) {
      let channel = try await openChannel()
      wishes[peer] = timing
      try await channel.command(LoadConnectionParameters(entries))
      return timing
    } catch {
      wishes[peer] = nil
      // The timing is then requested over the raw channel, which reports its own failure.
      return nil
    }
  }

  /// Removes the entry that `load` created, once the link is up or the attempt has failed. The kernel reads
  /// the entry only when it connects.
  ///
  /// The kernel keeps the entry of a device that it connects to on its own, so the entry is first set to the
  /// kernel's default. The first load discards the entries that `bluetoothd` had loaded for other devices; no
  /// command can read them.
  private func unload(_ loaded: LinkParameterRange?, for peer: DeviceAddress) async {
    guard loaded != nil, let channel else { return }
    wishes[peer] = nil
    let former = LoadConnectionParameters.Entry(peer, .default)
    // May fail if the adapter was removed; its entries are then gone too.
    _ = try? await channel.command(LoadConnectionParameters(entries + [former]))
    _ = try? await channel.command(LoadConnectionParameters(entries))
  }

  /// All current entries, because each load replaces the whole list.
  private var entries: [LoadConnectionParameters.Entry] {
    wishes.map { LoadConnectionParameters.Entry($0.key, $0.value) }
  }

  private func openChannel() async throws(HostError) -> ManagementChannel {
    let before = channel
    if let before, await before.isOpen { return before }
    // The adapter was unplugged; it may be back, with another index.
    if channel === before { channel = nil }
    let opened = try await ManagementChannel.open(info, on: loop, note)
    // Another task may have opened a channel meanwhile.
    if let channel {
      await opened.close()
      return channel
    }
    channel = opened
    return opened
  }
}
