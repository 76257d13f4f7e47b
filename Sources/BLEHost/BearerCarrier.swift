import BLECore
import BLESystem

/// What carries the PDUs of one ATT bearer: the kernel's L2CAP socket, or a link of our own host.
///
/// Lives on the event loop's thread and calls its connection there.
protocol BearerCarrier: AnyObject, Sendable {
  /// Hands one PDU on.
  ///
  /// - Throws: `wouldBlock` where there is no room; the connection is told by `carrierWritable` when there is.
  func send(_ pdu: Span<UInt8>) throws(SystemError)
  /// Ends the channel. No upcall comes after it.
  func close()
  /// PDUs that the kernel dropped so far because its queue was full.
  var kernelQueueDrops: Int { get }
  /// The kernel's receive queue in octets of kernel memory; 0 where there is none of the bearer's own.
  var receiveBufferByteCount: Int { get }
}
