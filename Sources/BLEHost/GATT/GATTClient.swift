public import BLECore
import BLELinux
public import BLEStack
public import BLEWire

/// The GATT client of one connection: discovery, values, subscriptions.
public actor GATTClient {
  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }

  /// What the last discovery found.
  public private(set) var database = GATTDatabase()
  /// The Generic Attribute service, which tells of changes.
  private var generic: GATTDatabase.Service?
  /// What a device that asks for it is told about us.
  private let features: ClientFeatures

  public init(_ connection: Connection, features: ClientFeatures = .robustCaching) {
    self.connection = connection
    self.features = features
  }

  /// Exchanges the MTU, once per connection. A device that refuses stays at 23.
  public func exchangeMTU(_ mtu: Int = ATT.maximumMTU) async throws(GATTError) {
    if await connection.hasAskedMTU { return }
    try await connection.exchangeMTU(mtu)
  }

  /// Discovers everything and keeps it as `database`.
  @discardableResult
  public func discover() async throws(GATTError) -> GATTDatabase {
    // Before the rest: attributes that change meanwhile are remembered with a hash that is not theirs.
    try await discover(hash: try await connection.readDatabaseHash())
  }

  private func discover(hash: [UInt8]?) async throws(GATTError) -> GATTDatabase {
    database = try await connection.discoverDatabase()
    await connection.noteDiscovery(GATTDiscoveryResult(database, .whole, databaseHash: hash))
    return database
  }

  /// Discovers some services, the first of each UUID, and what tells of their changes.
  ///
  /// - Returns: those that are there, in the order asked for. `database` stays.
  public func discover(services: [BluetoothUUID]) async throws(GATTError) -> GATTDatabase {
    let hash = try await watch()
    var result = GATTDiscoveryResult(GATTDatabase(), .part, databaseHash: hash)
    let wanted = services.contains(.genericAttribute) ? services : [.genericAttribute] + services
    for uuid in wanted {
      if uuid == .genericAttribute, let generic {
        result.database.services.append(generic)
      } else if uuid != .genericAttribute, let service = try await connection.discoverService(uuid) {
        result.database.services.append(service)
      } else {
        result.absent.append(uuid)
      }
    }
    await connection.noteDiscovery(result)
    return result.database(of: services) ?? GATTDatabase()
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
  /// - Parameters:
  ///   - characteristic: as it was discovered.
  ///   - type: what a value is decoded to.
  ///   - capacity: samples that may wait; more are dropped and counted by the channel.
  public func samples<Sample: NotificationSample>(
    _ characteristic: GATTDatabase.Characteristic, as type: Sample.Type, capacity: Int
  ) async throws(GATTError) -> SampleChannel<Sample> {
    let channel = SampleChannel<Sample>(capacity: capacity)
    _ = try await subscribe(characteristic) { notification, time in
      channel.take(notification.value, at: time)
    }
    let connection = connection
    connection.loop.task {
      _ = await connection.ended()
      channel.finish()
    }
    return channel
  }
}

// MARK: Attributes of an earlier link

extension GATTClient {
  /// Attributes to work with: those of an earlier link if it is proven that they are as they were, else by discovery.
  ///
  /// Of an earlier link they cost one round trip where the device has a Database Hash, and none where it has no Service
  /// Changed; else some services cost one for each declaration and for the descriptors of each characteristic. The MTU is
  /// as it is then, until `validate` or `exchangeMTU`.
  ///
  /// - Parameters:
  ///   - services: the first of each UUID; `nil` for all there are.
  ///   - urgent: where each declaration has to be asked for, these services only; the others by `discoverMore`, once
  ///     nothing waits any more.
  /// - Returns: those that are there, in the order asked for.
  public func attributes(
    of services: [BluetoothUUID]? = nil, urgent: [BluetoothUUID]? = nil
  ) async throws(GATTError) -> GATTDatabase {
    if let earlier = try await earlierAttributes(of: services, urgent: urgent) { return earlier }
    try await exchangeMTU()
    if let services { return try await discover(services: services) }
    return try await discover(hash: try await watch())
  }

  private func earlierAttributes(
    of services: [BluetoothUUID]?, urgent: [BluetoothUUID]?
  ) async throws(GATTError) -> GATTDatabase? {
    guard let known = await connection.known, var database = known.database(of: services) else { return nil }
    if known.proof == .none, let urgent, let part = known.database(of: urgent) { database = part }
    let holds: Bool
    switch known.proof {
    case .hash(let hash): holds = try await connection.readDatabaseHash() == hash
    case .lasting: holds = true
    // Nothing says so but the attributes themselves, each asked for what is wanted of it.
    case .none: holds = if services == nil { false } else { try await stands(database) }
    }
    guard holds else {
      await connection.dropKnown()
      return nil
    }
    await connection.useKnown()
    if services == nil { self.database = database }
    return database
  }

