import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire

/// An emulated device on a real adapter, with one link at a time. Use it on the event loop's thread only.
final class AdapterEmulation: AttributeDevice, @unchecked Sendable {
  // No lock is needed: only the event loop's thread accesses the object.

  private let peripheral: any VirtualPeripheral
  private let loop: EventLoop
  private let address: DeviceAddress
  /// The attribute database after the peripheral's last link.
  private var database: GATTServerDatabase
  private var attributesVersion: Int
  private var link: PeripheralLink?
  private var bearer: ConnectionBearer?
  /// The timer for the peripheral's next deadline.
  private var timer: (due: MonotonicTime, task: Task<Void, Never>)?
  private var awaitsRoom = false

  /// Creates the emulation of a device on an adapter.
  ///
  /// - Parameters:
  ///   - peripheral: the device to emulate.
  ///   - address: the adapter's address, as seen by centrals.
  ///   - loop: the adapter's event loop.
  init(_ peripheral: any VirtualPeripheral, at address: DeviceAddress, on loop: EventLoop) {
    self.peripheral = peripheral
    self.address = address
    self.loop = loop
    database = GATTServerDatabase(peripheral.services)
    attributesVersion = peripheral.attributesVersion
  }

  /// The emulated device.
  var base: any VirtualPeripheral { peripheral.unsecured }

  private var now: MonotonicTime { loop.clock.monotonic() }

  // MARK: Links

  /// Accepts the link of a central. Rejects a second central: the kernel may accept several links even if the
  /// advertisement allows one.
  func connected(_ connection: Connection) -> AttributeResponder.Answer {
    guard link == nil else {
      loop.later(connection) { await $0.close() }
      return { _, _ in [] }
    }
    if attributesVersion != peripheral.attributesVersion {
      database = GATTServerDatabase(peripheral.services)
      attributesVersion = peripheral.attributesVersion
    }
    let bearer = ConnectionBearer(connection, address) { [unowned self] in received($0.span) }
    let link = PeripheralLink(bearer, database: database, receiveMTU: peripheral.receiveMTU)
    (self.bearer, self.link) = (bearer, link)
    peripheral.connected(link, now: now)
    settle()
    return { pdu, _ in
      self.received(pdu)
      return []
    }
  }

  func secured(_ change: LinkSecurityChange) {
    guard change.handle == link?.handle else { return }
    link?.security = change.security
  }

  func disconnected(_ connection: Connection) {
    guard bearer?.connection === connection, let link else { return }
    database = link.database
    (self.bearer, self.link) = (nil, nil)
    peripheral.disconnected(now: now)
    settle()
  }

  private func received(_ pdu: Span<UInt8>) {
    guard let link else { return }
    let written = link.receive(att: pdu) { handle, value in peripheral.check(write: value, to: handle) }
    for handle in written { peripheral.written(handle, link: link, now: now) }
    settle()
  }

  /// Performs the pending requests of the peripheral.
  private func settle() {
    if let link, let bearer {
      if link.takeEndReason() != nil { loop.later(bearer.connection) { await $0.close() } }
      if link.isFull, !awaitsRoom { waitForRoom(bearer.connection) }
    }
    let due = link == nil ? nil : peripheral.deadline
    guard due != timer?.due else { return }
    timer?.task.cancel()
    timer = nil
    guard let due, let connection = bearer?.connection else { return }
    let task = loop.after(max(.zero, now.duration(to: due))) {
      self.loop.later(connection) { _ in self.expire(due) }
    }
    timer = (due, task)
  }

  private func expire(_ due: MonotonicTime) {
    guard let link, timer?.due == due else { return }
    timer = nil
    peripheral.expired(link, now: now)
    settle()
  }

  private func waitForRoom(_ connection: Connection) {
    awaitsRoom = true
    loop.later(connection) {
      let hasRoom = (try? await $0.room()) != nil
      self.awaitsRoom = false
      guard hasRoom, self.bearer?.connection === connection, let link = self.link else { return }
      link.isFull = false
      self.peripheral.roomAvailable(link, now: self.now)
      self.settle()
    }
  }
}

/// Connects an emulated peripheral to a link of an adapter. Forwards only the ATT PDUs among the peripheral's
/// frames.
///
/// The adapter's host performs pairing and sets the link parameters. The peripheral's own requests for these
/// are ignored.
private final class ConnectionBearer: PeripheralBearer, @unchecked Sendable {
  // No lock is needed: only the event loop's thread accesses the object.

  let connection: Connection
  let address: DeviceAddress
  /// A closure that receives the responses to the peripheral's own requests.
  private let answered: ([UInt8]) -> Void

  init(_ connection: Connection, _ address: DeviceAddress, answered: @escaping ([UInt8]) -> Void) {
    self.connection = connection
    self.address = address
    self.answered = answered
  }

  var handle: ConnectionHandle { connection.handle }
  var peer: DeviceAddress { connection.peer }
  var parameters: LinkParameters? { connection.assumeIsolated { $0.link.timing } }
  var now: MonotonicTime { connection.loop.clock.monotonic() }
  var hasRoom: Bool { connection.assumeIsolated { $0.outbox.isEmpty } }
  /// Always false, because the connection ends by itself if the central stops reading.
  var isOverfull: Bool { false }

  func send(frame: Span<UInt8>) {
    guard let parts = try? L2CAPFrame(validating: frame), parts.channelID == ATT.channelID else { return }
    let pdu = [UInt8](encoding: parts.payload.count) { $0.append(parts.payload) }
    guard ATTOpcode(rawValue: pdu[0]).kind == .request else {
      return connection.assumeIsolated { $0.transmit(pdu) }
    }
    // The connection sends the request and returns the response.
    connection.loop.later(connection) { connection in
      guard let answer = try? await connection.transact(pdu) else { return }
      self.answered(answer)
    }
  }
}
