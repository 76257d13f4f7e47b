public import BLELinux
public import BLEWire
import Synchronization

/// Copies every PDU of an ATT bearer into a ring buffer that a log writer drains. Adds events for the start
/// and end of the link.
public final class PacketTap: Sendable {
  /// Type of a record.
  public enum Content: UInt8, Hashable, Sendable, BitwiseCopyable {
    /// An ATT PDU.
    case attribute
    /// An HCI event for the start or end of a link, without its H4 type byte. Successive links of a log may
    /// share a handle.
    case event
  }

  /// Metadata of a record, in addition to its bytes and time.
  public struct Tag: Hashable, Sendable, BitwiseCopyable {
    public let content: Content
    public let direction: HCIDirection
    public let handle: ConnectionHandle

    init(_ direction: HCIDirection, _ handle: ConnectionHandle, _ content: Content = .attribute) {
      self.content = content
      self.direction = direction
      self.handle = handle
    }

    public init(_ raw: UInt32) {
      content = raw & 2 == 0 ? .attribute : .event
      direction = raw & 1 == 0 ? .hostToController : .controllerToHost
      handle = ConnectionHandle(UInt16(truncatingIfNeeded: raw >> 16))
    }

    var raw: UInt32 {
      UInt32(handle.rawValue) << 16 | UInt32(content.rawValue) << 1 | UInt32(direction.rawValue)
    }
  }

  private let ring: PacketQueue
  private let isOpen = Atomic<Bool>(true)

  public init(_ ring: PacketQueue) { self.ring = ring }

  /// Closes the log. Later records are ignored.
  public func close() { isOpen.store(false, ordering: .relaxed) }

  /// Logs a PDU. If the ring is full, the record is dropped and counted. Receive thread only.
  func log(
    _ direction: HCIDirection, _ handle: ConnectionHandle, _ pdu: Span<UInt8>, at time: ReceiveTime
  ) {
    guard isOpen.load(ordering: .relaxed) else { return }
    ring.push(tag: Tag(direction, handle).raw, time: time, pdu)
  }

  /// Logs an event. Accepts an array, because events are rare: one per start or end of a link.
  func log(event: [UInt8], _ handle: ConnectionHandle, at time: ReceiveTime) {
    guard isOpen.load(ordering: .relaxed) else { return }
    ring.push(tag: Tag(.controllerToHost, handle, .event).raw, time: time, event.span)
  }

  /// Returns an LE Connection Complete event, which identifies the peer of the PDUs that follow. Wireshark
  /// marks a link's packets as erroneous if this event is missing. Core 5.4, Vol 4, Part E, 7.7.65.1.
  ///
  /// - Parameter timing: `nil` if the kernel does not report the timing. Interval, latency and timeout are
  ///   then 0.
  package static func start(
    of handle: ConnectionHandle, _ peer: DeviceAddress, _ role: LEConnectionComplete.Role,
    _ timing: LinkParameters?
  ) -> [UInt8] {
    return LEConnectionComplete(handle: handle, role: role, peer: peer, parameters: timing ?? .untold).event
  }

  /// Returns a Disconnection Complete event. Core 5.4, Vol 4, Part E, 7.7.5.
  static func end(of handle: ConnectionHandle, _ reason: HCIStatus) -> [UInt8] {
    DisconnectionComplete(status: .success, handle: handle, reason: reason).event
  }
}
