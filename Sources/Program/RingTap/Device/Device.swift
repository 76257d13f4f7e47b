public import BLEHost
import BLELinux
public import BLESensors
public import BLEStack
public import BLEWire
import SensorSessions

/// A connected device and its attributes, passed to the body of `Radio.withConnection`.
///
/// A characteristic is identified by its UUID. If several characteristics share the UUID, the first
/// characteristic that supports the operation is used. Each characteristic is discovered on first use;
/// `services` discovers all characteristics.
///
/// ```swift
/// try await radio.withConnection(to: "70:CB:0D:00:A1:B2") { device in
///   print(try await device.value(of: .firmwareRevision).text)
///   try await device.write([0x01], to: "6e400002-b5a3-f393-e0a9-e50e24dcca9e")
///   for try await value in device.notifications(of: "6e400003-b5a3-f393-e0a9-e50e24dcca9e") { print(value.bytes) }
/// }
/// ```
public actor Device {
  /// Time limit, after cancellation, for the device to stop notifications and to answer pending requests.
  fileprivate static let stopPatience = Duration.seconds(2)

  /// The device's address.
  public nonisolated let address: DeviceAddress
  /// The radio's receive thread, on which the actor runs.
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }

  nonisolated let connection: Connection
  private var found: [Search: GATTDatabase.Characteristic] = [:]
  private var subscriptions: [Subscription] = []

  init(_ connection: Connection) {
    self.connection = connection
    address = connection.peer
  }

  /// All services of the device, with their characteristics.
  public var services: [GATTDatabase.Service] {
    get async throws(HostError) {
      do throws(GATTError) { return try await connection.complete()?.services ?? [] } catch {
        throw .gatt(error)
      }
    }
  }

  /// Maximum length in bytes of a notification's value on this link: the MTU minus 3.
  public var maximumValueByteCount: Int { get async { await connection.mtu - 3 } }

  // MARK: Values

  /// Reads a value of any length.
  ///
  /// - Throws: `unsuitable` if there is no such characteristic; `gatt(refused)` if the device rejects the
  ///   request; `gatt(closed)` if the link is lost.
  public func read(_ characteristic: BluetoothUUID) async throws(HostError) -> [UInt8] {
    let handle = try await find(characteristic, with: .read).valueHandle
    do throws(GATTError) { return try await connection.read(handle) } catch { throw .gatt(error) }
  }

  /// Reads UTF-8 text, without the trailing zeros that some firmware adds.
  ///
  /// - Throws: the errors of `read(_:)`.
  public func read(
    _ characteristic: BluetoothUUID, as type: String.Type
  ) async throws(HostError) -> String {
    var octets = try await read(characteristic)
    while octets.last == 0 { octets.removeLast() }
    return String(decoding: octets, as: UTF8.self)
  }

  /// Reads a value of a standard service, such as `BatteryLevel`.
  ///
  /// - Throws: the errors of `read(_:)`; `gatt(malformed)` if the value violates its specification.
  public func read<Value: CharacteristicValue>(
    _ characteristic: BluetoothUUID, as type: Value.Type
  ) async throws(HostError) -> Value {
    let octets = try await read(characteristic)
    do throws(WireError) { return try Value(decoding: octets.span) } catch { throw .gatt(.malformed(error)) }
  }

  /// Reads a value of the type that belongs to the characteristic: `device.value(of: .batteryLevel).percent`.
  ///
  /// - Throws: the errors of `read(_:as:)`.
  public func value<Value>(of characteristic: Characteristic<Value>) async throws(HostError) -> Value {
    try await read(characteristic.uuid, as: Value.self)
  }

  /// Writes a value. If the characteristic supports writes with response, waits for the device's response.
  ///
  /// - Throws: the errors of `read(_:)`; `gatt(valueTooLong)` if the value is too long for a write without
  ///   response.
  public func write(_ value: [UInt8], to characteristic: BluetoothUUID) async throws(HostError) {
    let found = try await find(characteristic, with: [.write, .writeWithoutResponse])
    do throws(GATTError) {
      if found.properties.contains(.write) {
        try await connection.write(value, to: found.valueHandle)
      } else {
        try await connection.writeWithoutResponse(value, to: found.valueHandle)
      }
    } catch { throw .gatt(error) }
  }

  // MARK: Notifications

  /// Returns the values that a characteristic notifies or indicates, each with the kernel's receive time.
  ///
  /// The first iteration subscribes. The subscription ends with the scope of `withConnection`.
  public nonisolated func notifications(of characteristic: BluetoothUUID) -> Notifications {
    Notifications(self, characteristic)
  }

  /// Passes each value of a characteristic to `body` on the receive thread, without copying or allocating.
  ///
  /// ```swift
  /// let bytes = Atomic(0)
  /// try await device.subscribe(to: .heartRateMeasurement) { notification, time in
  ///   bytes.add(notification.value.count, ordering: .relaxed)
  /// }
  /// try await device.ended()
  /// ```
  ///
  /// `body` runs on the receive thread. It may decode, count, and push into a queue. It must not block, lock,
  /// allocate or log, and must not keep `notification` after it returns. For other work, use
  /// `notifications(of:)`. The subscription ends with the scope of `withConnection`.
  ///
  /// - Parameters:
  ///   - characteristic: a characteristic that notifies or indicates.
  ///   - body: receives the value and its kernel receive time.
  /// - Throws: the errors of `read(_:)`; `gatt(notSupported)` if the characteristic neither notifies nor
  ///   indicates.
  public func subscribe(
    to characteristic: BluetoothUUID, _ body: @escaping Connection.Sink
  ) async throws(HostError) {
    let found = try await find(characteristic, with: [.notify, .indicate])
    do throws(GATTError) { subscriptions.append(try await connection.subscribe(found, body)) } catch {
      throw .gatt(error)
    }
  }

  /// Subscribes and returns the queue of values, which ends with the link.
  func samples(
    of characteristic: BluetoothUUID, capacity: Int
  ) async throws(HostError) -> SampleChannel<DeviceNotification> {
    let channel = SampleChannel<DeviceNotification>(capacity: capacity)
    try await subscribe(to: characteristic) { channel.take(DeviceNotification($0.value, at: $1)) }
    Task { [connection] in
      _ = await connection.ended()
      channel.finish()
    }
    return channel
  }

  // MARK: The link

  /// Waits until the link ends or the task is cancelled.
  ///
  /// - Throws: `gatt(closed)` with the reason if the link was lost.
  public nonisolated func ended() async throws(HostError) {
    let (ends, end) = AsyncStream.makeStream(of: BearerEnd.self)
    // The task ends with the connection, which ends with the scope around this call.
    Task { [connection] in
      end.yield(await connection.ended())
      end.finish()
    }
    for await reason in ends where reason != .closedLocally { throw .gatt(.closed(reason)) }
  }

  // MARK: Implementation

  /// Key of a characteristic in the cache: its UUID and the required operations.
  struct Search: Hashable {
    let uuid: BluetoothUUID
    let properties: CharacteristicProperties
  }

  /// Finds a characteristic by UUID.
  ///
  /// - Parameter properties: the required operations. If several characteristics match, a characteristic with
  ///   one of these properties is preferred.
  func find(
    _ uuid: BluetoothUUID, with properties: CharacteristicProperties
  ) async throws(HostError) -> GATTDatabase.Characteristic {
    let search = Search(uuid: uuid, properties: properties)
    if let characteristic = found[search] { return characteristic }
    do throws(GATTError) {
      // Exchange the MTU first so that notifications are not truncated.
      try await connection.exchangeMTU()
      found[search] = try await connection.characteristic(uuid, with: properties)
    } catch { throw .gatt(error) }
    guard let characteristic = found[search] else {
      throw .unsuitable("\(address) has no characteristic \(uuid)")
    }
    return characteristic
  }

  /// Unsubscribes while the device still responds, then closes the link.
  func leave() async {
    let (connection, subscriptions) = (connection, subscriptions)
    // A separate task runs even if the current task is cancelled.
    let work = Task {
      for subscription in subscriptions where await connection.end == nil {
        try? await connection.unsubscribe(subscription)
      }
      await connection.close()
    }
    let timer = Task {
      if (try? await connection.loop.wait(for: Self.stopPatience)) != nil { await connection.close() }
    }
    await work.value
    timer.cancel()
  }
}

