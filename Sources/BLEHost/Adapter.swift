public import BLECore
public import BLELinux
public import BLEStack
public import BLEWire

/// From an address on air to the identity of the device behind it, on any thread.
public typealias AddressResolver = @Sendable (DeviceAddress) -> DeviceAddress?

/// A way to the radio: the kernel's adapter beside its host (`KernelAdapter`), or a controller of our own
/// (`HostAdapter`). Scanning and connecting look the same on both.
///
/// What only some can do is asked of `securing`, `exclusive` and `innermost`. An adapter around another one hands these on, so that
/// nothing depends on which type stands outermost.
public protocol Adapter: Actor {
  /// Runs on the receive thread for each advertising report. Must not block; cannot keep the view.
  typealias ReportSink = @Sendable (borrowing AdvertisingReport, ReceiveTime) -> Void

  /// For messages and files: `hci0`, or a transport such as `virtual:ring`.
  nonisolated var name: String { get }
  /// The access mode: `raw` or `exclusive`.
  nonisolated var mode: String { get }
  nonisolated var loop: EventLoop { get }
  /// What encrypts links and pairs with devices; `nil` where nobody does over this adapter.
  nonisolated var securing: (any SecuringAdapter)? { get }
  /// Our own host, where the controller is ours alone: for what the kernel's host does not let through.
  nonisolated var exclusive: HostAdapter? { get }
  /// The one that is around no other: what it is says what else it can.
  nonisolated var innermost: any Adapter { get }
  /// Packets that broke the format.
  var malformed: Int { get async }
  /// Long advertisements that have not come whole.
  var unfinishedReports: Int { get async }

  /// What came from the controller and could not be used, while notifications may have been in it: packets that broke
  /// the format, data of links that are not there, frames that were not put together, octets of a stream between its
  /// packets. How much was lost with it nobody knows.
  var faults: Int { get async }

  /// Data packets that the writer of a log cut, where a log is in the place of the controller.
  var cutFrames: Int { get async }

  /// Starts to scan; each report goes to `sink` on the receive thread. One scan at a time.
  ///
  /// - Throws: `notPermitted`, `scanBusy`, `adapterDown`, or what the controller says.
  func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError)

  /// Switches scanning off and waits for the controller's word for it. Harmless when no scan is on.
  func stopScan() async throws(HostError)

  /// Connects the ATT channel of a device and asks for what is wanted of the link.
  ///
  /// A wish that cannot be fulfilled does not keep the link from coming up: `Connection.changes` tells of it.
  ///
  /// - Throws: `noAnswer` after `timeout`, or why not.
  func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection

  /// Asks a link that is up for something else. `Connection.changes` tells what came of it.
  func change(_ connection: Connection, to request: LinkRequest) async

  /// Asks how the link stands and who is at its other end.
  func facts(of connection: Connection) async throws(HostError) -> LinkFacts

  /// Has `body` called on the receive thread when the adapter works no more; at once where that is so already. One
  /// such body at a time.
  func onLost(_ body: @escaping @Sendable () -> Void) async

  /// Tells who is behind a private address, as far as bonds say; `nil` where no address needs to be asked about.
  var addressResolver: AddressResolver? { get async }

  /// Has nothing received while `body`, called on the receive thread, says that its queues are too full. Only a log
  /// can wait; elsewhere this does nothing.
  func hold(while body: @escaping @Sendable () -> Bool) async

  /// Lets the adapter go.
  func close() async
}

extension Adapter {
  public nonisolated var securing: (any SecuringAdapter)? { nil }
  public nonisolated var exclusive: HostAdapter? { nil }
  public nonisolated var innermost: any Adapter { self }

  /// Where the kernel's host takes what the controller sends, it is the kernel's to count.
  public var faults: Int { 0 }
  public var cutFrames: Int { 0 }

  /// Where the kernel puts them together.
  public var unfinishedReports: Int { 0 }

  /// Where the kernel's host keeps the bonds, its controller resolves addresses before they get here.
  public var addressResolver: AddressResolver? { nil }

  public func hold(while body: @escaping @Sendable () -> Bool) async {}

  /// For an adapter that cannot tell.
  public func onLost(_ body: @escaping @Sendable () -> Void) async {}
}
