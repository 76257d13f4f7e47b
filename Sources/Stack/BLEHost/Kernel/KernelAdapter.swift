public import BLELinux
public import BLEStack
public import BLEWire

/// An adapter shared with the kernel's own host: the `raw` mode.
///
/// Scans over the HCI raw channel, which is opened on first use and requires CAP_NET_RAW. Connects over the
/// kernel's L2CAP socket, which requires no capability.
public actor KernelAdapter: SecuringAdapter {
  public nonisolated let info: AdapterInfo
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  public nonisolated var name: String { info.name }
  public nonisolated let mode = "raw"

  private(set) var channel: RawChannel?
  /// The management socket; opened on first use.
  private(set) var management: ManagementChannel?
  var security = KernelSecurity()
  /// Initial timings loaded in the kernel for links with a fast start.
  var fastStarts: [DeviceAddress: LinkParameterRange] = [:]
  let note: @Sendable (String) -> Void

  /// Creates the adapter.
  ///
  /// - Parameters:
  ///   - info: the kernel's adapter.
  ///   - loop: runs the receive thread.
  ///   - note: receives messages for the user about a pairing or a scan, one line each, on the receive
  ///     thread.
  public init(
    _ info: AdapterInfo, on loop: EventLoop, note: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.info = info
    self.loop = loop
    self.note = note
  }

  /// All adapters, up or down. Requires no capability.
  public static func all() throws(HostError) -> [AdapterInfo] {
    do throws(SystemError) { return try AdapterInfo.all() } catch { throw HostError(error) }
  }

  /// Finds an adapter by name, or the first that is up.
  ///
  /// - Parameter name: `hci0`, or `nil` for any.
  /// - Throws: `noBluetooth`, `noAdapter`, `adapterDown`.
  public static func find(_ name: String?) throws(HostError) -> AdapterInfo {
    let all = try all()
    let wanted = name.map { name in all.filter { $0.name == name } } ?? all
    guard let first = wanted.first else { throw .noAdapter(name, present: all.map(\.name)) }
    guard let up = wanted.first(where: \.isUp) else { throw .adapterDown(first.name) }
    return up
  }

  public var malformed: Int { get async { await channel?.malformed ?? 0 } }
  public var unfinishedReports: Int { get async { await channel?.unfinishedReports ?? 0 } }

  public func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    try await openChannel().startScan(kind, timing: timing, duplicates: duplicates, sink)
  }

  public func stopScan() async throws(HostError) { try await channel?.stopScan() }

  public func onLost(_ body: @escaping @Sendable () -> Void) async { await channel?.onLost(body) }

  /// Connects with the kernel's default parameters. The requested parameters are then sent to the controller
  /// over the raw channel, which also reports the parameters in force. Without CAP_NET_RAW the link still
  /// comes up.
  public func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let lever = await lever()
    let peer = identity(of: peer)
    let isFast = await beginFastStart(with: peer, request, lever)
    func open() async throws(HostError) -> Connection {
      do throws(HostError) {
        return try await Connection.open(
          to: peer, from: info.address, on: loop, timeout: timeout, tap: tap, watching: lever.channel)
      } catch {
        await forgetFastStart(with: peer)
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
      await forgetFastStart(with: peer)
      throw error
    }
    var rest = request
    if isFast {
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
  /// channel was open.
  public func facts(of connection: Connection) async throws(HostError) -> LinkFacts {
    try await openChannel().facts(connection.handle)
  }

  private func lever() async -> LinkParameterControl {
    do throws(HostError) { return LinkParameterControl(try await openChannel(), nil) } catch {
      return LinkParameterControl(nil, error)
    }
  }

  public func close() async {
    for peer in fastStarts.keys { await forgetFastStart(with: peer) }
    await endSecurity()
    await management?.close()
    management = nil
    await channel?.close()
    channel = nil
  }

  func openManagement() async throws(HostError) -> ManagementChannel {
    if let management { return management }
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
    // Another task may have opened a channel meanwhile.
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
