public import BLECore
public import BLEStack
import BLESystem
public import BLEWire

/// The GATT client of one connection: discovery, values, subscriptions.
public actor GATTClient {
  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }

  /// What the last discovery found.
  public private(set) var database = GATTDatabase()

  public init(_ connection: Connection) { self.connection = connection }

  /// Exchanges the MTU, once per connection. A device that refuses stays at 23.
  public func exchangeMTU(_ mtu: Int = ATT.maximumMTU) async throws(GATTError) {
    try await connection.exchangeMTU(mtu)
  }

  /// Discovers everything and keeps it as `database`.
  @discardableResult
  public func discover() async throws(GATTError) -> GATTDatabase {
    database = try await connection.discoverDatabase()
    await connection.noteDiscovery(
      GATTDiscoveryResult(database, .whole, databaseHash: try await databaseHash()))
    return database
  }

  /// What tells whether the database is still the same; `nil` where the device has no such value. Core 5.4, Vol 3,
  /// Part G, 7.3.
  private func databaseHash() async throws(GATTError) -> [UInt8]? {
    let hash = database.characteristic(.databaseHash, in: .genericAttribute)
    guard let hash, hash.properties.contains(.read) else { return nil }
    do throws(GATTError) { return try await connection.read(hash.valueHandle) } catch {
      guard case .refused = error else { throw error }
      return nil
    }
  }

  /// Discovers some services, the first of each UUID.
  ///
  /// - Returns: those that are there, in the order asked for. `database` stays.
  public func discover(services: [BluetoothUUID]) async throws(GATTError) -> GATTDatabase {
    var found = GATTDatabase()
    for uuid in services {
      if let service = try await connection.discoverService(uuid) { found.services.append(service) }
    }
    await connection.noteDiscovery(GATTDiscoveryResult(found, .part))
    return found
  }

  /// The whole value, however long.
  public func read(_ handle: AttributeHandle) async throws(GATTError) -> [UInt8] {
    try await connection.read(handle)
  }

  /// Writes and waits for the answer; values longer than ATT_MTU − 3 go as verified prepared writes.
  public func write(_ value: [UInt8], to handle: AttributeHandle) async throws(GATTError) {
    try await connection.write(value, to: handle)
  }

  /// Writes without an answer; at most ATT_MTU − 3 octets.
  public func writeWithoutResponse(
    _ value: [UInt8], to handle: AttributeHandle
  ) async throws(GATTError) {
    try await connection.writeWithoutResponse(value, to: handle)
  }

  /// The values of several attributes with one request; each knows whether it is whole. Two handles or more.
  public func read(_ handles: [AttributeHandle]) async throws(GATTError) -> [AttributeValue] {
    try await connection.read(handles)
  }

  /// Every value of one type in a range of handles, without discovery.
  public func readValues(
    of uuid: BluetoothUUID, in range: HandleRange = .all
  ) async throws(GATTError) -> [AttributeValue] {
    try await connection.readValues(of: uuid, in: range)
  }

  /// What the descriptors of a characteristic say about its value.
  public func readDetails(
    of characteristic: GATTDatabase.Characteristic
  ) async throws(GATTError) -> CharacteristicDetails {
    try await connection.readDetails(of: characteristic)
  }

  /// Writes all of these values or none; each was echoed by the device as it was sent.
  public func writeTogether(_ writes: [AttributeWrite]) async throws(GATTError) {
    try await connection.writeTogether(writes)
  }

  /// Subscribes to a characteristic: by notifications where it has them, else by indications, or as told.
  ///
  /// `body` runs on the receive thread. It must not block or allocate, and cannot keep the view. It is in place
  /// before the device hears of it, so the first value is not lost.
  ///
  /// - Throws: `notSupported` where the characteristic has neither, or what the device answers.
  public func subscribe(
    _ characteristic: GATTDatabase.Characteristic, by way: ServerPush? = nil,
    _ body: @escaping Connection.Sink
  ) async throws(GATTError) -> Subscription {
    let configuration: ClientCharacteristicConfiguration
    if let way {
      configuration = ClientCharacteristicConfiguration(rawValue: UInt16(way.rawValue))
    } else if characteristic.properties.contains(.notify) {
      configuration = .notification
    } else if characteristic.properties.contains(.indicate) {
      configuration = .indication
    } else {
      throw .notSupported(characteristic.valueHandle, needs: [.notify, .indicate])
    }
    let id = await connection.addSubscriber(characteristic.valueHandle, body)
    do throws(GATTError) {
      try await connection.configure(characteristic, configuration)
    } catch {
      _ = await connection.removeSubscriber(id)
      throw error
    }
    return Subscription(characteristic: characteristic, id: id)
  }

  /// Ends a subscription; the device is told when nobody else listens to the same characteristic.
  public func unsubscribe(_ subscription: Subscription) async throws(GATTError) {
    let isWanted = await connection.removeSubscriber(subscription.id)
    if !isWanted { try await connection.configure(subscription.characteristic, []) }
  }

  /// Tells the device to send no more values of a characteristic, whoever listens.
  public func unsubscribe(all characteristic: GATTDatabase.Characteristic) async throws(GATTError) {
    await connection.removeSubscribers(of: characteristic.valueHandle)
    try await connection.configure(characteristic, [])
  }

  /// Subscribes and decodes each value to a sample on the receive thread; a task takes them as a sequence.
  ///
  /// - Parameter capacity: samples that may wait; more are dropped and counted by the channel.
  public func samples<Sample: NotificationSample>(
    _ characteristic: GATTDatabase.Characteristic, as type: Sample.Type, capacity: Int
  ) async throws(GATTError) -> SampleChannel<Sample> {
    let channel = SampleChannel<Sample>(capacity: capacity)
    _ = try await subscribe(characteristic) { notification, time in
      channel.take(notification.value, at: time)
    }
    let connection = connection
    Task(executorPreference: connection.loop.preference) {
      _ = await connection.ended()
      channel.finish()
    }
    return channel
  }
}

/// One listener of one characteristic.
public struct Subscription: Sendable {
  public let characteristic: GATTDatabase.Characteristic
  let id: Int
}
