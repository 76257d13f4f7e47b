public import BLEStack
public import BLEWire

/// A sensor that measures at a constant rate and sends each value to subscribed centrals: strap, thermometer,
/// CORE, Polar.
///
/// Ticks start with the first subscription on a link; the first value is sent one interval later. Values
/// without a subscription are neither sent nor counted. Notifications that do not fit into the link's queue
/// are dropped and counted. Up to `maximumWaiting` indications wait for the confirmation of earlier
/// indications.
public final class EmulatedSensor: VirtualPeripheral {
  public struct Configuration: Hashable, Sendable {
    public var advertisingInterval = Duration.milliseconds(100)
    /// Ticks per second. A real sensor has 1.
    public var ticksPerSecond = 1.0
    /// Number of measured values on a link after which the sensor stops; `nil` for no limit.
    public var valueLimit: Int?
    /// Number of measured values on a link after which the link is lost (Connection Timeout); `nil` for
    /// never.
    public var disconnectAfter: Int?
    /// Number of measured values on a link from one malformed value to the next; `nil` for none. A malformed
    /// value is shorter than its flags announce.
    public var malformedEvery: Int?
    /// Number of ticks from one off-body tick to the next; `nil` for none.
    public var offBodyEvery: Int?
    /// Relation between the sensor's clock and its wearer's time.
    public var body = BodyTime()

    public init() {}
  }

  /// Maximum number of values queued for indication.
  static let maximumWaiting = 64
  /// Maximum number of ticks to catch up at once after a pause of the host's clock.
  static let maximumTicksAtOnce = 4096
  /// Interval at which an indication is retried, because the controller does not report confirmations.
  private static let retryInterval = Duration.milliseconds(5)

  public let configuration: Configuration
  public private(set) var model: any SensorModel
  /// Number of measured values sent on all links.
  public private(set) var sent = 0
  /// Number of sent values that were deliberately malformed.
  public private(set) var sentMalformed = 0
  /// Number of values dropped because the queue was full, on all links.
  public private(set) var dropped = 0

  private let table: [GATTServiceDescription]
  private var handles: [BluetoothUUID: AttributeHandle] = [:]
  private var characteristics: [AttributeHandle: BluetoothUUID] = [:]
  private var start: MonotonicTime?
  private var tick = 0
  private var sentOnLink = 0
  private var waiting: [Item] = []
  private var retry: MonotonicTime?

  private struct Item {
    enum Kind { case measured, malformed, answer }
    let value: SensorValue
    let kind: Kind
  }

  /// Creates a sensor.
  ///
  /// - Precondition: the rate is above 0, and advertisement and scan response fit.
  public init(_ model: any SensorModel, _ configuration: Configuration = Configuration()) {
    precondition(configuration.ticksPerSecond > 0)
    self.configuration = configuration
    self.model = model
    table = model.services
    let database = GATTServerDatabase(table)
    for characteristic in table.flatMap(\.characteristics) {
      guard let handle = database.valueHandle(of: characteristic.uuid) else { continue }
      handles[characteristic.uuid] = handle
      characteristics[handle] = characteristic.uuid
    }
  }

  // MARK: Advertisement and attributes

  public var services: [GATTServiceDescription] { table }

  public var advertisement: Advertisement? {
    Advertisement(
      address: model.address, interval: configuration.advertisingInterval, data: model.advertisingData,
      scanResponse: model.scanResponse)
  }

  // MARK: Link

  public func connected(_ link: PeripheralLink, now: MonotonicTime) {
    sentOnLink = 0
    model.connected()
  }

  public func disconnected(now: MonotonicTime) {
    start = nil
    waiting.removeAll()
    retry = nil
  }

  public func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode? {
    guard let characteristic = characteristics[handle] else { return nil }
    return model.check(write: value, to: characteristic)
  }

