import BLELinux
public import BLEStack
public import BLEWire

/// The device's attributes as known to a connection.
struct AttributeCache {
  /// Attributes from an earlier link that are not verified yet.
  var known: GATTDiscoveryResult?
  /// Attributes that are valid on this link, according to the changes that the device has reported.
  var found: GATTDiscoveryResult?
  /// Whether `found` comes from an earlier link.
  var isFromEarlierLink = false
  /// Whether the attributes of an earlier link were discovered by an earlier run of the program.
  var isRecalled = false
  /// Firmware revision that the earlier run read from the device.
  var recalledFirmware: String?
  var changeCount = 0
  /// The Service Changed characteristic, once subscribed to.
  var changeHandle: AttributeHandle?
  var isSynchronising = false
  var observer: (@Sendable (GATTDiscoveryResult) -> Void)?
  var firmwareObserver: (@Sendable (String) -> Void)?
  var blameObserver: (@Sendable (LinkSuspect) -> Void)?
  /// Tasks that await a change of the attributes or the end of the bearer.
  let watchers = Waiters()
  /// Characteristics of a stream that was started before the other attributes were discovered.
  var streamed: [GATTDatabase.Characteristic] = []
  /// Features to enable on a device that has Client Supported Features.
  var features = ClientFeatures.robustCaching
}

/// Attributes kept from one link to the next, and their changes. Core 5.4, Vol 3, Part G, 2.5.2.
extension Connection {
  /// Sets the observer of discoveries. `body` is called on the loop's thread after each successful discovery,
  /// and when attributes of an earlier link are verified. When the attributes have changed, it receives an
  /// empty result. `body` must not block.
  public func whenDiscovered(_ body: @escaping @Sendable (GATTDiscoveryResult) -> Void) {
    attributeCache.observer = body
  }

  /// Sets attributes that were discovered on an earlier link to the same device. They are used once they
  /// are verified.
  public func restore(_ known: GATTDiscoveryResult) {
    attributeCache.known = known
    attributeCache.isRecalled = false
  }

  /// Sets the knowledge about the device from an earlier run of the program, which may be old.
  ///
  /// - Parameters:
  ///   - known: the discovery result; `nil` if it must not be used.
  ///   - firmware: the firmware revision that was read.
  ///   - suspects: suspected causes of ended links; these are not requested.
  package func recall(_ known: GATTDiscoveryResult?, firmware: String?, not suspects: [LinkSuspect]) {
    attributeCache.known = known
    (attributeCache.isRecalled, attributeCache.recalledFirmware) = (known != nil, firmware)
    recalled = suspects
    avoid(Set(suspects.compactMap(\.request)))
    for suspect in suspects { note(.notAsked(suspect)) }
  }

  /// Whether the attributes in use were discovered by an earlier run of the program.
  package var usesRecalledAttributes: Bool { attributeCache.isRecalled && attributeCache.isFromEarlierLink }

  /// The firmware revision that an earlier run read; `nil` unless its attributes are in use.
  package var recalledFirmware: String? { usesRecalledAttributes ? attributeCache.recalledFirmware : nil }

  /// Sets the observer of the firmware revision. `body` is called when it has been read.
  package func whenFirmwareTold(_ body: @escaping @Sendable (String) -> Void) {
    attributeCache.firmwareObserver = body
  }

  package func noteFirmware(_ revision: String) { attributeCache.firmwareObserver?(revision) }

  /// Sets the observer of suspects. `body` is called with the cause for which the device ended a link, once
  /// it is certain enough to be remembered.
  package func whenBlamed(_ body: @escaping @Sendable (LinkSuspect) -> Void) {
    attributeCache.blameObserver = body
  }

  package func blame(_ suspect: LinkSuspect) { attributeCache.blameObserver?(suspect) }

  /// Attributes discovered on this link, or on an earlier link and verified; `nil` once they have changed.
  public var discovery: GATTDiscoveryResult? { attributeCache.found }

