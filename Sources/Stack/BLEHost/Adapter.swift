public import BLELinux
public import BLEStack
public import BLEWire

/// Maps an on-air address to the identity of the device behind it. Callable on any thread.
public typealias AddressResolver = @Sendable (DeviceAddress) -> DeviceAddress?

/// Access to the radio: a kernel adapter shared with the kernel's host (`KernelAdapter`), or a controller
/// that only this process uses (`HostAdapter`). Both scan and connect through the same interface.
///
/// For features that only some adapters have, use `securing`, `exclusive` and `innermost`. An adapter that
/// wraps another forwards them, so that callers do not depend on the outermost type.
public protocol Adapter: Actor {
  /// Called on the receive thread for each advertising report. Must not block or keep the view.
  typealias ReportSink = @Sendable (borrowing AdvertisingReport, ReceiveTime) -> Void

  /// Name for messages and files: `hci0`, or a transport such as `virtual:ring`.
  nonisolated var name: String { get }
  /// The access mode: `raw`, `coexist` or `exclusive`.
  nonisolated var mode: String { get }
  nonisolated var loop: EventLoop { get }
  /// The part that encrypts links and pairs with devices; `nil` if this adapter cannot.
  nonisolated var securing: (any SecuringAdapter)? { get }
  /// Our own host if only this process uses the controller, otherwise `nil`. It permits operations that the
  /// kernel's host does not.
  nonisolated var exclusive: HostAdapter? { get }
  /// The adapter inside all wrappers. Its type determines the features that this protocol does not cover.
  nonisolated var innermost: any Adapter { get }
  /// Number of malformed packets.
  var malformed: Int { get async }
  /// Number of long advertisements that were not received completely.
  var unfinishedReports: Int { get async }

  /// Number of faults in the controller's data that may have lost notifications: malformed packets, data for
  /// unknown links, frames that could not be reassembled, and bytes of a stream between its packets. The
  /// number of lost notifications is unknown.
  var faults: Int { get async }

  /// Number of data packets that the log's writer truncated, if the adapter replays a log.
  var cutFrames: Int { get async }

  /// Starts a scan, which passes each report to `sink` on the receive thread. Only one scan may run at a
  /// time.
  ///
  /// - Throws: `notPermitted`, `scanBusy`, `adapterDown`, or the controller's error.
  func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError)

  /// Turns scanning off and waits for the controller's confirmation. Does nothing if scanning is off.
  func stopScan() async throws(HostError)

  /// Connects the ATT channel of a device and requests link parameters.
  ///
  /// If a parameter is refused, the link still comes up; `Connection.changes` records the refusal.
  ///
  /// - Throws: `noAnswer` after `timeout`, or the error that occurred.
  func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection

  /// Requests other parameters for a link that is up. `Connection.changes` records the outcome.
  func change(_ connection: Connection, to request: LinkRequest) async

  /// Queries the signal strength, and the peer's version and features.
  func facts(of connection: Connection) async throws(HostError) -> LinkFacts

  /// Sets the callback for a failure of the adapter, which replaces an earlier callback. It is called on the
  /// receive thread; at once if the adapter has already failed.
  func onLost(_ body: @escaping @Sendable () -> Void) async

  /// Resolves private addresses to identities with the stored bonds; `nil` if no bond has a resolving key.
  var addressResolver: AddressResolver? { get async }

  /// Pauses receiving while `body` returns `true` because the caller's queues are too full. `body` is called
  /// on the receive thread. Only a packet log can pause; other adapters do nothing.
  func hold(while body: @escaping @Sendable () -> Bool) async

  /// Releases the adapter.
  func close() async
}

extension Adapter {
  public nonisolated var securing: (any SecuringAdapter)? { nil }
  public nonisolated var exclusive: HostAdapter? { nil }
  public nonisolated var innermost: any Adapter { self }

  /// Always 0: the kernel's host receives the controller's data.
  public var faults: Int { 0 }
  public var cutFrames: Int { 0 }

  /// Always 0: the kernel reassembles long advertisements.
  public var unfinishedReports: Int { 0 }

  /// Always `nil`: if the kernel's host keeps the bonds, its controller resolves addresses.
  public var addressResolver: AddressResolver? { nil }

  public func hold(while body: @escaping @Sendable () -> Bool) async {}

  /// Does nothing, for an adapter that cannot detect a failure.
  public func onLost(_ body: @escaping @Sendable () -> Void) async {}
}

/// An adapter that can encrypt links and pair, with our own Security Manager or the kernel's.
public protocol SecuringAdapter: Adapter {
  /// Enables encryption and pairing.
  func secure(_ settings: SecuritySettings) async throws(HostError)

  /// Pairs with a connected device.
  ///
  /// - Returns: The bond, already stored if the settings have a store; `nil` if another program keeps it.
  /// - Throws: `pairing` with the reason.
  func makeBond(with connection: Connection) async throws(HostError) -> Bond?
}

extension SecuringAdapter {
  public nonisolated var securing: (any SecuringAdapter)? { self }
}

extension HostAdapter: SecuringAdapter {
  /// Time that a device needs to store its keys before the link may end. The kernel keeps a link for 2 s
  /// after its last user closes it (HCI_DISCONN_TIMEOUT).
  private static let timeToStore = Duration.milliseconds(500)

  /// Pairs, then waits until the device has received and stored the keys.
  ///
  /// Our keys are the last packets of a pairing. If the link ends before they are sent, the device does not
  /// get them. A response on the same link proves that it has received them. It then needs time to store
  /// them: google/bumble 0.0.236 loses them if the link ends at the same moment as the last key arrives.
  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    let bond = try await pair(connection)
    let first = AttributeHandle(1)
    let request = FindInformationRequest(range: HandleRange(start: first, end: first))
    // An error response proves it too.
    _ = try? await connection.transact([UInt8](encoding: 5) { request.encode(into: &$0) })
    if bond.isBonded { try? await loop.wait(for: Self.timeToStore) }
    return bond
  }
}
