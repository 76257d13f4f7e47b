public import BLEStack
public import BLEWire

/// What a peripheral sends while nobody is connected to it. Core 5.4, Vol 6, Part B, 4.4.2.
public struct Advertisement: Hashable, Sendable {
  public typealias Kind = AdvertisingKind

  /// 31 octets, of the data and of the scan response. Core 5.4, Vol 3, Part C, 11.
  public static let maximumByteCount = 31

  public var address: DeviceAddress
  public var kind: Kind
  /// From one advertisement to the next.
  public var interval: Duration
  public var data: [UInt8]
  /// What an active scanner gets besides; empty for none.
  public var scanResponse: [UInt8]
  /// As the scanner shall see it, in dBm.
  public var rssi: Int8

  /// - Precondition: data and scan response have at most 31 octets each.
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

/// A device behind a `VirtualController`: what it advertises, its attributes, and how it behaves.
///
/// All calls come from the controller, with the time passed in. Send through the `PeripheralLink`.
public protocol VirtualPeripheral: AnyObject {
  /// `nil` while it does not advertise. Not asked while a central is connected.
  var advertisement: Advertisement? { get }
  /// When it stops to advertise, until its next link; `nil` for never.
  var advertisingEnd: MonotonicTime? { get }
  /// Its attributes; asked when the controller is made, and when a central connects after `attributesVersion` has changed.
  var services: [GATTServiceDescription] { get }
  var attributesVersion: Int { get }
  /// How it pairs; `nil`: not at all.
  var security: PeripheralSecurity? { get }
  /// The longest ATT PDU that it takes: 23 … 517.
  var receiveMTU: Int { get }

  /// A central connected. The link is good until `disconnected`.
  func connected(_ link: PeripheralLink, now: MonotonicTime)
  func disconnected(now: MonotonicTime)

  /// Asked before a write is stored: an error code refuses it.
  func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode?
  /// A write was stored, and answered if it was a request. A CCCD is reported too, with its own handle.
  func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime)

  /// The link that refused a push as `.full` takes more again.
  func roomAvailable(_ link: PeripheralLink, now: MonotonicTime)

  /// When `expired` is wanted, which must put it off; only asked while connected.
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
