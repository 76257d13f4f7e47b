public import BLEStack
public import BLEWire

/// A device that notifies as fast as the link allows, or at a given rate, for measurements.
///
/// The device has one service. The first characteristic (notify) sends from the subscription until the end of
/// the link or of the subscription. The second characteristic (read, write, write without response) stores
/// written values. Format of a sent value, with all numbers little-endian:
///
/// | bytes | content |
/// |---|---|
/// | 0 … 3 | sequence number, from 0 on each link |
/// | 4 … 11 | when it was passed to the link, in nanoseconds of the emulation's clock; only if the value has 12 bytes |
/// | the rest | each byte is the low byte of sequence number plus its position in the value |
///
/// In real time the clock is CLOCK_MONOTONIC. A value that exceeds the MTU is truncated. Nothing is dropped:
/// while the link's queue is full the source waits, so its rate may drop.
public final class EmulatedSource: VirtualPeripheral {
  public struct Configuration: Hashable, Sendable {
    public var name = "ringtap source"
    public var address = DeviceAddress(bits: 0x70CB_0D00_50C0, type: .public)
    public var advertisingInterval = Duration.milliseconds(100)
    /// Number of bytes per value; 4 … 512.
    public var payloadByteCount = 20
    /// Notifications per second; `nil` for as fast as the link allows.
    public var notificationsPerSecond: Double?
    /// Number of notifications on a link after which the source stops; `nil` for no limit.
    public var notificationLimit: Int?

    public init() {}
  }

  public static let service = BluetoothUUID(high: 0x7D1A_0001_6F2B_4C58, low: 0x9A3E_5249_4E47_5441)
  public static let characteristic = BluetoothUUID(high: 0x7D1A_0002_6F2B_4C58, low: 0x9A3E_5249_4E47_5441)
  public static let store = BluetoothUUID(high: 0x7D1A_0003_6F2B_4C58, low: 0x9A3E_5249_4E47_5441)

  public static let payloadByteCounts = 4...512
  /// Minimum size in bytes of a value with a time.
  private static let timedByteCount = 12
  /// Number of notifications to send per millisecond on a link that is never full.
  private static let batch = 16
  private static let batchInterval = Duration.milliseconds(1)

  public let configuration: Configuration
  /// Number of notifications passed to a link, on all links.
  public private(set) var sent = 0
  /// Number of times that a link was full.
  public private(set) var waits = 0

  private let valueHandle: AttributeHandle
  private let table: [GATTServiceDescription]
  private var run: Run?
  private var sequence: UInt32 = 0
  private var value: [UInt8] = []

  private struct Run {
    let start: MonotonicTime
    /// Number of notifications sent in this subscription.
    var sent = 0
    /// Time at which the next notification is due; `nil` while the link is full.
    var next: MonotonicTime?
  }

  /// Creates a source.
  ///
  /// - Precondition: the name fits an advertisement, and the payload and the rate are in their ranges.
  public init(_ configuration: Configuration = Configuration()) {
    precondition(Self.payloadByteCounts.contains(configuration.payloadByteCount))
    precondition(configuration.notificationsPerSecond ?? 1 > 0)
    precondition(configuration.name.utf8.count <= Advertisement.maximumByteCount - 5)
    self.configuration = configuration
    table =
      .genericServices(name: configuration.name) + [
        GATTServiceDescription(
          Self.service,
          characteristics: [
            GATTCharacteristicDescription(Self.characteristic, .notify),
            GATTCharacteristicDescription(
              Self.store, [.read, .write, .writeWithoutResponse], value: [UInt8](repeating: 0, count: 20)),
          ])
      ]
    valueHandle = GATTServerDatabase(table).valueHandle(of: Self.characteristic) ?? .none
  }

  public var services: [GATTServiceDescription] { table }

  public var advertisement: Advertisement? {
    let name = [UInt8](configuration.name.utf8)
    return Advertisement(
      address: configuration.address, interval: configuration.advertisingInterval,
      data: [2, 0x01, 0x06, UInt8(name.count + 1), 0x09] + name)
  }

  // MARK: Link

  public func connected(_ link: PeripheralLink, now: MonotonicTime) { sequence = 0 }

  public func disconnected(now: MonotonicTime) { run = nil }

  public func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {
    guard handle == valueHandle.next else { return }
    if !link.isSubscribed(to: valueHandle) {
      run = nil
    } else if run == nil {
      run = Run(start: now, next: now)
    }
  }

  public func roomAvailable(_ link: PeripheralLink, now: MonotonicTime) {
    guard run != nil, run?.next == nil else { return }
    run?.next = now
    send(link, now: now)
  }

  public var deadline: MonotonicTime? { run?.next }

  public func expired(_ link: PeripheralLink, now: MonotonicTime) { send(link, now: now) }

  // MARK: Values

  private func send(_ link: PeripheralLink, now: MonotonicTime) {
    var batch = 0
    while let next = run?.next, next <= now {
      guard sequence < configuration.notificationLimit ?? .max else {
        run = nil
        return
      }
      encode(now)
      switch link.push(of: valueHandle, value: value.span) {
      case .queued:
        sent += 1
        sequence &+= 1
        run?.sent += 1
        batch += 1
        putOff(batch, now)
      case .full:
        waits += 1
        run?.next = nil
      case .notSubscribed, .awaitsConfirmation: run = nil
      }
    }
  }

  private func putOff(_ batch: Int, _ now: MonotonicTime) {
    guard let run else { return }
    if let rate = configuration.notificationsPerSecond {
      self.run?.next = run.start.advanced(by: .seconds(Double(run.sent) / rate))
    } else if batch >= Self.batch {
      self.run?.next = now.advanced(by: Self.batchInterval)
    }
  }

  private func encode(_ now: MonotonicTime) {
    let count = configuration.payloadByteCount
    value.removeAll(keepingCapacity: true)
    value.append(addingCapacity: count) {
      $0.append(u32: sequence)
      if count >= Self.timedByteCount { $0.append(u64: UInt64(bitPattern: now.nanoseconds)) }
      while $0.count < count { $0.append(UInt8(truncatingIfNeeded: Int(sequence) + $0.count)) }
    }
  }
}
