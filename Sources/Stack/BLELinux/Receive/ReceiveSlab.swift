public import BLEWire
import CBluetoothLinux
import Glibc

/// Buffers for the datagrams of one `recvmmsg` call, allocated once and lent in place.
@safe public struct ReceiveSlab: ~Copyable {
  public let slots: Int
  private let slab: OpaquePointer
  /// Number of datagrams in the last batch.
  public private(set) var count = 0

  /// Allocates the buffers.
  ///
  /// - Parameters:
  ///   - slots: maximum number of datagrams per call.
  ///   - slotByteCount: buffer size of a slot; a longer datagram is truncated.
  public init(slots: Int, slotByteCount: Int) throws(SystemError) {
    self.slots = slots
    // SAFETY: the slab is owned only by this value and freed in deinit.
    guard let slab = unsafe ringtap_slab_create(UInt32(slots), UInt32(slotByteCount)) else {
      throw SystemError(call: "calloc", number: ENOMEM)
    }
    unsafe self.slab = unsafe slab
  }

  deinit {
    // SAFETY: see init.
    unsafe ringtap_slab_free(slab)
  }

  /// Receives up to `slots` pending datagrams without blocking.
  ///
  /// `recvmmsg(MSG_DONTWAIT)`.
  ///
  /// - Returns: The number of datagrams; 0 if none is pending.
  public mutating func receive(from descriptor: borrowing FileDescriptor) throws(SystemError) -> Int {
    count = 0
    // SAFETY: the slab is alive as long as `self`.
    let result = unsafe ringtap_slab_receive(slab, descriptor.rawValue)
    if result < 0 {
      let number = lastError()
      if number == EAGAIN || number == EWOULDBLOCK { return 0 }
      precondition(number != EBADF && number != EFAULT, "recvmmsg on a bad descriptor or address")
      throw SystemError(call: "recvmmsg", number: number)
    }
    count = Int(result)
    return count
  }

  /// Number of packets that the socket's receive queue dropped before the last datagram, from SO_RXQ_OVFL.
  /// Valid only if the slab is used with one socket.
  public var drops: Int {
    // SAFETY: the slab is alive as long as `self`.
    unsafe Int(ringtap_slab_overflow(slab))
  }

  /// Returns whether datagram `index` is the end of the channel: it is empty, has no timestamp, and only
  /// empty datagrams follow.
  ///
  /// An empty datagram that the peer sent has a timestamp if the kernel supports timestamps.
  public func isEnd(_ index: Int, of descriptor: borrowing FileDescriptor) -> Bool {
    guard datagram(index).isEmpty, time(index) == nil else { return false }
    for later in index..<count where !datagram(later).isEmpty { return false }
    return descriptor.isAtEnd
  }

  /// Returns the bytes of datagram `index`, in place.
  @_lifetime(borrow self)
  public func datagram(_ index: Int) -> Span<UInt8> {
    precondition(index < count)
    // SAFETY: the slot holds `length` bytes until the next `receive`, which needs exclusive access.
    let bytes = unsafe UnsafeBufferPointer(
      start: ringtap_slab_bytes(slab, UInt32(index)), count: Int(header(index).length))
    return unsafe _overrideLifetime(Span(_unsafeElements: bytes), borrowing: self)
  }

  /// Returns the kernel's receive timestamp, or `nil` if the kernel gave none, as at the end of a connection.
  public func time(_ index: Int) -> ReceiveTime? {
    let time = header(index).time_ns
    return time == 0 ? nil : ReceiveTime(nanoseconds: time)
  }

  /// Returns whether datagram `index` was longer than its slot.
  public func isTruncated(_ index: Int) -> Bool { header(index).truncated != 0 }

  private func header(_ index: Int) -> ringtap_datagram {
    precondition(index < count)
    // SAFETY: slots below `count` were filled by the last `receive`.
    return unsafe ringtap_slab_datagram(slab, UInt32(index)).pointee
  }
}
