import BLELinux
public import BLEStack
public import BLEWire

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