  /// Whether `discovery` comes from an earlier link.
  public var usesEarlierDiscovery: Bool { attributeCache.isFromEarlierLink }

  /// Number of times that the device's attributes changed during the connection, or that attributes of an
  /// earlier link proved wrong.
  public var attributeChangeCount: Int { attributeCache.changeCount }

  /// Waits until `attributeChangeCount` differs from this number or the bearer has ended.
  public func attributesChanged(since count: Int) async {
    await attributeCache.watchers.wait { attributeCache.changeCount != count || end != nil }
  }

  private func noteDiscovery(_ result: GATTDiscoveryResult) {
    attributeCache.found = result
    attributeCache.isFromEarlierLink = false
    attributeCache.observer?(result)
  }

  /// Uses the attributes of an earlier link, which have been verified.
  private func useKnown() {
    guard let known = attributeCache.known.take() else { return }
    noteDiscovery(known)
    attributeCache.isFromEarlierLink = true
  }

  /// Invalidates the handles in this range. Subscriptions to them end, and the observer receives an empty
  /// result.
  public func attributesChanged(in range: HandleRange) {
    if usesRecalledAttributes { note(.attributesReplaced) }
    attributeCache.known = nil
    attributeCache.observer?(GATTDiscoveryResult(GATTDatabase(), .none))
    if let found = attributeCache.found, found.extent == .part,
      !found.database.services.contains(where: { $0.range.start <= range.end && range.start <= $0.range.end })
    {
      // The services in use are unchanged, but the old hash cannot verify them on a later link.
      attributeCache.found?.databaseHash = nil
      return
    }
    attributeCache.changeCount += 1
    attributeCache.found = nil
    attributeCache.streamed = []
    attributeCache.isFromEarlierLink = false
    removeSubscribers(in: range, but: attributeCache.changeHandle)
    attributeCache.watchers.wakeAll()
  }

  /// Records a subscription to changes.
  ///
  /// - Returns: Whether it is new.
  private func beginWatch(_ handle: AttributeHandle) -> Bool {
    defer { attributeCache.changeHandle = handle }
    return attributeCache.changeHandle != handle
  }

  /// Whether to repeat a request that was refused with Database Out Of Sync: only if the Database Hash is
  /// unchanged.
  ///
  /// Core 5.4, Vol 3, Part G, 2.5.2.1. No other request is pending, because there is one bearer and one
  /// request at a time.
  func isInStep() async throws(GATTError) -> Bool {
    guard !attributeCache.isSynchronising else { return false }
    attributeCache.isSynchronising = true
    defer { attributeCache.isSynchronising = false }
    let count = attributeCache.changeCount
    if let hash = attributeCache.found?.databaseHash, try await readDatabaseHash() == hash {
      return attributeCache.changeCount == count
    }
    attributesChanged(in: .all)
    return false
  }
}

// MARK: - Discovery

/// Access to a device's attributes with as few requests as possible before a stream starts.
extension Connection {
  /// Discovers all attributes.
  @discardableResult
  public func discover() async throws(GATTError) -> GATTDatabase {
    // Read the hash first. If attributes change during the discovery, it then does not match them.
    try await discover(hash: try await readDatabaseHash())
  }

  private func discover(hash: [UInt8]?) async throws(GATTError) -> GATTDatabase {
    let (told, refused) = try await discoverToldDatabase()
    let extent: GATTDiscoveryResult.Extent = refused.isEmpty ? .whole : .part
    noteDiscovery(GATTDiscoveryResult(told, extent, databaseHash: hash))
    return GATTDatabase(services: (told.services + refused).sorted { $0.range.start < $1.range.start })
  }

