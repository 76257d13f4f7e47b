public import BLELinux
public import BLEStack
public import BLEWire

/// An adapter of the kernel, beside the kernel's host and beside `bluetoothd`: the `coexist` mode.
///
/// It scans by the kernel's own discovery, which it shares with `bluetoothd`, and connects over the kernel's L2CAP
/// socket like `KernelAdapter`. Scanning and timing need CAP_NET_ADMIN, connecting nothing; PHY, data length, and
/// knowing what is in force need CAP_NET_RAW.
public actor CoexistAdapter: Adapter {
  public nonisolated let info: AdapterInfo
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  public nonisolated var name: String { info.name }
  public nonisolated let mode = "coexist"

  package let kernel: KernelAdapter
  private let note: @Sendable (String) -> Void
  private var channel: ManagementChannel?
  /// What the kernel is to ask for in connects that are under way.
  private var wishes: [DeviceAddress: LinkParameterRange] = [:]

  /// - Parameters:
  ///   - info: the kernel's adapter.
  ///   - loop: has the receive thread.
  ///   - note: takes what a person should know of a scan, one line each, on the receive thread.
  public init(_ info: AdapterInfo, on loop: EventLoop, note: @escaping @Sendable (String) -> Void) {
    self.info = info
    self.loop = loop
    self.note = note
    kernel = KernelAdapter(info, on: loop, note: note)
  }

  public var malformed: Int { get async { await (channel?.malformed ?? 0) + kernel.malformed } }

  /// The kernel scans actively, at its own pace, and lets the controller report a device once in about 10 s: `timing`
  /// is not used, nor are `duplicates`.
  ///
  /// - Throws: `unsuitable` for a passive scan.
  public func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    guard kind == .active else {
      throw .unsuitable("the kernel's discovery asks for scan responses; listen only with --mode raw")
    }
    if duplicates == .reportAll {
      note("the kernel's discovery reports a device about once in 10 s; see every report with --mode raw")
    }
    try await openChannel().startDiscovery(sink)
  }

  public func stopScan() async throws(HostError) { try await channel?.stopDiscovery() }

  public func onLost(_ body: @escaping @Sendable () -> Void) async { await channel?.onLost(body) }

  /// The kernel makes the link, with the timing asked for from the start. What else is asked for goes to the
  /// controller over the raw channel.
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
    // A link that was up already keeps its timing; so does one without the kernel's help.
    if let loaded, await connection.link.timing.map(loaded.contains) ?? true { rest.leaveTiming() }
    if !rest.isEmpty { await kernel.change(connection, to: rest) }
    return connection
  }

  public func change(_ connection: Connection, to request: LinkRequest) async {
    await kernel.change(connection, to: request)
  }

  /// Without CAP_NET_RAW the kernel's host is asked instead, which knows the signal.
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

  /// Tells the kernel the timing to connect with.
  ///
  /// - Returns: what it will ask for; `nil` where nothing is wished, or not to be had.
  private func load(_ timing: LinkParameterRange?, for peer: DeviceAddress) async -> LinkParameterRange? {
    guard let timing else { return nil }
    do throws(HostError) {
      let channel = try await openChannel()
      wishes[peer] = timing
      try await channel.command(LoadConnectionParameters(entries))
      return timing
    } catch {
      wishes[peer] = nil
      // Then the raw channel is asked, and says why if it cannot either.
      return nil
    }
  }

  /// Takes it back as soon as the link is there, or is not to be had: the kernel reads it only when it connects.
  ///
  /// A device that the kernel connects by itself keeps its entry, so that gets the kernel's own timing first. What
  /// `bluetoothd` had loaded for other devices went with our load, and no command tells what it was.
  private func unload(_ loaded: LinkParameterRange?, for peer: DeviceAddress) async {
    guard loaded != nil, let channel else { return }
    wishes[peer] = nil
    let former = LoadConnectionParameters.Entry(peer, .default)
    // With the adapter gone the list is gone too.
    _ = try? await channel.command(LoadConnectionParameters(entries + [former]))
    _ = try? await channel.command(LoadConnectionParameters(entries))
  }

  /// Each load replaces the list, so all that are wanted now go into it.
  private var entries: [LoadConnectionParameters.Entry] {
    wishes.map { LoadConnectionParameters.Entry($0.key, $0.value) }
  }

  private func openChannel() async throws(HostError) -> ManagementChannel {
    if let channel { return channel }
    let opened = try await ManagementChannel.open(info, on: loop, note)
    // Somebody else may have opened one meanwhile.
    if let channel {
      await opened.close()
      return channel
    }
    channel = opened
    return opened
  }
}
