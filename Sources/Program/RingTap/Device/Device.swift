public import BLEHost
import BLELinux
public import BLESensors
public import BLEStack
public import BLEWire
import SensorSessions

/// A connected device and its attributes: what `Radio.withConnection` gives its body.
///
/// A characteristic is named by its UUID; where several have the same, the first counts that can do what is
/// asked. It is looked for when it is first
/// named; `services` has all.
///
/// ```swift
/// try await radio.withConnection(to: "70:CB:0D:00:A1:B2") { device in
///   print(try await device.read(.firmwareRevision, as: String.self))
///   try await device.write([0x01], to: "6e400002-b5a3-f393-e0a9-e50e24dcca9e")
///   for try await value in device.notifications(of: "6e400003-b5a3-f393-e0a9-e50e24dcca9e") { print(value.bytes) }
/// }
/// ```
public actor Device {
  /// How long a device may take to answer that it sends no more, and what it was asked before the task was cancelled.
  fileprivate static let stopPatience = Duration.seconds(2)

  /// Who it is.
  public nonisolated let address: DeviceAddress
  /// The radio's receive thread, on which it lives.
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }

  nonisolated let connection: Connection
  private let client: GATTClient
  private var found: [Search: GATTDatabase.Characteristic] = [:]
  private var subscriptions: [Subscription] = []

  init(_ connection: Connection) {
    self.connection = connection
    address = connection.peer
    client = GATTClient(connection)
  }

  /// All its services, with their characteristics.
  public var services: [GATTDatabase.Service] {
    get async throws(HostError) {
      do throws(GATTError) { return try await client.complete()?.services ?? [] } catch { throw .gatt(error) }
    }
  }

  /// Octets of the longest value of a notification on this link: the MTU less three.
  public var maximumValueByteCount: Int { get async { await connection.mtu - 3 } }

  // MARK: Values

  /// Reads a value, however long.
  ///
  /// - Throws: `unsuitable` where there is no such characteristic; `gatt(refused)` where the device does not give it away;
  ///   `gatt(closed)` where the link is gone.
  public func read(_ characteristic: BluetoothUUID) async throws(HostError) -> [UInt8] {
    let handle = try await find(characteristic, with: .read).valueHandle
    do throws(GATTError) { return try await client.read(handle) } catch { throw .gatt(error) }
  }

  /// Reads a text: UTF-8, without the zeros that some firmware pads it with.
  ///
  /// - Throws: as `read(_:)`.
  public func read(
    _ characteristic: BluetoothUUID, as type: String.Type
  ) async throws(HostError) -> String {
    var octets = try await read(characteristic)
    while octets.last == 0 { octets.removeLast() }
    return String(decoding: octets, as: UTF8.self)
  }

  /// Reads a value of a standard service, such as `BatteryLevel`.
  ///
  /// - Throws: as `read(_:)`; `gatt(malformed)` where it is not what its specification says.
  public func read<Value: CharacteristicValue>(
    _ characteristic: BluetoothUUID, as type: Value.Type
  ) async throws(HostError) -> Value {
    let octets = try await read(characteristic)
    do throws(WireError) { return try Value(decoding: octets.span) } catch { throw .gatt(.malformed(error)) }
  }

  /// Writes a value, and waits for the device's answer where the characteristic has writes with one.
  ///
  /// - Throws: as `read(_:)`; `gatt(valueTooLong)` for more than fits a write without an answer.
  public func write(_ value: [UInt8], to characteristic: BluetoothUUID) async throws(HostError) {
    let found = try await find(characteristic, with: [.write, .writeWithoutResponse])
    do throws(GATTError) {
      if found.properties.contains(.write) {
        try await client.write(value, to: found.valueHandle)
      } else {
        try await client.writeWithoutResponse(value, to: found.valueHandle)
      }
    } catch { throw .gatt(error) }
  }

  // MARK: Notifications

  /// The values that a characteristic notifies or indicates, each with the kernel's receive time.
  ///
  /// The device hears of the subscription with the loop's first turn. It ends with the scope of `withConnection`.
  public nonisolated func notifications(of characteristic: BluetoothUUID) -> Notifications {
    Notifications(self, characteristic)
  }

  /// Hands each value of a characteristic to `body` on the receive thread: nothing is copied, nothing is allocated.
  ///
  /// ```swift
  /// let octets = Atomic(0)
  /// try await device.subscribe(to: .heartRateMeasurement) { notification, time in
  ///   octets.add(notification.value.count, ordering: .relaxed)
  /// }
  /// try await device.ended()
  /// ```
  ///
  /// `body` may decode, count, and push into a queue; it must not block, lock, allocate or log, and cannot keep the view:
  /// while it runs, nothing else is received. `notifications(of:)` is for everything else. The subscription ends with the
  /// scope of `withConnection`.
  ///
  /// - Parameters:
  ///   - characteristic: one that notifies or indicates.
  ///   - body: gets the value and when the kernel had it.
  /// - Throws: as `read(_:)`; `gatt(notSupported)` where it has neither.
  public func subscribe(
    to characteristic: BluetoothUUID, _ body: @escaping Connection.Sink
  ) async throws(HostError) {
    let found = try await find(characteristic, with: [.notify, .indicate])
    do throws(GATTError) { subscriptions.append(try await client.subscribe(found, body)) } catch {
      throw .gatt(error)
    }
  }

  /// The same into a queue, which ends with the link.
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

  /// Waits until the link is gone or the task is cancelled.
  ///
  /// - Throws: `gatt(closed)`, which says how, where it was lost.
  public nonisolated func ended() async throws(HostError) {
    let (ends, end) = AsyncStream.makeStream(of: BearerEnd.self)
    // It ends with the connection, whose scope is around this.
    Task { [connection] in
      end.yield(await connection.ended())
      end.finish()
    }
    for await reason in ends where reason != .closedLocally { throw .gatt(.closed(reason)) }
  }

  // MARK: Inside

  /// What is found by a UUID for one use.
  struct Search: Hashable {
    let uuid: BluetoothUUID
    let properties: CharacteristicProperties
  }

  /// - Parameter properties: of several characteristics one that has any of these is preferred.
  func find(
    _ uuid: BluetoothUUID, with properties: CharacteristicProperties
  ) async throws(HostError) -> GATTDatabase.Characteristic {
    let search = Search(uuid: uuid, properties: properties)
    if let characteristic = found[search] { return characteristic }
    do throws(GATTError) {
      // What the device notifies is as long as the MTU allows.
      try await client.exchangeMTU()
      found[search] = try await client.characteristic(uuid, with: properties)
    } catch { throw .gatt(error) }
    guard let characteristic = found[search] else {
      throw .unsuitable("\(address) has no characteristic \(uuid)")
    }
    return characteristic
  }

  /// Tells the device to send no more, as far as it still answers, and closes the link.
  func leave() async {
    let (connection, client, subscriptions) = (connection, client, subscriptions)
    // A cancelled task must not skip it.
    let work = Task {
      for subscription in subscriptions where await connection.end == nil {
        try? await client.unsubscribe(subscription)
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
  /// Connects to a device, and closes the link when `body` is through.
  ///
  /// ```swift
  /// let text = try await radio.withConnection(to: "70:CB:0D:00:A1:B2") { device in
  ///   try await device.read(.firmwareRevision, as: String.self)
  /// }
  /// ```
  ///
  /// When `body` returns or throws, or the task is cancelled, subscriptions are ended and the link is closed before this
  /// returns. A device that does not answer keeps a cancelled task for two seconds.
  ///
  /// - Parameters:
  ///   - address: a literal is a public address; for a random one, `DeviceAddress(text, type: .random)`.
  ///   - request: what the link is asked for: interval, PHY, data length.
  ///   - timeout: how long the connecting may take.
  ///   - body: gets the device; its first question has the attributes discovered.
  /// - Returns: what `body` does.
  /// - Throws: `HostError` where there is no link: `noAnswer`, `channelBusy`, `connectFailed`, `linkFailed`; what `body`
  ///   throws.
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
