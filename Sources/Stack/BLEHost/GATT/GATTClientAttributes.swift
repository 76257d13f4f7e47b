import BLELinux
public import BLEStack
public import BLEWire

/// What is known of a device's attributes, and what is not asked before a stream needs it.
extension GATTClient {
  /// Attributes to work with: those of an earlier link if it is proven that they are as they were, else by discovery.
  ///
  /// Of an earlier link they cost one round trip where the device has a Database Hash, and none where it has no Service
  /// Changed. Else services that are named cost one for each declaration and one for the descriptors of each characteristic, and
  /// the whole database is discovered. The MTU of attributes that were known stays as it is, until `validate` or `exchangeMTU`.
  ///
  /// - Parameter services: by their UUIDs; `nil` for all there are.
  /// - Returns: those that are there, in the order asked for.
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
    // Nothing says so but the attributes themselves.
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

  /// All characteristics of a UUID: of an earlier link where that is proven to hold, else by the declarations of all services.
  ///
  /// - Returns: without descriptors where they were not known.
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

  /// The first characteristic of a UUID that has any of these properties, else the first.
  ///
  /// - Returns: with its descriptors; `nil` where the device has none.
  public func characteristic(
    _ uuid: BluetoothUUID, with properties: CharacteristicProperties = []
  ) async throws(GATTError) -> GATTDatabase.Characteristic? {
    let all = try await characteristics(uuid)
    guard let found = all.first(where: { !$0.properties.isDisjoint(with: properties) }) ?? all.first else {
      return nil
    }
    return try await withDescriptors(found)
  }

  /// A characteristic of `characteristics` with its descriptors.
  public func withDescriptors(
    _ characteristic: GATTDatabase.Characteristic
  ) async throws(GATTError) -> GATTDatabase.Characteristic {
    guard characteristic.descriptors.isEmpty, await connection.discovery == nil else { return characteristic }
    var found = characteristic
    found.descriptors = try await connection.findDescriptors(of: characteristic)
    return found
  }

  /// What a stream needs of a service, in the fewest requests: of an earlier link where it is proven to hold, else as
  /// `findCharacteristics` finds it. The rest comes by `complete`, once the stream runs.
  ///
  /// - Parameters:
  ///   - characteristics: which notify or indicate.
  ///   - others: which need only be there.
  ///   - service: by its UUID.
  ///   - search: how the service is found where it is not known.
  /// - Returns: the services that have the first of the characteristics, those first whose values can be turned on; of
  ///   characteristics at least those that are there.
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
    // To prove a service by itself takes as many requests as to find it.
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

  /// What a link still owes once its stream runs, or has nothing to say: the MTU, to hear of changes, and all attributes.
  ///
  /// Where the stream's turn out to be elsewhere, whoever waits for changes of attributes hears of it.
  ///
  /// - Parameter services: by their UUIDs; `nil` for all there are.
  /// - Returns: `nil` where the attributes have changed.
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

  /// What a link with attributes of an earlier one still owes when its stream runs: the MTU, and to hear of changes. The
  /// hash is compared again, as the device may have changed before it knew that we want to hear of it.
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
      guard try await connection.discoverServices(service.uuid).contains(service) else { return false }
    }
    return true
  }

  /// Has the device tell of changes from now on, as far as it can.
  ///
  /// - Returns: its Database Hash, as it is when changes are told already.
  func watch() async throws(GATTError) -> [UInt8]? {
    generic = try await connection.toldServices(.genericAttribute).map { Array($0.prefix(1)) }
    guard let generic = generic?.first else { return nil }
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