  public func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {
    if let characteristic = characteristics[handle] {
      let value = link.database.value(of: handle) ?? []
      for answer in model.written(value, to: characteristic) {
        send(Item(value: answer, kind: .answer), link)
      }
      flush(link, now)
    } else if !isSubscribed(link) {
      start = nil
    } else if start == nil, sentOnLink < configuration.valueLimit ?? .max {
      start = now.advanced(by: interval)
      tick = 0
      var body = configuration.body
      body.begin(at: now)
      model.begin(body)
    }
  }

  private func isSubscribed(_ link: PeripheralLink) -> Bool {
    handles.values.contains { link.isSubscribed(to: $0) || link.isSubscribed(to: $0, .indication) }
  }

  public func roomAvailable(_ link: PeripheralLink, now: MonotonicTime) { flush(link, now) }

  // MARK: Time

  private var interval: Duration { .seconds(configuration.body.pace / configuration.ticksPerSecond) }

  private var nextTick: MonotonicTime? {
    start?.advanced(by: .seconds(Double(tick) * configuration.body.pace / configuration.ticksPerSecond))
  }

  public var deadline: MonotonicTime? { MonotonicTime.earliest(nextTick, retry) }

  public func expired(_ link: PeripheralLink, now: MonotonicTime) {
    var ticks = 0
    while let due = nextTick, due <= now, ticks < Self.maximumTicksAtOnce {
      measure(link)
      ticks += 1
    }
    flush(link, now)
  }

  private func measure(_ link: PeripheralLink) {
    let number = tick
    tick += 1
    let isOffBody = configuration.offBodyEvery.map { (number + 1).isMultiple(of: $0) } ?? false
    // Opcode and handle precede the value. Core 5.4, Vol 3, Part F, 3.4.7.1.
    let values = model.measure(
      SensorTick(
        number: number, seconds: Double(number + 1) / configuration.ticksPerSecond,
        valueByteCount: link.mtu - 3,
        isOffBody: isOffBody))
    for value in values where start != nil && isWanted(value, link) {
      let isMalformed = configuration.malformedEvery.map { (sentOnLink + 1).isMultiple(of: $0) } ?? false
      var value = value
      if isMalformed { value.octets = model.malformed(value) }
      send(Item(value: value, kind: isMalformed ? .malformed : .measured), link)
    }
  }

  private func isWanted(_ value: SensorValue, _ link: PeripheralLink) -> Bool {
    handles[value.characteristic].map { link.isSubscribed(to: $0, value.push) } ?? false
  }

  // MARK: Values

  private func send(_ item: Item, _ link: PeripheralLink) {
    guard item.value.push == .notification, let handle = handles[item.value.characteristic] else {
      if waiting.count < Self.maximumWaiting {
        waiting.append(item)
        if item.kind != .answer { count(item, link) }
      } else {
        dropped += 1
      }
      return
    }
    switch link.push(of: handle, value: item.value.octets.span) {
    case .queued: if item.kind != .answer { count(item, link) }
    case .full: dropped += 1
    case .notSubscribed, .awaitsConfirmation: break
    }
  }

  private func count(_ item: Item, _ link: PeripheralLink) {
    sent += 1
    sentOnLink += 1
    if item.kind == .malformed { sentMalformed += 1 }
    if sentOnLink == configuration.disconnectAfter {
      start = nil
      link.disconnect(.connectionTimeout)
    } else if sentOnLink == configuration.valueLimit {
      start = nil
    }
  }

  /// Sends queued indications until an indication awaits its confirmation.
  private func flush(_ link: PeripheralLink, _ now: MonotonicTime) {
    retry = nil
    while let item = waiting.first {
      guard let handle = handles[item.value.characteristic] else { return }
      switch link.push(.indication, of: handle, value: item.value.octets.span) {
      case .queued, .notSubscribed: waiting.removeFirst()
      case .awaitsConfirmation:
        retry = now.advanced(by: Self.retryInterval)
        return
      // `roomAvailable` is called when there is room again.
      case .full: return
      }
    }
  }
}

/// A value that a sensor sends.
public struct SensorValue: Hashable, Sendable {
  public var characteristic: BluetoothUUID
  public var push: ServerPush
  public var octets: [UInt8]

