public import BLEHost
public import BLEWire

/// A value that a device notified or indicated.
public struct DeviceNotification: NotificationSample {
  /// Maximum length of an attribute's value in bytes. Core 5.4, Vol 3, Part F, 3.2.9.
  private static let maximumByteCount = 512

  /// Time at which the kernel received the value.
  public let time: ReceiveTime
  private let byteCount: Int
  private let storage: InlineArray<512, UInt8>

  /// Copies a value. Truncates a value that exceeds the maximum.
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
/// The first iteration throws if the device has no such characteristic, if the characteristic neither
/// notifies nor indicates, or if the device rejects the subscription. The sequence throws
/// `HostError.gatt(.closed)` if the link is lost, and ends without an error if the task is cancelled.
///
/// The queue holds up to 256 values for the loop. If it is full, further values are dropped and counted by
/// the iterator's `dropped`. `Device.subscribe` has no queue.
public struct Notifications: AsyncSequence, Sendable {
  /// A value and its kernel receive time.
  public typealias Element = DeviceNotification
  /// The reason for the lost link, or the device's error.
  public typealias Failure = HostError

  fileprivate static let capacity = 256

  private let device: Device
  private let characteristic: BluetoothUUID

  init(_ device: Device, _ characteristic: BluetoothUUID) {
    self.device = device
    self.characteristic = characteristic
  }

  /// Creates an independent subscription, which starts with the first iteration.
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

    /// Number of values dropped because the loop was too slow.
    public var dropped: Int { channel?.dropped ?? 0 }

    /// Returns the next value; the first call subscribes.
    public mutating func next() async throws(HostError) -> DeviceNotification? {
      try await next(isolation: #isolation)
    }

    /// Returns the next value, on an actor.
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
