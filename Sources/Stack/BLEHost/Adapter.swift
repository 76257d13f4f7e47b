public import BLELinux
public import BLEStack
public import BLEWire

/// Maps an on-air address to the identity address of the same device. Callable on any thread.
public typealias AddressResolver = @Sendable (DeviceAddress) -> DeviceAddress?

/// Access to the radio: a kernel adapter shared with the kernel's host (`KernelAdapter`), or a controller
/// that only this process uses (`HostAdapter`). Both kinds scan and connect through this protocol.
///
/// For features that only some adapters have, use `securing` and `exclusive`. To observe scans and links, or
/// to change requests, add an `AdapterHook`.
public protocol Adapter: Actor {
  /// Called on the receive thread for each advertising report. Must not block or keep the view.
  typealias ReportSink = @Sendable (borrowing AdvertisingReport, ReceiveTime) -> Void

  /// Name for messages and files: `hci0`, or a transport such as `virtual:ring`.
  nonisolated var name: String { get }
  /// The access mode: `raw`, `coexist` or `exclusive`.
  nonisolated var mode: String { get }
  nonisolated var loop: EventLoop { get }
  /// Called around scans and links, the last one first. Use `add` to add one.
  var hooks: [any AdapterHook] { get set }
  /// Number of malformed packets.
  var malformed: Int { get async }
  /// Number of long advertisements that were not received completely.
  var unfinishedReports: Int { get async }

  /// Number of faults in the controller's data that may have lost notifications: malformed packets, data for
  /// unknown links, frames that could not be reassembled, and bytes of a stream between its packets. The
  /// number of lost notifications is unknown.
  var faults: Int { get async }

  /// Number of data packets that the writer of a replayed log truncated; 0 if the adapter replays no log.
  var cutFrames: Int { get async }

  /// Implements `startScan`, without hooks.
  func beginScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError)

  /// Implements `stopScan`, without hooks.
  func endScan() async throws(HostError)

  /// Implements `connect`, without hooks.
  func link(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection

  /// Requests new parameters for a link that is up. `Connection.changes` records the outcome.
  func change(_ connection: Connection, to request: LinkRequest) async

  /// Queries the signal strength, and the peer's version and features.
  func facts(of connection: Connection) async throws(HostError) -> LinkFacts

  /// Sets the callback for a failure of the adapter. Replaces an earlier callback. The callback is called on
  /// the receive thread, or at once if the adapter has already failed.
  func onLost(_ body: @escaping @Sendable () -> Void) async

  /// Resolver of private addresses, which uses the stored bonds; `nil` if no bond has a resolving key.
  var addressResolver: AddressResolver? { get async }

  /// Pauses receiving while `body` returns `true` because the caller's queues are too full. `body` is called
  /// on the receive thread. Only a packet log can pause; for other adapters, this does nothing.
  func hold(while body: @escaping @Sendable () -> Bool) async

  /// Implements `close`, without hooks.
  func release() async
}

/// Observes the scans and links of an adapter, and may change what is requested: to store devices, or to drop
/// privileges that are no longer needed.
public protocol AdapterHook: Sendable {
  /// Returns the sink for a scan's reports, which calls `sink` for each report.
  func observe(_ sink: @escaping Adapter.ReportSink) -> Adapter.ReportSink
  /// Called when a scan has started.
  func scanStarted() async
  /// Called when a scan was stopped, even if that failed.
  func scanStopped() async
  /// Connects to a device by calling `link` with the request.
  func connect(
    to peer: DeviceAddress, asking request: LinkRequest, on loop: EventLoop,
    _ link: (LinkRequest) async throws(HostError) -> Connection
  ) async throws(HostError) -> Connection
  /// Called when the adapter was closed.
  func closed() async
}

/// By default, a hook changes nothing.
extension AdapterHook {
  public func observe(_ sink: @escaping Adapter.ReportSink) -> Adapter.ReportSink { sink }
  public func scanStarted() async {}
  public func scanStopped() async {}
  public func connect(
    to peer: DeviceAddress, asking request: LinkRequest, on loop: EventLoop,
    _ link: (LinkRequest) async throws(HostError) -> Connection
  ) async throws(HostError) -> Connection { try await link(request) }
  public func closed() async {}
}

extension Adapter {
  /// Adds a hook. It is called before those that were added earlier.
  public func add(_ hook: any AdapterHook) { hooks.append(hook) }