  /// Discovers the services with these UUIDs, and the Generic Attribute service. For each UUID, returns
  /// only the services that fit in one response.
  ///
  /// - Returns: The services that exist, in the order of `services`, without those that the device refuses to
  ///   list.
  public func discover(services: [BluetoothUUID]) async throws(GATTError) -> GATTDatabase {
    let (generic, hash) = try await watch()
    var result = GATTDiscoveryResult(GATTDatabase(), .part, databaseHash: hash)
    let wanted = services.contains(.genericAttribute) ? services : [.genericAttribute] + services
    for uuid in wanted {
      guard let found = uuid == .genericAttribute ? generic : try await toldServices(uuid) else {
        continue
      }
      if found.isEmpty { result.absent.append(uuid) }
      result.database.services += found
    }
    noteDiscovery(result)
    return GATTDatabase(
      services: services.flatMap { uuid in result.database.services.filter { $0.uuid == uuid } })
  }

  /// Returns the attributes of an earlier link if they are verified as unchanged, otherwise discovers them.
  ///
  /// Verification takes one round trip if the device has a Database Hash, and none if the device has no
  /// Service Changed. For other devices, given services take one request per declaration and one request for
  /// the descriptors of each characteristic; the whole database is discovered again. If the attributes were
  /// known, the MTU is not exchanged until `validate` or `exchangeMTU`.
  ///
  /// - Parameter services: UUIDs of the services; `nil` for all.
  /// - Returns: The services that exist, in the order of the parameter.
  public func attributes(of services: [BluetoothUUID]? = nil) async throws(GATTError) -> GATTDatabase {
    if let earlier = try await earlierAttributes(of: services) { return earlier }
    try await exchangeMTU()
    if let services { return try await discover(services: services) }
    return try await discover(hash: try await watch().hash)
  }

  private func earlierAttributes(
    of services: [BluetoothUUID]?
  ) async throws(GATTError) -> GATTDatabase? {
    guard let known = attributeCache.known, let database = known.database(of: services) else { return nil }
    let holds: Bool
    switch known.proof {
    case .hash(let hash): holds = try await readDatabaseHash() == hash
    case .lasting: holds = true
    // Without a hash, attributes can be verified only by reading them.
    case .none: holds = if services == nil { false } else { try await stands(database) }
    }
    guard holds else {
      attributeCache.known = nil
      return nil
    }
    useKnown()
    return database
  }

  /// Returns all characteristics with a UUID. Takes them from an earlier link if they are verified as
  /// unchanged, otherwise reads the declarations of all services.
  ///
  /// - Returns: The characteristics, without descriptors unless they were known.
  public func characteristics(_ uuid: BluetoothUUID) async throws(GATTError) -> [GATTDatabase.Characteristic]
  {
    if let database = discovery?.database(of: nil) { return database.characteristics(uuid) }
    if let known = attributeCache.known, known.extent == .whole, known.proof != .none,
      let earlier = try await earlierAttributes(of: nil)
    {
      return earlier.characteristics(uuid)
    }
    return try await findCharacteristics(uuid)
  }