  public init(_ characteristic: BluetoothUUID, _ push: ServerPush, _ octets: [UInt8]) {
    self.characteristic = characteristic
    self.push = push
    self.octets = octets
  }

  /// Creates a notification.
  public init(_ characteristic: BluetoothUUID, _ octets: [UInt8]) {
    self.init(characteristic, .notification, octets)
  }
}

/// A tick of an emulated sensor. Ticks start with the first subscription on a link.
public struct SensorTick: Hashable, Sendable {
  /// Number of the tick, from 0.
  public var number: Int
  /// Seconds since the first subscription, by the sensor's clock.
  public var seconds: Double
  /// Maximum size of a value at the MTU in force, in bytes.
  public var valueByteCount: Int
  /// Whether the sensor is off the body.
  public var isOffBody: Bool
}

/// Identity, measurements and responses of an emulated sensor. `EmulatedSensor` provides the link and the
/// time.
///
/// A characteristic UUID may occur only once in `services`.
public protocol SensorModel: Sendable {
  var name: String { get set }
  var address: DeviceAddress { get set }
  var services: [GATTServiceDescription] { get }
  var advertisingData: [UInt8] { get }
  var scanResponse: [UInt8] { get }

  /// Called before a write is stored. Returns an error code to refuse it.
  func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode?
  /// Called after a write was stored.
  ///
  /// - Returns: Values that the sensor sends in response.
  mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue]
  mutating func measure(_ tick: SensorTick) -> [SensorValue]
  /// Returns a truncated value, which is shorter than its flags announce.
  func malformed(_ value: SensorValue) -> [UInt8]
  /// Called when a central has connected. Must discard the state of the previous link.
  mutating func connected()
  /// Called when the ticks and the sensor's clock start.
  mutating func begin(_ body: BodyTime)
}

extension SensorModel {
  public var scanResponse: [UInt8] { [] }
  public func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode? { nil }
  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] { [] }
  public func malformed(_ value: SensorValue) -> [UInt8] { Array(value.octets.prefix(1)) }
  public mutating func connected() {}
  public mutating func begin(_ body: BodyTime) {}

  /// Returns the advertising data: flags (general discoverable, no BR/EDR), 16-bit services, complete local
  /// name. Core Supplement 11, Part A, 1.
  func advertisement(of services: [UInt16]) -> [UInt8] {
    let list = services.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    return [2, 0x01, 0x06, UInt8(list.count + 1), 0x03] + list + [UInt8(name.utf8.count + 1), 0x09]
      + name.utf8
  }
}

extension [GATTServiceDescription] {
  /// Returns the Device Information and Battery services, which most sensors have.
  static func sensorServices(model: String, batteryPercent: UInt8) -> [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    func text(_ uuid: BluetoothUUID, _ text: String) -> Characteristic {
      Characteristic(uuid, .read, value: [UInt8](text.utf8))
    }
    return [
      GATTServiceDescription(
        .deviceInformation,
        characteristics: [
          text(.manufacturerName, "ringtap"), text(.modelNumber, model), text(.serialNumber, "0001"),
          text(.hardwareRevision, "1.0"), text(.firmwareRevision, "2.0.1"), text(.softwareRevision, "3.0"),
        ]),
      GATTServiceDescription(
        .battery, characteristics: [Characteristic(.batteryLevel, [.read, .notify], value: [batteryPercent])]),
    ]
  }
}

/// Returns a value that rises and falls linearly. The result is the same on every machine.
///
/// - Parameters:
///   - range: from the lower bound at 0 to the upper bound at half a period, and back.
///   - period: in seconds.
func triangle(_ range: ClosedRange<Double>, period: Double, at seconds: Double) -> Double {
  let phase = (seconds / period).truncatingRemainder(dividingBy: 1)
  let share = phase < 0.5 ? 2 * phase : 2 - 2 * phase
  return range.lowerBound + (range.upperBound - range.lowerBound) * share
}
