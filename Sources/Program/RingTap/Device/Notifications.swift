public import BLEHost
public import BLEWire

/// One value that a device sent by itself.
public struct DeviceNotification: NotificationSample {
  /// Octets of the longest value of an attribute. Core 5.4, Vol 3, Part F, 3.2.9.
  private static let maximumByteCount = 512

  /// When the kernel had it.
  public let time: ReceiveTime
  private let byteCount: Int
  private let storage: InlineArray<512, UInt8>

  /// Copies a value; of one that is longer than any may be, the start.
  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    self.init(value, at: time)
  }

  init(_ value: Span<UInt8>, at time: ReceiveTime) {
    var storage = InlineArray<512, UInt8>(repeating: 0)
    byteCount = min(value.count, Self.maximumByteCount)
    for index in 0..<byteCount { storage[index] = value[index] }
    self.storage = storage
    self.time = time
  }

  /// The value.
  public var bytes: [UInt8] { (0..<byteCount).map { storage[$0] } }
}

/// The values that a characteristic notifies or indicates, as a sequence: `Device.notifications(of:)`.
///
/// It ends without an error where the task is cancelled, and with `HostError.gatt(.closed)` where the link is lost. The first
/// turn throws where there is no such characteristic, it neither notifies nor indicates, or the device refuses.
///
/// 256 values may wait for the loop; more are dropped, and counted by the iterator's `dropped`. `Device.subscribe` has no
/// queue.
public struct Notifications: AsyncSequence, Sendable {
  /// A value and when the kernel had it.
  public typealias Element = DeviceNotification
  /// How the link was lost, or what the device answers.
  public typealias Failure = HostError

  fileprivate static let capacity = 256

  private let device: Device
  private let characteristic: BluetoothUUID

  init(_ device: Device, _ characteristic: BluetoothUUID) {
    self.device = device
    self.characteristic = characteristic
  }

  /// A subscription of its own; it begins with the first turn.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(device, characteristic) }

  /// One subscription.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let device: Device
    private let characteristic: BluetoothUUID
    private var channel: SampleChannel<DeviceNotification>?

    init(_ device: Device, _ characteristic: BluetoothUUID) {
      self.device = device
      self.characteristic = characteristic
    }

    /// Values that were lost because the loop was too slow.
    public var dropped: Int { channel?.dropped ?? 0 }

    /// The next value; subscribes first.
    public mutating func next() async throws(HostError) -> DeviceNotification? {
      try await next(isolation: #isolation)
    }

    /// The same, for an actor.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(HostError) -> DeviceNotification? {
      if channel == nil {
        channel = try await device.samples(of: characteristic, capacity: Notifications.capacity)
      }
      if let value = await channel?.makeAsyncIterator().next() { return value }
      if case let end? = await device.connection.end, end != .closedLocally { throw .gatt(.closed(end)) }
      return nil
    }
  }
}
