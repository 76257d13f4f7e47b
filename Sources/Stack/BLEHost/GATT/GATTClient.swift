import BLELinux
public import BLEStack
public import BLEWire

/// The GATT client of one connection: discovery, reads, writes and subscriptions.
public actor GATTClient {
  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }

  /// Result of the last discovery.
  public private(set) var database = GATTDatabase()
  /// Characteristics of a stream that was started before the other attributes were discovered.
  private var streamed: [GATTDatabase.Characteristic] = []
  /// The Generic Attribute service, which reports changes; empty if the device lacks it, `nil` if that is
  /// unknown.
  private var generic: [GATTDatabase.Service]?
  /// Features to enable on a device that has Client Supported Features.
  let features: ClientFeatures

  public init(_ connection: Connection, features: ClientFeatures = .robustCaching) {
    self.connection = connection
    self.features = features
  }

  /// Exchanges the MTU, once per connection. If the device refuses, the MTU stays 23.
  public func exchangeMTU(_ mtu: Int = ATT.maximumMTU) async throws(GATTError) {
    if await connection.hasAskedMTU { return }
    try await connection.exchangeMTU(mtu)
  }

  /// Discovers all attributes and stores them in `database`.
  @discardableResult
  public func discover() async throws(GATTError) -> GATTDatabase {
    // Read the hash first. If attributes change during the discovery, it then does not match them.
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

  /// Discovers the services with these UUIDs, and the Generic Attribute service. For each UUID, returns
  /// only the services that fit in one response.
  ///
  /// - Returns: The services that exist, in the order of `services`, without those that the device refuses to
  ///   list. `database` is unchanged.
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

  /// Reads a whole value of any length. If the value fills the first response, exchanges the MTU before it
  /// reads the rest.
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
      // The value exactly fills the first response.
      guard case .refused(let refusal) = error, [.attributeNotLong, .invalidOffset].contains(refusal.code)
      else {
        throw error
      }
      return Array(start)
    }
  }

  /// Writes a value and waits for the response. A value longer than ATT_MTU − 3 bytes is sent as prepared
  /// writes and verified.
  public func write(_ value: [UInt8], to handle: AttributeHandle) async throws(GATTError) {
    try await connection.write(value, to: handle)
  }

  /// Writes without a response, ATT_MTU − 3 bytes at most.
  public func writeWithoutResponse(
    _ value: [UInt8], to handle: AttributeHandle
  ) async throws(GATTError) {
    try await connection.writeWithoutResponse(value, to: handle)
  }

  /// Reads several attributes with one request. Each result includes whether it is complete. Requires at
  /// least two handles.
  public func read(_ handles: [AttributeHandle]) async throws(GATTError) -> [AttributeValue] {
    try await connection.read(handles)
  }

  /// Reads every value of one type in a range of handles, without discovery.
  public func readValues(
    of uuid: BluetoothUUID, in range: HandleRange = .all
  ) async throws(GATTError) -> [AttributeValue] {
    try await connection.readValues(of: uuid, in: range)
  }

  /// Reads the descriptors that describe a characteristic's value.
  public func readDetails(
    of characteristic: GATTDatabase.Characteristic
  ) async throws(GATTError) -> CharacteristicDetails {
    try await connection.readDetails(of: characteristic)
  }

  /// Writes all of these values or none. The device echoes each value for verification before any is written.
  public func writeTogether(_ writes: [AttributeWrite]) async throws(GATTError) {
    try await connection.writeTogether(writes)
  }

  /// Subscribes to a characteristic: as `way` specifies, otherwise with notifications if it supports them and
  /// with indications if not.
  ///
  /// `body` is called on the receive thread. It must not block, allocate or keep the view. It is registered
  /// before the request is sent, so that the first value is not lost.
  ///
  /// Only the Client Characteristic Configuration (2902) is written. A device that lacks it or refuses the
  /// write may still send values; `Connection.remarks` records that. After a refusal, a value must arrive
  /// within `refusalPatience`.
  ///
  /// - Parameters:
  ///   - characteristic: a characteristic from a discovery.
  ///   - way: notifications or indications; `nil` for either.
  ///   - command: sent right after the subscription, without waiting for its response; for a device that
  ///     starts on this command.
  ///   - body: receives the values.
  /// - Throws: `notSupported` if the characteristic supports neither, or the device's error.
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

  /// Returns the characteristic with its Client Characteristic Configuration descriptor, if the device has
  /// one.
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

  /// Writes the configuration descriptor.
  ///
  /// - Parameter id: the subscriber. Its first value shows that the device sends values despite a refusal.
  /// - Returns: The characteristic with the descriptor that was written, which may differ from the assumed
  ///   one.
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
      // The handle of the descriptor was guessed, and this device does not follow the rule. Discover it.
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
    // If the attributes come from an earlier link, a refusal more likely means that they have changed.
    let isAvoided = await connection.avoidsSubscriptions
    let isOfEarlierLink = await connection.usesEarlierDiscovery
    if isAvoided || !isOfEarlierLink,
      await connection.hasHeard(id, within: Self.refusalPatience)
    {
      if !isAvoided { await connection.note(.listeningDespite(characteristic.valueHandle, refusal)) }
      return characteristic
    }
    // The subscription may not have been the cause when the device ended an earlier link.
    guard await connection.allowSubscriptions() else { throw refusal }
    try await connection.configure(characteristic, value, followedBy: command)
    return characteristic
  }

  /// How long to wait for a value after the device has refused the subscription.
  public static let refusalPatience = Duration.seconds(2)

  /// Ends a subscription. If the characteristic has no other subscriber, turns its values off on the device.
  public func unsubscribe(_ subscription: Subscription) async throws(GATTError) {
    let isWanted = await connection.removeSubscriber(subscription.id)
    if !isWanted { try await connection.configure(subscription.characteristic, [], followedBy: nil) }
  }

  /// Turns a characteristic's values off on the device, and removes all subscribers.
  public func unsubscribe(all characteristic: GATTDatabase.Characteristic) async throws(GATTError) {
    await connection.removeSubscribers(of: characteristic.valueHandle)
    try await connection.configure(characteristic, [], followedBy: nil)
  }

  /// Subscribes to a characteristic and decodes each value to a sample on the receive thread. A task reads
  /// the samples as a sequence.
  ///
  /// - Parameters:
  ///   - characteristic: a characteristic from a discovery.
  ///   - type: type of the decoded samples.
  ///   - capacity: maximum number of queued samples. Further samples are dropped and counted by the channel.
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

