public import BLECore
public import BLESystem
public import BLEWire
import Synchronization

/// Copies every PDU of an ATT bearer into a ring that a log writer drains.
public final class PacketTap: Sendable {
  /// What the writer needs beside a PDU's octets and time.
  public struct Tag: Hashable, Sendable, BitwiseCopyable {
    public let direction: HCIDirection
    public let handle: ConnectionHandle

    init(_ direction: HCIDirection, _ handle: ConnectionHandle) {
      self.direction = direction
      self.handle = handle
    }

    public init(_ raw: UInt32) {
      direction = raw & 1 == 0 ? .hostToController : .controllerToHost
      handle = ConnectionHandle(UInt16(truncatingIfNeeded: raw >> 16))
    }

    var raw: UInt32 { UInt32(handle.rawValue) << 16 | UInt32(direction.rawValue) }
  }

  private let ring: RecordRing
  private let isOpen = Atomic<Bool>(true)

  public init(_ ring: RecordRing) { self.ring = ring }

  /// Ends the log: nothing more is taken.
  public func close() { isOpen.store(false, ordering: .relaxed) }

  /// A full ring drops the record and counts it. Receive thread only.
  func log(
    _ direction: HCIDirection, _ handle: ConnectionHandle, _ pdu: Span<UInt8>, at time: ReceiveTime
  ) {
    guard isOpen.load(ordering: .relaxed) else { return }
    ring.push(tag: Tag(direction, handle).raw, time: time, pdu)
  }
}
