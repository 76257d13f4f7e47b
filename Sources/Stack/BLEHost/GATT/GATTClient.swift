import BLELinux
public import BLEStack
public import BLEWire

/// The GATT client of one connection: discovery, values, subscriptions.
public actor GATTClient {
  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }

  /// What the last discovery found.
  public internal(set) var database = GATTDatabase()
  /// Those that a stream was begun with before the rest was known.
  var streamed: [GATTDatabase.Characteristic] = []
  /// The Generic Attribute service, which tells of changes, if the device has one; `nil` if it is not known.
  var generic: [GATTDatabase.Service]?
  /// What a device that asks for it is told about us.
  let features: ClientFeatures

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

  func discover(hash: [UInt8]?) async throws(GATTError) -> GATTDatabase {
    let (told, refused) = try await connection.discoverToldDatabase()
    database = GATTDatabase(
      services: (told.services + refused).sorted { $0.range.start < $1.range.start })
    let extent: GATTDiscoveryResult.Extent = refused.isEmpty ? .whole : .part
    await connection.noteDiscovery(GATTDiscoveryResult(told, extent, databaseHash: hash))
    return database
  }

  /// Discovers some services, all of each UUID that the device names in one response, and what tells of their changes.
  ///
  /// - Returns: those that are there, in the order asked for; without those of which the device refuses to tell. `database` stays.
  public func discover(services: [BluetoothUUID]) async throws(GATTError) -> GATTDatabase {
    let hash = try await watch()
    var result = GATTDiscoveryResult(GATTDatabase(), .part, databaseHash: hash)
    let wanted = services.contains(.genericAttribute) ? services : [.genericAttribute] + services
    for uuid in wanted {
      guard let found = uuid == .genericAttribute ? generic : try await connection.toldServices(uuid) else {
        continue
      }
      if found.isEmpty { result.absent.append(uuid) }
      result.database.services += found
    }
    await connection.noteDiscovery(result)
    return GATTDatabase(
      services: services.flatMap { uuid in result.database.services.filter { $0.uuid == uuid } })
  }

  /// The whole value, however long. The MTU is exchanged for one that fills the first answer.
  public func read(_ handle: AttributeHandle) async throws(GATTError) -> [UInt8] {
    let full = ATT.defaultMTU - 1
    guard await connection.mtu == ATT.defaultMTU, await !connection.hasAskedMTU else {
      return try await connection.read(handle)
    }
    let start = try await connection.transact(
      [UInt8](encoding: 3) { ReadRequest(handle: handle).encode(into: &$0) }
    )
    .dropFirst()
    guard start.count >= full else { return Array(start) }
    try await exchangeMTU()
    do throws(GATTError) { return try await start + connection.read(handle, from: UInt16(start.count)) } catch
    {
      // A value that just fills the answer has no more.
      guard case .refused(let refusal) = error, [.attributeNotLong, .invalidOffset].contains(refusal.code)
      else {
        throw error
      }
      return Array(start)
    }
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
  /// Only a Client Characteristic Configuration (2902) is written. A device that has none, or refuses it, may send values all
  /// the same: `Connection.remarks` tells of it. After a refusal they must come within `refusalPatience`.
  ///
  /// - Parameters:
  ///   - characteristic: as it was discovered.
  ///   - way: notifications or indications; `nil` for what it has.
  ///   - command: is written behind the subscription, without an answer and without waiting for the subscription's: what a
  ///     device takes as the sign to begin.
  ///   - body: takes the values.
  /// - Throws: `notSupported` where the characteristic has neither, or what the device answers.
  public func subscribe(
    _ characteristic: GATTDatabase.Characteristic, by way: ServerPush? = nil,
    followedBy command: AttributeWrite? = nil, _ body: @escaping Connection.Sink
  ) async throws(GATTError) -> Subscription {
    guard way != nil || characteristic.canPush else {
      throw .notSupported(characteristic.valueHandle, needs: [.notify, .indicate])
    }
    let usual: ServerPush = characteristic.properties.contains(.notify) ? .notification : .indication
    let id = await connection.addSubscriber(characteristic.valueHandle, body)
    do throws(GATTError) {
      let found = try await configure(
        try await withConfiguration(characteristic), way ?? usual, isChosen: way != nil, followedBy: command,
        hearing: id)
      return Subscription(characteristic: found, id: id)
    } catch {
      _ = await connection.removeSubscriber(id)
      throw error
    }
  }

  /// The characteristic with the descriptor that turns its values on, where the device has one.
  private func withConfiguration(
    _ characteristic: GATTDatabase.Characteristic
  ) async throws(GATTError) -> GATTDatabase.Characteristic {
    guard characteristic.configuration == nil, !streamed.contains(characteristic) else {
      return characteristic
    }
    var found = characteristic
    found.descriptors = try await connection.findConfiguration(of: characteristic)
    return found
  }

  /// - Parameter id: of the subscriber, whose first value tells that a device that refuses sends all the same.
  /// - Returns: the characteristic with the descriptor that took it, which may be another than was thought.
  private func configure(
    _ characteristic: GATTDatabase.Characteristic, _ way: ServerPush, isChosen: Bool,
    followedBy command: AttributeWrite?, hearing id: Int
  ) async throws(GATTError) -> GATTDatabase.Characteristic {
    let value = ClientCharacteristicConfiguration(rawValue: UInt16(way.rawValue))
    let refusal: GATTError
    do throws(GATTError) {
      try await connection.configure(characteristic, value, followedBy: command)
      return characteristic
    } catch {
      guard case .refused = error, await connection.end == nil else { throw error }
      refusal = error
    }
    if streamed.contains(characteristic) {
      // A device that breaks the rule by which the descriptor was known is asked where it is.
      var found = characteristic
      found.descriptors = try await connection.discoverDescriptors(of: characteristic)
      if found.configuration != nil, found.configuration != characteristic.configuration {
        try await connection.configure(found, value, followedBy: command)
        return found
      }
    }
    let other: ServerPush = way == .notification ? .indication : .notification
    if !isChosen, characteristic.properties.contains(other == .notification ? .notify : .indicate),
      (try? await connection.configure(
        characteristic, ClientCharacteristicConfiguration(rawValue: UInt16(other.rawValue)),
        followedBy: command)) != nil
    {
      return characteristic
    }
    // Of attributes of an earlier link it rather says that they have changed.
    let isAvoided = await connection.avoidsSubscriptions
    let isOfEarlierLink = await connection.usesEarlierDiscovery
    if isAvoided || !isOfEarlierLink,
      await connection.hasHeard(id, within: Self.refusalPatience)
    {
      if !isAvoided { await connection.note(.listeningDespite(characteristic.valueHandle, refusal)) }
      return characteristic
    }
    // The link that it ended may have ended by chance.
    guard await connection.allowSubscriptions() else { throw refusal }
    try await connection.configure(characteristic, value, followedBy: command)
    return characteristic
  }

  /// How long a device that refuses a subscription has to send a value all the same.
  public static let refusalPatience = Duration.seconds(2)

  /// Ends a subscription; the device is told when nobody else listens to the same characteristic.
  public func unsubscribe(_ subscription: Subscription) async throws(GATTError) {
    let isWanted = await connection.removeSubscriber(subscription.id)
    if !isWanted { try await connection.configure(subscription.characteristic, [], followedBy: nil) }
  }

  /// Tells the device to send no more values of a characteristic, whoever listens.
  public func unsubscribe(all characteristic: GATTDatabase.Characteristic) async throws(GATTError) {
    await connection.removeSubscribers(of: characteristic.valueHandle)
    try await connection.configure(characteristic, [], followedBy: nil)
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
