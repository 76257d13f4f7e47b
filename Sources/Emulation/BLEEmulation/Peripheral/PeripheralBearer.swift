package import BLEWire

/// What carries the frames of a `PeripheralLink`: its end of a link in the virtual air, or a link of a real adapter.
package protocol PeripheralBearer: AnyObject {
  var handle: ConnectionHandle { get }
  /// Under which the peripheral is connected.
  var address: DeviceAddress { get }
  /// The central.
  var peer: DeviceAddress { get }
  /// In force now; `nil` where nobody knows.
  var parameters: LinkParameters? { get }
  var now: MonotonicTime { get }
  /// Whether more values may be pushed.
  var hasRoom: Bool { get }
  /// Answers wait that nobody takes: no more of them.
  var isOverfull: Bool { get }

  /// Takes one L2CAP frame with its header.
  func send(frame: Span<UInt8>)
}

extension LinkEnd: PeripheralBearer {
  var parameters: LinkParameters? { link?.parameters }
  var now: MonotonicTime { link?.air.now ?? MonotonicTime(nanoseconds: 0) }
  /// Answers too would grow without limit.
  var isOverfull: Bool { link?.isOverfull(end: self) ?? false }

  func send(frame: Span<UInt8>) { send(frame, .firstFlushable) }
}