/// Bits of Client Supported Features. A bit stays set until the link ends, or as long as the bond exists.
/// Core 5.4, Vol 3, Part G, 7.2.
public struct ClientFeatures: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Robust caching: after its attributes have changed, the server refuses a request with Database Out Of
  /// Sync until the client is aware of the change.
  public static let robustCaching = ClientFeatures(rawValue: 0x01)
  /// The server may send several values in one PDU. It may delay a value to send it with the next.
  public static let multipleNotifications = ClientFeatures(rawValue: 0x04)
}

/// A subscriber of a characteristic.
public struct Subscription: Sendable {
  public let characteristic: GATTDatabase.Characteristic
  let id: Int
}

// MARK: - Attributes

/// Access to a device's attributes with as few requests as possible before a stream starts.
extension GATTClient {
  /// Returns the attributes of an earlier link if they are verified as unchanged, otherwise discovers them.
  ///
  /// Verification takes one round trip if the device has a Database Hash, and none if it has no Service
  /// Changed. For other devices, given services take one request per declaration and one for the descriptors
  /// of each characteristic; the whole database is discovered again. If the attributes were known, the MTU is
  /// not exchanged until `validate` or `exchangeMTU`.
  ///
  /// - Parameter services: UUIDs of the services; `nil` for all.
  /// - Returns: The services that exist, in the order of the parameter.
  public func attributes(of services: [BluetoothUUID]? = nil) async throws(GATTError) -> GATTDatabase {
    if let earlier = try await earlierAttributes(of: services) { return earlier }
    try await exchangeMTU()
    if let services { return try await discover(services: services) }
    return try await discover(hash: try await watch())
  }

