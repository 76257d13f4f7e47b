public import BLEStack
public import BLEWire

/// The advertisement of a peripheral without a link. Core 5.4, Vol 6, Part B, 4.4.2.
public struct Advertisement: Hashable, Sendable {
  public typealias Kind = AdvertisingKind

  /// Maximum size of the data and of the scan response, in bytes. Core 5.4, Vol 3, Part C, 11.
  public static let maximumByteCount = 31

  public var address: DeviceAddress
  public var kind: Kind
  /// Time between advertisements.
  public var interval: Duration
  public var data: [UInt8]
  /// Response to active scanners; empty for no response.
  public var scanResponse: [UInt8]
  /// Signal strength that scanners report, in dBm.
  public var rssi: Int8

  /// Creates an advertisement.
  ///
  /// - Precondition: data and scan response have at most 31 bytes each.
  public init(
    address: DeviceAddress, kind: Kind = .connectable, interval: Duration = .milliseconds(100),
    data: [UInt8], scanResponse: [UInt8] = [], rssi: Int8 = -55
  ) {
    precondition(data.count <= Self.maximumByteCount && scanResponse.count <= Self.maximumByteCount)
    precondition(interval > .zero)
    self.address = address
    self.kind = kind
    self.interval = interval
    self.data = data
    self.scanResponse = scanResponse
    self.rssi = rssi
  }
}

/// An emulated device behind a `VirtualController`: its advertisement, attributes and behaviour.
///
/// The controller calls all methods and passes the time. Values are sent with the `PeripheralLink`.
public protocol VirtualPeripheral: AnyObject {
  /// The advertisement; `nil` while the device does not advertise. Not read while a central is connected.
  var advertisement: Advertisement? { get }
  /// Time at which the device stops advertising until its next link; `nil` for never.
  var advertisingEnd: MonotonicTime? { get }
  /// The attributes. Read when the controller is created, and when a central connects after
  /// `attributesVersion` has changed.
  var services: [GATTServiceDescription] { get }
  var attributesVersion: Int { get }
  /// Pairing configuration and bonds; `nil` if the device does not pair.
  var security: PeripheralSecurity? { get }
  /// Maximum size of a received ATT PDU in bytes; 23 … 517.
  var receiveMTU: Int { get }

  /// Called when a central has connected. The link is valid until `disconnected`.
  func connected(_ link: PeripheralLink, now: MonotonicTime)
  func disconnected(now: MonotonicTime)

  /// Called before a write is stored. Returns an error code to refuse it.
  func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode?
  /// Called after a write was stored and, if it was a request, answered. Also called for writes to a CCCD,
  /// with the handle of the CCCD.
  func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime)

  /// Called when a link whose queue was full has room again.
  func roomAvailable(_ link: PeripheralLink, now: MonotonicTime)

  /// Next time to call `expired`, which must set a later time. Read only while a central is connected.
  var deadline: MonotonicTime? { get }
  func expired(_ link: PeripheralLink, now: MonotonicTime)
}

extension VirtualPeripheral {
  public var advertisingEnd: MonotonicTime? { nil }
  public var attributesVersion: Int { 0 }
  public var security: PeripheralSecurity? { nil }
  public var receiveMTU: Int { ATT.maximumMTU }
  public func connected(_ link: PeripheralLink, now: MonotonicTime) {}
  public func disconnected(now: MonotonicTime) {}
  public func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode? { nil }
  public func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {}
  public func roomAvailable(_ link: PeripheralLink, now: MonotonicTime) {}
  public var deadline: MonotonicTime? { nil }
  public func expired(_ link: PeripheralLink, now: MonotonicTime) {}
}