  /// Returns the first characteristic with a UUID that has any of these properties. If no characteristic with
  /// the UUID has them, returns the first.
  ///
  /// - Returns: The characteristic with its descriptors, or `nil` if the device lacks the characteristic.
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
    guard characteristic.descriptors.isEmpty, discovery == nil else { return characteristic }
    var found = characteristic
    found.descriptors = try await findDescriptors(of: characteristic)
    return found
  }

  /// Returns the attributes that a stream needs of a service, with as few requests as possible. Takes them
  /// from an earlier link if they are verified as unchanged, otherwise calls `findCharacteristics`.
  /// `complete` discovers the remaining attributes while the stream runs.
  ///
  /// - Parameters:
  ///   - characteristics: characteristics that notify or indicate.
  ///   - others: characteristics that only need to exist.
  ///   - service: UUID of the service.
  ///   - search: method of discovering the service if it is not known.
  /// - Returns: The services that have the first of the characteristics. If some of these services can send
  ///   that characteristic's values, the other services are left out. A service contains at least those
  ///   requested characteristics that exist.
  public func attributes(
    toStream characteristics: [BluetoothUUID], with others: [BluetoothUUID] = [], of service: BluetoothUUID,
    by search: ServiceSearch = .uuid
  ) async throws(GATTError) -> [GATTDatabase.Service] {
    attributeCache.streamed = []
    func candidates(_ services: [GATTDatabase.Service]) -> [GATTDatabase.Service] {
      let able = services.filter { $0.canPush(characteristics.first) }
      return able.isEmpty ? services : able
    }
    if let database = discovery?.database(of: [service]) {
      return candidates(database.services)
    }
    // Without a hash, verifying a single service takes as many requests as discovering it.
    if let known = attributeCache.known, known.proof != .none,
      let earlier = try await earlierAttributes(of: [service])
    {
      return candidates(earlier.services)
    }
    attributeCache.known = nil
    let found = try await findCharacteristics(
      characteristics, with: others, in: service, by: search)
    attributeCache.streamed = found.flatMap(\.characteristics)
    return found
  }

  /// Completes a link whose stream was started early: exchanges the MTU, subscribes to changes, and discovers
  /// all attributes.
  ///
  /// If the stream's characteristics have other handles, wakes the tasks that await attribute changes.
  ///
  /// - Parameter services: UUIDs of the services; `nil` for all.
  /// - Returns: `nil` if the attributes have changed.
  public func complete(of services: [BluetoothUUID]? = nil) async throws(GATTError) -> GATTDatabase? {
    if let known = discovery?.database(of: services) { return known }
    let database = try await attributes(of: services)
    for characteristic in attributeCache.streamed {
      guard database.characteristic(valueHandle: characteristic.valueHandle)?.uuid == characteristic.uuid
      else {
        attributesChanged(in: .all)
        return nil
      }
    }
    return database
  }

  /// Completes a link whose stream was started with attributes of an earlier link: exchanges the MTU and
  /// subscribes to changes. Compares the hash again, because the attributes may have changed before the
  /// subscription.
  public func validate() async throws(GATTError) {
    try await exchangeMTU()
    guard let generic = discovery?.database(of: [.genericAttribute])?.services.first else {
      return
    }
    try await watch(generic)
    guard let hash = discovery?.databaseHash, try await readDatabaseHash() != hash
    else { return }
    attributesChanged(in: .all)
  }

  /// Returns whether characteristics are unchanged. A declaration contains properties, value handle and UUID,
  /// so comparing its bytes is sufficient.
  private func stands(_ database: GATTDatabase) async throws(GATTError) -> Bool {
    for characteristic in database.services.flatMap(\.characteristics) {
      let declaration = [UInt8](encoding: 19) {
        CharacteristicDeclaration(
          properties: characteristic.properties, valueHandle: characteristic.valueHandle,
          uuid: characteristic.uuid
        ).encode(into: &$0)
      }
      do throws(GATTError) {
        guard try await read(characteristic.handle, from: 0) == declaration,
          try await discoverDescriptors(of: characteristic) == characteristic.descriptors
        else { return false }
      } catch {
        guard case .refused = error else { throw error }
        return false
      }
    }
    return true
  }

  /// Checks by discovery whether attributes of an earlier link are unchanged, without touching subscriptions.
  /// Call this if the attributes of a device seem to have changed although the device cannot change them. A
  /// matching hash needs no further check.
  public func verify() async throws(GATTError) {
    guard let found = discovery, usesEarlierDiscovery,
      found.proof == .lasting
    else { return }
    try await exchangeMTU()
    if try await !isAsItWas(found) { attributesChanged(in: .all) }
  }

  private func isAsItWas(_ found: GATTDiscoveryResult) async throws(GATTError) -> Bool {
    if found.extent == .whole { return try await discoverDatabase() == found.database }
    for service in found.database.services {
      guard try await discoverServices(service.uuid).contains(service) else { return false }
    }
    return true
  }

  /// Subscribes to attribute changes if the device supports this.
  ///
  /// - Returns: The Generic Attribute service, which reports changes: empty if the device lacks it, `nil` if
  ///   that is unknown. The Database Hash, read after the subscription so that no change is missed.
  private func watch() async throws(GATTError) -> (generic: [GATTDatabase.Service]?, hash: [UInt8]?) {
    let told = try await toldServices(.genericAttribute).map { Array($0.prefix(1)) }
    guard let generic = told?.first else { return (told, nil) }
    try await watch(generic)
    guard generic.characteristics.contains(where: { $0.uuid == .databaseHash }) else { return (told, nil) }
    return (told, try await readDatabaseHash())
  }

  /// Enables Service Changed indications (Core 5.4, Vol 3, Part G, 7.1) and robust caching (7.2). Ignores a
  /// refusal by the device.
  private func watch(_ generic: GATTDatabase.Service) async throws(GATTError) {
    for characteristic in generic.characteristics {
      do throws(GATTError) {
        switch characteristic.uuid {
        case .serviceChanged: try await watch(changes: characteristic)
        case .clientSupportedFeatures where characteristic.properties.contains(.write):
          try await write([attributeCache.features.rawValue], to: characteristic.valueHandle)
        default: break
        }
      } catch {
        guard case .refused(let refusal) = error, refusal.code != .databaseOutOfSync else { throw error }
      }
    }
  }

  private func watch(changes characteristic: GATTDatabase.Characteristic) async throws(GATTError) {
    guard characteristic.configuration != nil, characteristic.properties.contains(.indicate) else { return }
    if beginWatch(characteristic.valueHandle) {
      _ = addSubscriber(characteristic.valueHandle) { [weak self] notification, _ in
        let range = HandleRange(serviceChanged: notification.value)
        guard let self else { return }
        // Deferred, because this runs while a batch iterates over the subscribers.
        loop.later(self) { $0.attributesChanged(in: range) }
      }
    }
    try await configure(characteristic, .indication)
  }

  /// Sets the features to enable on a device that has Client Supported Features; `robustCaching` by default.
  /// Call it before the first discovery.
  public func enable(_ features: ClientFeatures) { attributeCache.features = features }
}