  private func earlierAttributes(
    of services: [BluetoothUUID]?
  ) async throws(GATTError) -> GATTDatabase? {
    guard let known = await connection.known, let database = known.database(of: services) else { return nil }
    let holds: Bool
    switch known.proof {
    case .hash(let hash): holds = try await connection.readDatabaseHash() == hash
    case .lasting: holds = true
    // Without a hash, only reading the attributes themselves can verify them.
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

  /// Returns all characteristics with a UUID: from an earlier link if they are verified as unchanged,
  /// otherwise by reading the declarations of all services.
  ///
  /// - Returns: The characteristics, without descriptors unless they were known.
  public func characteristics(_ uuid: BluetoothUUID) async throws(GATTError) -> [GATTDatabase.Characteristic]
  {
    if let database = await connection.discovery?.database(of: nil) { return database.characteristics(uuid) }
    if let known = await connection.known, known.extent == .whole, known.proof != .none,
      let earlier = try await earlierAttributes(of: nil)
    {
      return earlier.characteristics(uuid)
    }
    return try await connection.findCharacteristics(uuid)
  }

  /// Returns the first characteristic with a UUID that has any of these properties; if none has, the first
  /// with the UUID.
  ///
  /// - Returns: The characteristic with its descriptors; `nil` if the device lacks it.
  public func characteristic(
    _ uuid: BluetoothUUID, with properties: CharacteristicProperties = []
  ) async throws(GATTError) -> GATTDatabase.Characteristic? {
    let all = try await characteristics(uuid)
    guard let found = all.first(where: { !$0.properties.isDisjoint(with: properties) }) ?? all.first else {
      return nil
    }
    return try await withDescriptors(found)
  }

  /// Adds the descriptors to a result of `characteristics`.
  public func withDescriptors(
    _ characteristic: GATTDatabase.Characteristic
  ) async throws(GATTError) -> GATTDatabase.Characteristic {
    guard characteristic.descriptors.isEmpty, await connection.discovery == nil else { return characteristic }
    var found = characteristic
    found.descriptors = try await connection.findDescriptors(of: characteristic)
    return found
  }

  /// Returns the attributes that a stream needs of a service, with as few requests as possible: from an
  /// earlier link if they are verified as unchanged, otherwise with `findCharacteristics`. `complete`
  /// discovers the rest while the stream runs.
  ///
  /// - Parameters:
  ///   - characteristics: characteristics that notify or indicate.
  ///   - others: characteristics that only need to exist.
  ///   - service: UUID of the service.
  ///   - search: how to discover the service if it is not known.
  /// - Returns: The services that have the first of the characteristics. If any of them can send that
  ///   characteristic's values, the others are left out. They contain at least the requested characteristics
  ///   that exist.
  public func attributes(
    toStream characteristics: [BluetoothUUID], with others: [BluetoothUUID] = [], of service: BluetoothUUID,
    by search: ServiceSearch = .uuid
  ) async throws(GATTError) -> [GATTDatabase.Service] {
    func candidates(_ services: [GATTDatabase.Service]) -> [GATTDatabase.Service] {
      let able = services.filter { $0.canPush(characteristics.first) }
      return able.isEmpty ? services : able
    }
    if let database = await connection.discovery?.database(of: [service]) {
      return candidates(database.services)
    }
    // Without a hash, verifying a single service takes as many requests as discovering it.
    if let known = await connection.known, known.proof != .none,
      let earlier = try await earlierAttributes(of: [service])
    {
      return candidates(earlier.services)
    }
    await connection.dropKnown()
    let found = try await connection.findCharacteristics(
      characteristics, with: others, in: service, by: search)
    streamed = found.flatMap(\.characteristics)
    return found
  }

  /// Completes a link whose stream was started early: exchanges the MTU, subscribes to changes, and discovers
  /// all attributes.
  ///
  /// If the stream's characteristics turn out to have other handles, wakes the tasks that await attribute
  /// changes.
  ///
  /// - Parameter services: UUIDs of the services; `nil` for all.
  /// - Returns: `nil` if the attributes have changed.
  public func complete(of services: [BluetoothUUID]? = nil) async throws(GATTError) -> GATTDatabase? {
    if let known = await connection.discovery?.database(of: services) { return known }
    let database = try await attributes(of: services)
    for characteristic in streamed {
      guard database.characteristic(valueHandle: characteristic.valueHandle)?.uuid == characteristic.uuid
      else {
        await connection.attributesChanged(in: .all)
        return nil
      }
    }
    return database
  }

  /// Completes a link whose stream was started with attributes of an earlier link: exchanges the MTU and
  /// subscribes to changes. Compares the hash again, because the device may have changed before it was
  /// subscribed to.
  public func validate() async throws(GATTError) {
    try await exchangeMTU()
    guard let generic = await connection.discovery?.database(of: [.genericAttribute])?.services.first else {
      return
    }
    try await watch(generic)
    guard let hash = await connection.discovery?.databaseHash, try await connection.readDatabaseHash() != hash
    else { return }
    await connection.attributesChanged(in: .all)
  }

  /// Whether characteristics are unchanged. A declaration contains properties, value handle and UUID, so
  /// comparing its bytes is sufficient.
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

  /// Checks by discovery whether attributes of an earlier link are unchanged, without touching subscriptions.
  /// Call it if a device whose attributes cannot change behaves as if they had. A matching hash needs no
  /// further check.
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
      guard try await connection.discoverServices(service.uuid).contains(service) else { return false }
    }
    return true
  }

  /// Subscribes to attribute changes if the device supports it.
  ///
  /// - Returns: The Database Hash, read after the subscription so that no change is missed.
  func watch() async throws(GATTError) -> [UInt8]? {
    generic = try await connection.toldServices(.genericAttribute).map { Array($0.prefix(1)) }
    guard let generic = generic?.first else { return nil }
    try await watch(generic)
    guard generic.characteristics.contains(where: { $0.uuid == .databaseHash }) else { return nil }
    return try await connection.readDatabaseHash()
  }

  /// Enables Service Changed indications (Core 5.4, Vol 3, Part G, 7.1) and robust caching (7.2). Ignores a
  /// refusal by the device.
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
        // Deferred, because this runs while a batch iterates over the subscribers.
        connection.loop.later(connection) { $0.attributesChanged(in: range) }
      }
    }
    try await connection.configure(characteristic, .indication)
  }
}
