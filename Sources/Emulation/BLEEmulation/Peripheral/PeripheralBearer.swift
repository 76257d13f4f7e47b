package import BLEWire

/// The bearer of a `PeripheralLink`'s frames: its end of a link in the virtual air, or a link of a real
/// adapter.
package protocol PeripheralBearer: AnyObject {
  var handle: ConnectionHandle { get }
  /// The peripheral's address on this link.
  var address: DeviceAddress { get }
  /// The central's address.
  var peer: DeviceAddress { get }
  /// Parameters in force; `nil` if unknown.
  var parameters: LinkParameters? { get }
  var now: MonotonicTime { get }
  /// Whether more values may be sent.
  var hasRoom: Bool { get }
  /// Whether too many responses are queued because the central does not read them. No more may then be added.
  var isOverfull: Bool { get }

  /// Sends one L2CAP frame including its header.
  func send(frame: Span<UInt8>)
}

extension LinkEnd: PeripheralBearer {
  var parameters: LinkParameters? { link?.parameters }
  var now: MonotonicTime { link?.air.now ?? MonotonicTime(nanoseconds: 0) }
  /// Whether too many responses are queued, so that no more may be added.
  var isOverfull: Bool { link?.isOverfull(end: self) ?? false }

  func send(frame: Span<UInt8>) { send(frame, .firstFlushable) }
}