// MARK: - Values

extension Connection {
  /// Reads a whole value of any length. If the value fills the first response, exchanges the MTU before it
  /// reads the rest.
  public func read(_ handle: AttributeHandle) async throws(GATTError) -> [UInt8] {
    let full = ATT.defaultMTU - 1
    guard mtu == ATT.defaultMTU, !hasAskedMTU else {
      return try await read(handle, from: 0)
    }
    let request = [UInt8](encoding: 3) { ReadRequest(handle: handle).encode(into: &$0) }
    let start = try await transact(request).dropFirst()
    guard start.count >= full else { return Array(start) }
    try await exchangeMTU()
    do throws(GATTError) { return try await start + read(handle, from: UInt16(start.count)) } catch {
      // The value exactly fills the first response.
      guard case .refused(let refusal) = error, [.attributeNotLong, .invalidOffset].contains(refusal.code)
      else { throw error }
      return Array(start)
    }
  }

  /// Subscribes to a characteristic: as `way` specifies, otherwise with notifications if it supports them and
  /// with indications if not.
  ///
  /// `body` is called on the receive thread. It must not block, allocate or keep the view. It is registered
  /// before the request is sent, so that the first value is not lost.
  ///
  /// Only the Client Characteristic Configuration (2902) is written. A device that lacks it or refuses the
  /// write may still send values; `remarks` records that. After a refusal, a value must arrive
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
    followedBy command: AttributeWrite? = nil, _ body: @escaping Sink
  ) async throws(GATTError) -> Subscription {
    guard way != nil || characteristic.canPush else {
      throw .notSupported(characteristic.valueHandle, needs: [.notify, .indicate])
    }
    let usual: ServerPush = characteristic.properties.contains(.notify) ? .notification : .indication
    let id = addSubscriber(characteristic.valueHandle, body)
    do throws(GATTError) {
      let found = try await configure(
        try await withConfiguration(characteristic), way ?? usual, isChosen: way != nil, followedBy: command,
        hearing: id)
      return Subscription(characteristic: found, id: id)
    } catch {
      _ = removeSubscriber(id)
      throw error
    }
  }

  /// Returns the characteristic with its Client Characteristic Configuration descriptor, if the device has
  /// one.
  private func withConfiguration(
    _ characteristic: GATTDatabase.Characteristic
  ) async throws(GATTError) -> GATTDatabase.Characteristic {
    guard characteristic.configuration == nil, !attributeCache.streamed.contains(characteristic) else {
      return characteristic
    }
    var found = characteristic
    found.descriptors = try await findConfiguration(of: characteristic)
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
      try await configure(characteristic, value, followedBy: command)
      return characteristic
    } catch {
      guard case .refused = error, end == nil else { throw error }
      refusal = error
    }
    if attributeCache.streamed.contains(characteristic) {
      // The handle of the descriptor was guessed, and this device does not follow the rule. Discover it.
      var found = characteristic
      found.descriptors = try await discoverDescriptors(of: characteristic)
      if found.configuration != nil, found.configuration != characteristic.configuration {
        try await configure(found, value, followedBy: command)
        return found
      }
    }
    let other: ServerPush = way == .notification ? .indication : .notification
    if !isChosen, characteristic.properties.contains(other == .notification ? .notify : .indicate),
      (try? await configure(
        characteristic, ClientCharacteristicConfiguration(rawValue: UInt16(other.rawValue)),
        followedBy: command)) != nil
    {
      return characteristic
    }
    // If the attributes come from an earlier link, a refusal more likely means that they have changed.
    let isAvoided = avoidsSubscriptions
    if isAvoided || !usesEarlierDiscovery, await hasHeard(id, within: Self.refusalPatience) {
      if !isAvoided { note(.listeningDespite(characteristic.valueHandle, refusal)) }
      return characteristic
    }
    // The subscription may not have been the cause when the device ended an earlier link.
    guard allowSubscriptions() else { throw refusal }
    try await configure(characteristic, value, followedBy: command)
    return characteristic
  }

  /// Time to wait for a value after the device has refused the subscription.
  public static let refusalPatience = Duration.seconds(2)

  /// Ends a subscription. If the characteristic has no other subscriber, turns its values off on the device.
  public func unsubscribe(_ subscription: Subscription) async throws(GATTError) {
    let isWanted = removeSubscriber(subscription.id)
    if !isWanted { try await configure(subscription.characteristic, [], followedBy: nil) }
  }

  /// Turns a characteristic's values off on the device, and removes all subscribers.
  public func unsubscribe(all characteristic: GATTDatabase.Characteristic) async throws(GATTError) {
    removeSubscribers(of: characteristic.valueHandle)
    try await configure(characteristic, [], followedBy: nil)
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
    loop.task {
      _ = await self.ended()
      channel.finish()
    }
    return channel
  }

  /// Turns notifications or indications on or off, and sends a command right after. If the characteristic has
  /// no configuration descriptor, only the command is sent: values may arrive anyway.
  func configure(
    _ characteristic: GATTDatabase.Characteristic, _ configuration: ClientCharacteristicConfiguration,
    followedBy command: AttributeWrite?
  ) async throws(GATTError) {
    guard let handle = characteristic.configuration else {
      if !configuration.isEmpty { note(.listeningOnly(characteristic.valueHandle)) }
      if let command { try await writeWithoutResponse(command.value, to: command.handle) }
      return
    }
    let value = [UInt8](encoding: 2) { $0.append(u16: configuration.rawValue) }
    let request = [UInt8](encoding: 5) { Write(request: handle, value: value.span).encode(into: &$0) }
    let behind = command.map { command in
      [UInt8](encoding: 3 + command.value.count) {
        Write(command: command.handle, value: command.value.span).encode(into: &$0)
      }
    }
    _ = try await transact(request, followedBy: behind)
  }

  /// Removes all subscribers except the one to Service Changed.
  public func endSubscriptions() { removeSubscribers(in: .all, but: attributeCache.changeHandle) }
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
