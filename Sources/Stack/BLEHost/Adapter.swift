public import BLELinux
public import BLEStack
public import BLEWire

/// Maps an on-air address to the identity of the device behind it. Callable on any thread.
public typealias AddressResolver = @Sendable (DeviceAddress) -> DeviceAddress?

/// Access to the radio: a kernel adapter shared with the kernel's host (`KernelAdapter`), or a controller of
/// our own (`HostAdapter`). Both scan and connect through the same interface.
///
/// Use `securing`, `exclusive` and `innermost` for features that only some adapters have. An adapter that
/// wraps another forwards them, so that callers do not depend on the outermost type.
public protocol Adapter: Actor {
  /// Called on the receive thread for each advertising report. Must not block or keep the view.
  typealias ReportSink = @Sendable (borrowing AdvertisingReport, ReceiveTime) -> Void

  /// Name for messages and files: `hci0`, or a transport such as `virtual:ring`.
  nonisolated var name: String { get }
  /// The access mode: `raw`, `coexist` or `exclusive`.
  nonisolated var mode: String { get }
  nonisolated var loop: EventLoop { get }
  /// Encrypts links and pairs with devices; `nil` if this adapter cannot.
  nonisolated var securing: (any SecuringAdapter)? { get }
  /// Our own host, if the controller is used by this process alone: for operations that the kernel's host
  /// does not permit.
  nonisolated var exclusive: HostAdapter? { get }
  /// The adapter that wraps no other. Its type determines what else it can do.
  nonisolated var innermost: any Adapter { get }
  /// Number of malformed packets.
  var malformed: Int { get async }
  /// Number of long advertisements that did not arrive completely.
  var unfinishedReports: Int { get async }

  /// Number of faults in the data from the controller that may have cost notifications: malformed packets,
  /// data for unknown links, frames that were not reassembled, and bytes of a stream between its packets. How
  /// many notifications were lost is unknown.
  var faults: Int { get async }

  /// Number of data packets that a log's writer truncated, if the adapter replays a log.
  var cutFrames: Int { get async }

  /// Starts a scan; each report goes to `sink` on the receive thread. One scan at a time.
  ///
  /// - Throws: `notPermitted`, `scanBusy`, `adapterDown`, or the controller's error.
  func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError)

  /// Turns scanning off and waits for the controller's confirmation. Does nothing if no scan is on.
  func stopScan() async throws(HostError)

  /// Connects the ATT channel of a device and requests link parameters.
  ///
  /// A refused parameter does not prevent the link; `Connection.changes` records it.
  ///
  /// - Throws: `noAnswer` after `timeout`, or the error.
  func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection

  /// Requests other parameters for a link that is up. `Connection.changes` records the result.
  func change(_ connection: Connection, to request: LinkRequest) async

  /// Queries signal strength, and version and features of the peer.
  func facts(of connection: Connection) async throws(HostError) -> LinkFacts

  /// Calls `body` on the receive thread when the adapter has failed, or at once if it already has. A new
  /// callback replaces the earlier one.
  func onLost(_ body: @escaping @Sendable () -> Void) async

  /// Resolves a private address to an identity by means of the bonds; `nil` if no address needs resolving.
  var addressResolver: AddressResolver? { get async }

  /// Pauses receiving while `body`, called on the receive thread, reports that the caller's queues are too
  /// full. Only a packet log can pause; other adapters do nothing.
  func hold(while body: @escaping @Sendable () -> Bool) async

  /// Releases the adapter.
  func close() async
}

extension Adapter {
  public nonisolated var securing: (any SecuringAdapter)? { nil }
  public nonisolated var exclusive: HostAdapter? { nil }
  public nonisolated var innermost: any Adapter { self }

  /// The kernel's host receives the controller's data and counts its faults.
  public var faults: Int { 0 }
  public var cutFrames: Int { 0 }

  /// Always 0: the kernel reassembles long advertisements.
  public var unfinishedReports: Int { 0 }

  /// If the kernel's host keeps the bonds, its controller resolves addresses.
  public var addressResolver: AddressResolver? { nil }

  public func hold(while body: @escaping @Sendable () -> Bool) async {}

  /// For an adapter that cannot detect a failure.
  public func onLost(_ body: @escaping @Sendable () -> Void) async {}
}
