/// The time at which the kernel received a packet from the driver: nanoseconds since the Unix epoch,
/// CLOCK_REALTIME.
///
/// Later than the transmission: USB adds up to one poll interval, a UART its transfer time (reference
/// `linux-bluetooth-kernel.md`, 10).
public struct ReceiveTime: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  @inlinable public static func < (a: ReceiveTime, b: ReceiveTime) -> Bool {
    a.nanoseconds < b.nanoseconds
  }
}