  /// More services of the earlier link whose attributes are in use.
  ///
  /// - Returns: `nil` where there is no such link, or where they have changed; whoever waits for changes hears of it.
  public func discoverMore(of services: [BluetoothUUID]) async throws(GATTError) -> GATTDatabase? {
    guard await connection.usesEarlierDiscovery, let found = await connection.discovery,
      let database = found.database(of: services)
    else { return nil }
    if found.proof == .none, try await !stands(database) {
      await connection.attributesChanged(in: .all)
      return nil
    }
    return database
  }

  /// What a link with attributes of an earlier one still owes when its stream runs: the MTU, and to hear of changes. The
  /// hash is compared again, as the device may have changed before it knew that we want to hear of it.
  public func validate() async throws(GATTError) {
    try await exchangeMTU()
    guard let generic = try await discoverMore(of: [.genericAttribute])?.services.first else { return }
    try await watch(generic)
    guard let hash = await connection.discovery?.databaseHash, try await connection.readDatabaseHash() != hash
    else { return }
    await connection.attributesChanged(in: .all)
  }

  /// Whether characteristics are where they were: a declaration names properties, handle and UUID of its value, so the
  /// same octets at the same place say all of it.
  private func stands(_ database: GATTDatabase) async throws(GATTError) -> Bool {
    for characteristic in database.services.flatMap(\.characteristics) {
      let declaration = [UInt8](encoding: 19) {
        CharacteristicDeclaration(
          properties: characteristic.properties, valueHandle: characteristic.valueHandle,
          uuid: characteristic.uuid
        ).encode(into: &$0)
      }
      do throws(GATTError) {
        guard try await connection.read(characteristic.handle) == declaration,
          try await connection.discoverDescriptors(of: characteristic) == characteristic.descriptors
        else { return false }
      } catch {
        guard case .refused = error else { throw error }
        return false
      }
    }
    return true
  }

  /// Looks whether attributes of an earlier link are as they were, by a discovery that leaves subscriptions alone: for a
  /// device that must not change, and behaves as if it had. A hash that was equal is enough.
  public func verify() async throws(GATTError) {
    guard let found = await connection.discovery, await connection.usesEarlierDiscovery,
      found.proof == .lasting
    else { return }
    try await exchangeMTU()
    if try await !isAsItWas(found) { await connection.attributesChanged(in: .all) }
  }

  private func isAsItWas(_ found: GATTDiscoveryResult) async throws(GATTError) -> Bool {
    if found.extent == .whole { return try await connection.discoverDatabase() == found.database }
    for service in found.database.services {
      guard try await connection.discoverService(service.uuid) == service else { return false }
    }
    return true
  }

  /// Has the device tell of changes from now on, as far as it can.
  ///
  /// - Returns: its Database Hash, as it is when changes are told already.
  private func watch() async throws(GATTError) -> [UInt8]? {
    generic = try await connection.discoverService(.genericAttribute)
    guard let generic else { return nil }
    try await watch(generic)
    guard generic.characteristics.contains(where: { $0.uuid == .databaseHash }) else { return nil }
    return try await connection.readDatabaseHash()
  }

  /// Service Changed indications (Core 5.4, Vol 3, Part G, 7.1), and robust caching (7.2). A device that refuses does
  /// without.
  private func watch(_ generic: GATTDatabase.Service) async throws(GATTError) {
    for characteristic in generic.characteristics {
      do throws(GATTError) {
        switch characteristic.uuid {
        case .serviceChanged: try await watch(changes: characteristic)
        case .clientSupportedFeatures where characteristic.properties.contains(.write):
          try await connection.write([features.rawValue], to: characteristic.valueHandle)
        default: break
        }
      } catch {
        guard case .refused(let refusal) = error, refusal.code != .databaseOutOfSync else { throw error }
      }
    }
  }

  private func watch(changes characteristic: GATTDatabase.Characteristic) async throws(GATTError) {
    guard characteristic.configuration != nil, characteristic.properties.contains(.indicate) else { return }
    if await connection.beginWatch(characteristic.valueHandle) {
      _ = await connection.addSubscriber(characteristic.valueHandle) { [weak connection] notification, _ in
        let range = HandleRange(serviceChanged: notification.value)
        guard let connection else { return }
        // Amid a batch: the subscribers are being gone through.
        connection.loop.later(connection) { $0.attributesChanged(in: range) }
      }
    }
    try await connection.configure(characteristic, .indication)
  }
}

/// Bits of Client Supported Features: what a client can do. A bit that was set stays so for the link, or the bond.
/// Core 5.4, Vol 3, Part G, 7.2.
public struct ClientFeatures: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// A request that follows a change of the attributes is refused, Database Out Of Sync, until we know of it.
  public static let robustCaching = ClientFeatures(rawValue: 0x01)
  /// Several values may come in one PDU. A device may then hold one back to send it with the next.
  public static let multipleNotifications = ClientFeatures(rawValue: 0x04)
}

/// One listener of one characteristic.
public struct Subscription: Sendable {
  public let characteristic: GATTDatabase.Characteristic
  let id: Int
}
