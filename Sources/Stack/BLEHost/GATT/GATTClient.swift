import BLELinux
public import BLEStack
public import BLEWire

/// The GATT client of one connection: discovery, reads, writes and subscriptions.
public actor GATTClient {
  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }

  /// Result of the last discovery.
  public internal(set) var database = GATTDatabase()
  /// Characteristics of a stream that was started before the other attributes were discovered.
  var streamed: [GATTDatabase.Characteristic] = []
  /// The Generic Attribute service, which reports changes; empty if the device lacks it, `nil` if that is
  /// unknown.
  var generic: [GATTDatabase.Service]?
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

  /// Discovers the services with these UUIDs, as many of each as fit in one response, and the service that
  /// reports changes of attributes.
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