extension Radio {
  /// Connects to a device, and closes the link when `body` ends.
  ///
  /// ```swift
  /// let text = try await radio.withConnection(to: "70:CB:0D:00:A1:B2") { device in
  ///   try await device.value(of: .firmwareRevision).text
  /// }
  /// ```
  ///
  /// When `body` returns or throws, or the task is cancelled, `withConnection` ends all subscriptions and
  /// closes the link before it returns. After cancellation, it waits at most two seconds for a device that
  /// does not respond.
  ///
  /// - Parameters:
  ///   - address: the device's address. A string literal is a public address; for a random address, use
  ///     `DeviceAddress(text, type: .random)`.
  ///   - request: requested link parameters: interval, PHY, data length.
  ///   - timeout: timeout for connecting.
  ///   - body: receives the device. Its attributes are discovered on first use.
  /// - Returns: the result of `body`.
  /// - Throws: `HostError` if the connection fails: `noAnswer`, `channelBusy`, `connectFailed`, `linkFailed`;
  ///   errors of `body`.
  public func withConnection<Value>(
    to address: DeviceAddress, asking request: LinkRequest = LinkRequest(), timeout: Duration = .seconds(20),
    _ body: (Device) async throws -> Value
  ) async throws -> Value {
    await scans.end()
    let device = Device(
      try await adapter.connect(to: address, asking: request, timeout: timeout, tap: nil))
    do {
      let value = try await closing(device.connection, after: Device.stopPatience) { try await body(device) }
      await device.leave()
      return value
    } catch {
      await device.leave()
      throw error
    }
  }
}