  /// Starts a scan, which passes each report to `sink` on the receive thread. Only one scan may run at a
  /// time.
  ///
  /// - Throws: `notPermitted`, `scanBusy`, `adapterDown`, or the controller's error.
  public func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    let sink = hooks.reduce(sink) { $1.observe($0) }
    try await beginScan(kind, timing: timing, duplicates: duplicates, sink)
    for hook in hooks { await hook.scanStarted() }
  }

  /// Turns scanning off and waits for the controller's confirmation. Does nothing if scanning is off.
  public func stopScan() async throws(HostError) {
    var failure: HostError?
    do throws(HostError) { try await endScan() } catch { failure = error }
    for hook in hooks { await hook.scanStopped() }
    if let failure { throw failure }
  }

  /// Connects the ATT channel of a device and requests link parameters.
  ///
  /// If a parameter is refused, the link still comes up; `Connection.changes` records the refusal.
  ///
  /// - Throws: `noAnswer` after `timeout`, or the error that occurred.
  public func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    try await connect(to: peer, asking: request, timeout: timeout, tap: tap, through: hooks[...])
  }

  private func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?,
    through hooks: ArraySlice<any AdapterHook>
  ) async throws(HostError) -> Connection {
    guard let hook = hooks.last else {
      return try await link(to: peer, asking: request, timeout: timeout, tap: tap)
    }
    return try await hook.connect(to: peer, asking: request, on: loop) { request throws(HostError) in
      try await self.connect(
        to: peer, asking: request, timeout: timeout, tap: tap, through: hooks.dropLast())
    }
  }

  /// Releases the adapter.
  public func close() async {
    await release()
    for hook in hooks { await hook.closed() }
  }
}

extension Adapter {
  /// The adapter, if it encrypts links and pairs with devices; otherwise `nil`.
  public nonisolated var securing: (any SecuringAdapter)? { self as? any SecuringAdapter }
  /// Our own host if only this process uses the controller, otherwise `nil`. It permits operations that the
  /// kernel's host does not.
  public nonisolated var exclusive: HostAdapter? { self as? HostAdapter }

  /// Always 0: the kernel's host receives the controller's data.
  public var faults: Int { 0 }
  public var cutFrames: Int { 0 }

  /// Always 0: the kernel reassembles long advertisements.
  public var unfinishedReports: Int { 0 }

  /// Always `nil`. If the kernel's host keeps the bonds, its controller resolves addresses.
  public var addressResolver: AddressResolver? { nil }

  public func hold(while body: @escaping @Sendable () -> Bool) async {}

  /// Does nothing, for an adapter that cannot detect a failure.
  public func onLost(_ body: @escaping @Sendable () -> Void) async {}
}

/// An adapter that can encrypt links and pair with devices. Uses our own Security Manager or the kernel's.
public protocol SecuringAdapter: Adapter {
  /// Enables encryption and pairing.
  func secure(_ settings: SecuritySettings) async throws(HostError)

  /// Pairs with a connected device.
  ///
  /// - Returns: The bond, already stored if the settings have a store; `nil` if another program keeps the
  ///   bond.
  /// - Throws: `pairing` with the reason.
  func makeBond(with connection: Connection) async throws(HostError) -> Bond?
}

extension HostAdapter: SecuringAdapter {
  /// Time that a device needs to store its keys before the link may end. For comparison, the kernel keeps a
  /// link for 2 s after its last user closes it (HCI_DISCONN_TIMEOUT).
  private static let timeToStore = Duration.milliseconds(500)

  /// Pairs, then waits until the device has received and stored the keys.
  ///
  /// Our keys are the last packets of a pairing. If the link ends before they are sent, the device does not
  /// get them. A response on the same link proves that the device has received the keys. The device then
  /// needs time to store the keys: google/bumble 0.0.236 loses the keys if the link ends at the moment the
  /// last key arrives.
  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    let bond = try await pair(connection)
    let first = AttributeHandle(1)
    let request = FindInformationRequest(range: HandleRange(start: first, end: first))
    // An error response also proves that the device has received the keys.
    _ = try? await connection.transact([UInt8](encoding: 5) { request.encode(into: &$0) })
    if bond.isBonded { try? await loop.wait(for: Self.timeToStore) }
    return bond
  }
}
