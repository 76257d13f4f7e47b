public import BLEHost
public import BLELinux
import BLEStack
public import BLEWire
import Synchronization

/// Stores each device whose attributes an adapter discovers, with the name from a scan: a hook for the
/// adapter.
///
/// Files are written by a task and never on the loop's thread: a slow disk delays only `Adapter.close`.
public final class DeviceJournal: AdapterHook {
  static let names = Limit(
    4_096, "names of advertisers, for when one is connected", by: .air,
    whenFull: "the one heard longest ago is dropped",
    counted: "a message, when a device is stored without its name")

  private let devices: KnownDevices
  private let warn: @Sendable (String) -> Void
  private let names = Mutex(RecentTable<DeviceAddress, String>(limit: names.count))
  /// The last write task. Each task waits for the previous task.
  private let writing = Mutex<Task<Void, Never>?>(nil)

  /// - Parameters:
  ///   - devices: storage for the devices.
  ///   - warn: called with a line if a device cannot be stored.
  public init(_ devices: KnownDevices, warn: @escaping @Sendable (String) -> Void) {
    self.devices = devices
    self.warn = warn
  }

  public func observe(_ sink: @escaping Adapter.ReportSink) -> Adapter.ReportSink {
    { report, time in
      self.learn(report)
      sink(report, time)
    }
  }

  public func connect(
    to peer: DeviceAddress, asking request: LinkRequest, on loop: EventLoop,
    _ link: (LinkRequest) async throws(HostError) -> Connection
  ) async throws(HostError) -> Connection {
    let clock = loop.clock
    let known = await clock.standing { await device(at: peer) }
    var (request, avoidance) = (request, LinkAvoidance())
    let suspects = known?.avoided(at: clock.now()) ?? []
    avoidance.recall(suspects)
    avoidance.change(&request)
    let connection = try await link(request)
    if let known {
      // If the name differs, the stored attributes belong to another device or to other firmware.
      let isOther = known.isNamedOtherwise(name(of: peer))
      await connection.recall(
        isOther ? nil : known.discovery, firmware: known.firmwareRevision, not: suspects)
      rename(peer, known.discovery, at: clock.now())
    }
    await connection.whenDiscovered { self.remember(peer, $0, at: clock.now()) }
    await connection.whenBlamed { suspect in
      self.write(peer) { devices throws(SystemError) in
        try devices.remember(peer, at: clock.now(), endedAt: suspect)
      }
    }
    await connection.whenFirmwareTold { revision in
      self.write(peer) { devices throws(SystemError) in
        try devices.remember(peer, firmwareRevision: revision)
      }
    }
    return connection
  }

  /// Returns when everything is written.
  public func closed() async { await finish() }

  /// Stores the name in an advertising report. Call on the receive thread.
  private func learn(_ report: borrowing AdvertisingReport) {
    guard let (name, isComplete) = report.name(), !name.isEmpty else { return }
    let address = report.address
    names.withLock { names in
      names.use(address, first: name) { if isComplete { $0 = name } }
    }
  }

  /// Returns the contents of a device's file after all pending writes. The read runs in a separate task,
  /// because it may wait for the disk.
  private func device(at peer: DeviceAddress) async -> KnownDevice? {
    await finish()
    return await Task.detached { [devices] in devices.device(at: peer) }.value
  }

  /// Returns the device's name from the last scan.
  private func name(of peer: DeviceAddress) -> String? { names.withLock { $0[peer] } }

  /// Stores the name from a scan for a known device, even if the link is short.
  private func rename(_ peer: DeviceAddress, _ discovery: GATTDiscoveryResult, at time: ReceiveTime) {
    if names.withLock({ $0[peer] }) != nil { remember(peer, discovery, at: time) }
  }

  /// Queues the discovered attributes of a device for writing. Call on the receive thread.
  private func remember(_ peer: DeviceAddress, _ discovery: GATTDiscoveryResult, at time: ReceiveTime) {
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
  private func write(
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

  /// Waits until all queued information is written.
  private func finish() async { await writing.withLock { $0 }?.value }
}
