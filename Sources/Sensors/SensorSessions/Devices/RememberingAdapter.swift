public import BLEHost
public import BLELinux
public import BLEStack
public import BLEWire
import Synchronization

/// An adapter that stores each device whose attributes are discovered through it, with the name from a scan.
///
/// It is a decorator, so callers need no changes. Files are written by a task and never on the loop's thread:
/// a slow disk delays only `close`.
public actor RememberingAdapter: Adapter {
  private let base: any Adapter
  private let journal: DeviceJournal

  public nonisolated var name: String { base.name }
  public nonisolated var mode: String { base.mode }
  public nonisolated var loop: EventLoop { base.loop }
  public nonisolated var securing: (any SecuringAdapter)? { base.securing }
  public nonisolated var exclusive: HostAdapter? { base.exclusive }
  public nonisolated var innermost: any Adapter { base.innermost }
  public nonisolated var unownedExecutor: UnownedSerialExecutor { base.loop.executor }

  /// - Parameters:
  ///   - base: the adapter that scans and connects.
  ///   - devices: storage for the devices.
  ///   - warn: called with a line if a device cannot be stored.
  public init(
    _ base: any Adapter, _ devices: KnownDevices, warn: @escaping @Sendable (String) -> Void
  ) {
    self.base = base
    journal = DeviceJournal(devices, warn)
  }

  public var malformed: Int { get async { await base.malformed } }
  public var faults: Int { get async { await base.faults } }
  public var unfinishedReports: Int { get async { await base.unfinishedReports } }
  public var addressResolver: AddressResolver? { get async { await base.addressResolver } }

  public func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    let journal = journal
    try await base.startScan(kind, timing: timing, duplicates: duplicates) { report, time in
      journal.learn(report)
      sink(report, time)
    }
  }

  public func stopScan() async throws(HostError) { try await base.stopScan() }

  public func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let (journal, clock) = (journal, base.loop.clock)
    let known = await clock.standing { await journal.device(at: peer) }
    var (request, avoidance) = (request, LinkAvoidance())
    let suspects = known?.avoided(at: clock.now()) ?? []
    avoidance.recall(suspects)
    avoidance.change(&request)
    let connection = try await base.connect(to: peer, asking: request, timeout: timeout, tap: tap)
    if let known {
      // If the name differs, the attributes belong to another device or to other firmware.
      let isOther = known.isNamedOtherwise(journal.name(of: peer))
      await connection.recall(
        isOther ? nil : known.discovery, firmware: known.firmwareRevision, not: suspects)
      journal.rename(peer, known.discovery, at: clock.now())
    }
    await connection.whenDiscovered { journal.remember(peer, $0, at: clock.now()) }
    await connection.whenBlamed { suspect in
      journal.write(peer) { devices throws(SystemError) in
        try devices.remember(peer, at: clock.now(), endedAt: suspect)
      }
    }
    await connection.whenFirmwareTold { revision in
      journal.write(peer) { devices throws(SystemError) in
        try devices.remember(peer, firmwareRevision: revision)
      }
    }
    return connection
  }

  public func change(_ connection: Connection, to request: LinkRequest) async {
    await base.change(connection, to: request)
  }

  public func facts(of connection: Connection) async throws(HostError) -> LinkFacts {
    try await base.facts(of: connection)
  }

  public func onLost(_ body: @escaping @Sendable () -> Void) async { await base.onLost(body) }

  public func hold(while body: @escaping @Sendable () -> Bool) async { await base.hold(while: body) }

  /// Closes the adapter, and returns when everything is written.
  public func close() async {
    await base.close()
    await journal.finish()
  }
}

/// Queue of information that a `RememberingAdapter` received and must still write. It does not retain the
/// adapter, because connections retain the queue.
private final class DeviceJournal: Sendable {
  static let names = Limit(
    4_096, "names of advertisers, for when one is connected", by: .air,
    whenFull: "the one heard longest ago is dropped",
    counted: "a message, when a device is stored without its name")

  private let devices: KnownDevices
  private let warn: @Sendable (String) -> Void
  private let names = Mutex(RecentTable<DeviceAddress, String>(limit: names.count))
  /// The last of the writing tasks; each waits for the previous one.
  private let writing = Mutex<Task<Void, Never>?>(nil)

  init(_ devices: KnownDevices, _ warn: @escaping @Sendable (String) -> Void) {
    self.devices = devices
    self.warn = warn
  }

  /// Stores the name in an advertising report. Call on the receive thread.
  func learn(_ report: borrowing AdvertisingReport) {
    guard let (name, isComplete) = report.name(), !name.isEmpty else { return }
    let address = report.address
    names.withLock { names in
      names.use(address, first: name) { if isComplete { $0 = name } }
    }
  }

  /// Returns the contents of a device's file after all pending writes. The read runs in a separate task,
  /// because it may wait for the disk.
  func device(at peer: DeviceAddress) async -> KnownDevice? {
    await finish()
    return await Task.detached { [devices] in devices.device(at: peer) }.value
  }

  /// The name from the last scan.
  func name(of peer: DeviceAddress) -> String? { names.withLock { $0[peer] } }

  /// Stores the name from a scan for a known device, even if the link is short.
  func rename(_ peer: DeviceAddress, _ discovery: GATTDiscoveryResult, at time: ReceiveTime) {
    if names.withLock({ $0[peer] }) != nil { remember(peer, discovery, at: time) }
  }

  /// Queues the discovered attributes of a device for writing. Call on the receive thread.
  func remember(_ peer: DeviceAddress, _ discovery: GATTDiscoveryResult, at time: ReceiveTime) {
    let (name, forgotten) = names.withLock { ($0[peer], $0.forgotten) }
    if name == nil, forgotten > 0 {
      warn(
        "\(peer) is stored without its name: \(forgotten) names were dropped, because too many devices "
          + "advertised")
    }
    write(peer) { devices throws(SystemError) in
      try devices.remember(peer, name: name, at: time, discovery)
    }
  }

  /// Queues a write behind the previous ones. Call on the receive thread.
  func write(
    _ peer: DeviceAddress, _ body: @escaping @Sendable (KnownDevices) throws(SystemError) -> Void
  ) {
    let (devices, warn) = (devices, warn)
    writing.withLock { writing in
      let previous = writing
      writing = Task {
        await previous?.value
        do throws(SystemError) { try body(devices) } catch {
          warn("cannot store \(peer): \(error)")
        }
      }
    }
  }

  /// Waits until everything is written.
  func finish() async { await writing.withLock { $0 }?.value }
}
