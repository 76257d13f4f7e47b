package import BLEHost
public import BLELinux
public import BLEStack
public import BLEWire

/// A GATT server: one database of attributes for any number of links to centrals.
///
/// ```swift
/// let rate = GATTCharacteristicDescription(.heartRateMeasurement, .notify)
/// let server = GATTServer([GATTServiceDescription(.heartRate, characteristics: [rate])], on: loop)
/// let handle = await server.handle(of: .heartRateMeasurement)
/// for await event in server.events {
///   guard case .subscribed(let central, handle, [.notification]) = event else { continue }
///   try await server.notify([0x00, 72], of: handle, to: central)
/// }
/// ```
///
/// The server runs on the event loop of its adapter; the receive thread answers requests with the values in
/// the database. Each characteristic specifies its permissions. If an attribute requires a secure link, a
/// central must pair before it can use the attribute; the adapter's `SecuritySettings` determine how. A
/// bonded central that reconnects keeps its subscriptions.
public actor GATTServer {
  /// Maximum number of queued events. Later events are dropped and counted, but a written value can also be
  /// read from the database.
  public static let eventLimit = 1024
  /// Maximum number of disconnected bonded centrals whose subscriptions are kept. Beyond this number, the
  /// oldest are removed.
  public static let keptLimit = 64

  /// Returns the value for a read. Called on the receive thread; must not block.
  public typealias ReadHandler = @Sendable () -> [UInt8]
  /// Checks whether a value may be written. Returns an error to refuse the value. Called on the receive thread
  /// before the value is stored. Must not block and must not act on the value yet, because a long write stores
  /// all of its values or none.
  public typealias WriteCheck = @Sendable (Central, [UInt8]) -> ATTErrorCode?

  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  /// Actions of centrals, in order, for a single consumer. Ends when the server is closed.
  public nonisolated let events: AsyncStream<GATTServerEvent>

  private nonisolated let emitter: AsyncStream<GATTServerEvent>.Continuation
  private let name: String
  private let appearance: UInt16
  private(set) var database: GATTServerDatabase
  private(set) var links: [CentralLink] = []
  /// State of bonded centrals that are not connected.
  private var kept: [(identity: DeviceAddress, server: ATTServer)] = []
  private var readers: [AttributeHandle: ReadHandler] = [:]
  private var checks: [AttributeHandle: WriteCheck] = [:]
  /// Device that answers requests instead of the database, if set.
  private let device: (any AttributeDevice)?
  private var lastNumber = 0
  var counts = GATTServerStatistics()
  /// Number of links that have come up, plus number of links that have ended.
  private(set) var turnover = 0
  private let news = Waiters()
  /// Store of the bonds, whose keys verify signed writes.
  private var bonds: (any BondStore)?
  /// Checks the security of a link. For an adapter that may report a change late.
  private var look: ((Connection) -> Void)?
  /// Set when the controller has failed.
  private(set) var failure: HostError?
  private(set) var isClosed = false
  private var hasBegun = false

  /// Creates a server.
  ///
  /// - Parameters:
  ///   - services: in the order of their handles. Generic Access and Generic Attribute are prepended unless
  ///     present. The prepended Generic Attribute has Service Changed and Database Hash.
  ///   - name: value of the Device Name characteristic.
  ///   - appearance: a value of Bluetooth Assigned Numbers, 2.6; 0 is "unknown".
  ///   - loop: the event loop of the adapter that advertises.
  public init(
    _ services: [GATTServiceDescription], name: String = "ringtap", appearance: UInt16 = 0,
    on loop: EventLoop
  ) {
    self.loop = loop
    self.name = name
    self.appearance = appearance
    database = GATTServerDatabase(services.withGenericServices(name: name, appearance: appearance))
    device = nil
    (events, emitter) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.eventLimit))
  }

  /// Creates a server for the attributes of another device. The server manages the links; the device answers
  /// the requests.
  package init(_ device: any AttributeDevice, on loop: EventLoop) {
    self.loop = loop
    self.device = device
    (name, appearance) = ("", 0)
    database = GATTServerDatabase([])
    (events, emitter) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.eventLimit))
  }

  // MARK: Attributes

  /// Returns the value handle of the first characteristic of this type, or `nil` if the server has no such
  /// characteristic.
  public func handle(of characteristic: BluetoothUUID) -> AttributeHandle? {
    database.valueHandle(of: characteristic)
  }

  /// The attributes with their current values.
  public var attributes: [GATTServerDatabase.Attribute] { database.attributes }

  public var statistics: GATTServerStatistics {
    var counts = counts
    for link in links { counts.faults += link.faults }
    return counts
  }

  /// Connected centrals, in the order in which they connected.
  public var centrals: [Central] { links.map(\.central) }

  /// Sets the value that later reads return. Does not inform the centrals; use `notify` or `indicate` to
  /// inform them.
  ///
  /// - Precondition: the handle exists and the value fits.
  public func setValue(_ value: [UInt8], of handle: AttributeHandle) {
    database.setValue(value.span, of: handle)
  }

  /// Sets a handler that returns the value whenever a central begins to read it. If `nil`, reads return the
  /// stored value.
  public func onRead(of handle: AttributeHandle, _ body: ReadHandler?) { readers[handle] = body }

  /// Sets a check that runs before a value is stored. `nil` removes the check.
  public func checkWrites(to handle: AttributeHandle, _ body: WriteCheck?) { checks[handle] = body }

  /// Returns the centrals that are subscribed to this characteristic.
  public func subscribers(
    of handle: AttributeHandle, _ push: ServerPush = .notification
  ) -> [Central] {
    links.filter { $0.server.isSubscribed(to: handle, push, in: database) }.map(\.central)
  }

  // MARK: Links

  /// Returns the callbacks for an adapter's links.
  ///
  /// - Parameters:
  ///   - bonds: has the keys that verify signed writes.
  ///   - look: called before a request is answered; calls `secured` if the link's security has changed.
  package func acceptor(
    tap: PacketTap?, bonds: (any BondStore)?, look: (@Sendable (Connection) -> Void)? = nil
  ) -> LinkAcceptor {
    self.bonds = bonds
    self.look = look
    return LinkAcceptor(tap: tap) {
      self.arrived($0)
    } secured: {
      self.secured($0)
    } notPaired: {
      if $0 != .linkLost { self.counts.failedPairings += 1 }
    } restarted: {
      self.stir()
    } lost: {
      self.failure = $0
      self.news.wakeAll()
    }
  }

  /// Ends all links and the event stream.
  public func close() async {
    isClosed = true
    news.wakeAll()
    await endLinks()
    emitter.finish()
  }

  func endLinks() async {
    for link in links { await link.connection.close() }
    await news.wait { links.isEmpty }
  }

  /// Replaces the attributes. Subscribed centrals receive Service Changed for all handles. Disconnected
  /// bonded centrals receive it when they reconnect. Subscriptions remain if their characteristics have not
  /// moved.
  ///
  /// Read and write handlers stay with their handles.
  public func change(to services: [GATTServiceDescription]) {
    let changed = GATTServerDatabase(services.withGenericServices(name: name, appearance: appearance))
    for link in links { link.server.databaseChanged(from: database, to: changed) }
    for index in kept.indices { kept[index].server.databaseChanged(from: database, to: changed) }
    database = changed
    for central in centrals { tellChange(central) }
  }

  private func arrived(_ connection: Connection) {
    lastNumber += 1
    counts.centrals += 1
    let central = Central(number: lastNumber, address: connection.peer)
    let link = CentralLink(central, connection, ATTServer(database: database))
    if let bonds { link.server.signatureCheck = { bonds.accepts($0, from: central.address) } }
    links.append(link)
    let answer = device?.connected(connection) ?? { self.answer($0, mtu: $1, on: link) }
    let responder = AttributeResponder {
      self.look?(connection)
      return answer($0, $1)
    }
    connection.assumeIsolated { $0.serve(responder) }
    emit(.connected(central))
    loop.task { await self.left(central, connection.ended()) }
    stir()
  }

  /// Updates the security of a link. If a bonded central encrypts with its stored key, restores its
  /// subscriptions; after a new pairing there are no subscriptions.
  private func secured(_ change: LinkSecurityChange) {
    // The controller may have reused the handle of a link whose end has not been processed yet.
    guard let link = links.last(where: { $0.connection.handle == change.handle }) else { return }
    link.server.security = change.security
    device?.secured(change)
    guard let source = change.source, let identity = change.identity, link.identity != identity else {
      return
    }
    link.identity = identity
    let index = kept.firstIndex { $0.identity == identity }
    let known = index.map { kept.remove(at: $0).server }
    guard source == .stored, var known else { return }
    known.resume(link.server)
    link.server = known
    for attribute in database.attributes where attribute.role == .value {
      let pushes = link.pushes(of: attribute.handle, database)
      if !pushes.isEmpty { emit(.subscribed(link.central, attribute.handle, pushes)) }
    }
    if known.isBehind { tellChange(link.central) }
  }

  private func left(_ central: Central, _ end: BearerEnd) {
    guard let index = links.firstIndex(where: { $0.central == central }) else { return }
    let link = links.remove(at: index)
    counts.faults += link.faults
    if link.server.hasPreparedWrites { counts.brokenWrites += 1 }
    if case .answersNotTaken = end { counts.floods += 1 }
    link.finish()
    // Break the cycle: the closure holds the link, and the link holds its connection.
    link.connection.assumeIsolated { $0.serve(nil) }
    device?.disconnected(link.connection)
    if let identity = link.identity { keep(link.server, of: identity) }
    emit(.disconnected(central, end))
    stir()
  }

  /// Records that advertising has started for the first time.
  func begin() {
    guard !hasBegun else { return }
    hasBegun = true
    news.wakeAll()
  }

  /// Waits until advertising has started or the server is closed.
  ///
  /// - Returns: Whether advertising has started.
  func isAdvertised() async -> Bool {
    await news.wait { hasBegun || isClosed }
    return hasBegun
  }

  /// Wakes the task that waits in `turns`.
  func stir() {
    turnover += 1
    news.wakeAll()
  }

  /// Waits until a link comes up or ends, or the controller fails.
  func turns(from turnover: Int) async throws(CancellationError) {
    try await news.waitUnlessCancelled { self.turnover != turnover || failure != nil }
  }

  private func keep(_ server: ATTServer, of identity: DeviceAddress) {
    var server = server
    server.linkEnded()
    kept.removeAll { $0.identity == identity }
    if kept.count == Self.keptLimit { kept.removeFirst() }
    kept.append((identity, server))
  }

  private func emit(_ event: GATTServerEvent) {
    if case .dropped = emitter.yield(event) { counts.droppedEvents += 1 }
  }

  // MARK: Requests, on the receive thread

  private func answer(_ pdu: Span<UInt8>, mtu: Int, on link: CentralLink) -> [UInt8] {
    link.server.exchangedMTU(peerMTU: UInt16(mtu))
    if pdu.count > 0, !readers.isEmpty { refresh(for: pdu, link.server.security) }
    var written: [(handle: AttributeHandle, value: [UInt8])] = []
    let answer = [UInt8](encoding: ATT.maximumMTU) {
      link.server.receive(pdu, database: &database, into: &$0) { handle, value in
        let value = [UInt8](encoding: value.count) { $0.append(value) }
        if let refusal = checks[handle]?(link.central, value) { return refusal }
        written.append((handle, value))
        return nil
      }
    }
    link.heard()
    // A refused request with several writes has stored no value.
    if answer.first != ATTOpcode.errorResponse.rawValue {
      for write in written { stored(write.value, at: write.handle, link) }
    } else if answer.last != ATTErrorCode.attributeNotFound.rawValue {
      counts.refusals += 1
    }
    return answer
  }

  private func stored(_ value: [UInt8], at handle: AttributeHandle, _ link: CentralLink) {
    guard let index = database.index(of: handle) else { return }
    guard case .configuration = database.attributes[index].role, index > 0 else {
      counts.writes += 1
      return emit(.written(link.central, handle, value))
    }
    // The descriptor directly follows the value.
    let characteristic = database.attributes[index - 1].handle
    emit(.subscribed(link.central, characteristic, link.pushes(of: characteristic, database)))
  }

  /// Updates values from their read handlers if the request reads them from the beginning.
  private func refresh(for pdu: Span<UInt8>, _ security: ATTSecurity) {
    switch ATTOpcode(rawValue: pdu[0]) {
    case .readRequest where pdu.count == 3: refresh(pdu.handle(at: 1), security)
    case .readBlobRequest where pdu.count == 5 && pdu.u16(at: 3) == 0: refresh(pdu.handle(at: 1), security)
    case .readMultipleRequest, .readMultipleVariableRequest:
      for offset in stride(from: 1, to: pdu.count - 1, by: 2) { refresh(pdu.handle(at: offset), security) }
    case .readByTypeRequest:
      guard let request = try? ReadByTypeRequest(validating: pdu) else { return }
      for handle in readers.keys where request.range.contains(handle) {
        guard let index = database.index(of: handle), database.attributes[index].type == request.type else {
          continue
        }
        refresh(handle, security)
      }
    default: break
    }
  }

  private func refresh(_ handle: AttributeHandle, _ security: ATTSecurity) {
    guard let reader = readers[handle], let index = database.index(of: handle),
      database.attributes[index].readAccess.refusal(on: security) == nil
    else { return }
    let value = Array(reader().prefix(database.attributes[index].maximumByteCount))
    database.setValue(value.span, of: handle)
  }
}

/// The owner of attributes outside a server's database. Answers the requests of centrals. Called only on the
/// event loop's thread.
package protocol AttributeDevice: AnyObject {
  /// Called when a central has connected. Returns the closure that answers the central's requests.
  func connected(_ connection: Connection) -> AttributeResponder.Answer
  func secured(_ change: LinkSecurityChange)
  func disconnected(_ connection: Connection)
}

/// A server's state for one link. Used only on the loop's thread.
final class CentralLink {
  let central: Central
  let connection: Connection
  var server: ATTServer
  /// Identity of a bonded central. Set after the central has encrypted the link with its key.
  var identity: DeviceAddress?
  /// Queue of notifications and indications: they are sent one at a time, in the order of the calls.
  let pushes = Turns()
  /// Queue of indications, because only one may be outstanding. Core 5.4, Vol 3, Part F, 3.3.2.
  let indications = Turns()
  /// Tasks that wait for a confirmation or the end of the link.
  let news = Waiters()
  private(set) var isOver = false
  var isUnconfirmed = false
  /// Task that ends the link if an indication is not confirmed in time.
  var patience: Task<Void, Never>?

  init(_ central: Central, _ connection: Connection, _ server: ATTServer) {
    self.central = central
    self.connection = connection
    self.server = server
  }

  /// Number of protocol violations by the central, counted by the server and by the connection.
  var faults: Int {
    server.faults
      + connection.assumeIsolated {
        let statistics = $0.statistics
        return statistics.malformed + statistics.strayResponses
      }
  }

  /// Wakes the tasks that wait for a confirmation if it has arrived. Call this after each PDU from the
  /// central.
  func heard() {
    guard let patience, !server.awaitsConfirmation else { return }
    patience.cancel()
    self.patience = nil
    news.wakeAll()
  }

  func finish() {
    isOver = true
    patience?.cancel()
    news.wakeAll()
  }

  /// Returns the central's subscriptions to a characteristic.
  func pushes(of handle: AttributeHandle, _ database: borrowing GATTServerDatabase) -> Set<ServerPush> {
    var wanted: Set<ServerPush> = []
    for push in [ServerPush.notification, .indication]
    where server.isSubscribed(to: handle, push, in: database) { wanted.insert(push) }
    return wanted
  }
}

/// Notifications and indications of a server. Core 5.4, Vol 3, Part G, 4.10 and 4.11.
extension GATTServer {
  /// Sends a value to one central, truncated to ATT_MTU − 3 bytes.
  ///
  /// Returns when the value is in the link's queue. Waits while the queue is full, so a slow central delays
  /// only the tasks that send to it. The values of one task arrive in order.
  ///
  /// - Throws: `notSubscribed`, `disconnected`, `cancelled`, `closed`.
  public func notify(
    _ value: [UInt8], of handle: AttributeHandle, to central: Central
  ) async throws(GATTServerError) {
    try await push(.notification, value, of: handle, on: try link(of: central))
    counts.notifications += 1
  }

  /// Sends a value to all subscribed centrals, one after the other. The slowest central determines the
  /// duration of the call. To avoid this, use one task per central.
  ///
  /// - Returns: Number of centrals that the value was sent to. Does not include centrals that disconnected
  ///   during the call.
  /// - Throws: `cancelled`, `closed`.
  @discardableResult
  public func notify(_ value: [UInt8], of handle: AttributeHandle) async throws(GATTServerError) -> Int {
    if isClosed { throw .closed }
    var count = 0
    for central in subscribers(of: handle) {
      do throws(GATTServerError) {
        try await notify(value, of: handle, to: central)
        count += 1
      } catch {
        if error == .cancelled || error == .closed { throw error }
      }
    }
    return count
  }

  /// Sends a value to one central and waits for its confirmation. Only one indication per central is
  /// outstanding; other calls wait for their turn.
  ///
  /// - Throws: `notSubscribed`, `disconnected`, `cancelled`, `closed`; `notConfirmed` after 30 s, when the
  ///   link is ended.
  public func indicate(
    _ value: [UInt8], of handle: AttributeHandle, to central: Central
  ) async throws(GATTServerError) {
    let link = try link(of: central)
    do { try await link.indications.takeUnlessCancelled() } catch { throw .cancelled }
    defer { link.indications.end() }
    // A cancelled task may have left an indication whose confirmation is outstanding.
    try await confirmation(of: link)
    try await push(.indication, value, of: handle, on: link)
    counts.indications += 1
    link.patience = loop.after(ATTClientMachine.transactionTimeout) { await self.giveUp(central) }
    try await confirmation(of: link)
  }

  func tellChange(_ central: Central) {
    guard let handle = database.valueHandle(of: .serviceChanged) else { return }
    let value = [UInt8](encoding: 4) {
      $0.append(HandleRange.all.start)
      $0.append(HandleRange.all.end)
    }
    // Errors are ignored: the central is not subscribed or has disconnected.
    loop.task { try? await self.indicate(value, of: handle, to: central) }
  }

  // MARK: Parts

  private func link(of central: Central) throws(GATTServerError) -> CentralLink {
    if isClosed { throw .closed }
    guard let link = links.first(where: { $0.central == central }) else { throw .disconnected }
    return link
  }

  private func push(
    _ push: ServerPush, _ value: [UInt8], of handle: AttributeHandle, on link: CentralLink
  ) async throws(GATTServerError) {
    do { try await link.pushes.takeUnlessCancelled() } catch { throw .cancelled }
    defer { link.pushes.end() }
    do throws(GATTError) { try await link.connection.room() } catch { throw GATTServerError(error) }
    // Encode only now, because the subscription and the MTU may have changed during the wait.
    var result = PushResult.notSubscribed
    let pdu = [UInt8](encoding: ATT.maximumMTU) {
      result = link.server.push(push, of: handle, value: value.span, database: database, into: &$0)
    }
    guard result == .encoded else { throw .notSubscribed }
    do throws(GATTError) { try await link.connection.send(pdu) } catch { throw GATTServerError(error) }
  }

  private func confirmation(of link: CentralLink) async throws(GATTServerError) {
    do { try await link.news.waitUnlessCancelled { link.isOver || !link.server.awaitsConfirmation } } catch {
      throw .cancelled
    }
    if link.isUnconfirmed { throw .notConfirmed }
    if link.isOver { throw .disconnected }
  }

  private func giveUp(_ central: Central) async {
    guard let link = links.first(where: { $0.central == central }), link.server.awaitsConfirmation else {
      return
    }
    link.isUnconfirmed = true
    counts.unconfirmed += 1
    await link.connection.close()
  }
}

extension GATTServerError {
  /// Converts the error of a connection that could not send: the connection has ended, or the task was
  /// cancelled.
  fileprivate init(_ error: GATTError) { self = error == .cancelled ? .cancelled : .disconnected }
}

extension [GATTServiceDescription] {
  /// Prepends the two services that every device has, unless they are present. Core 5.4, Vol 3, Part C, 12;
  /// Part G, 7.
  ///
  /// The list is unchanged if it contains includes, because the indices of included services would change, or
  /// if the first service has a fixed handle.
  func withGenericServices(name: String, appearance: UInt16) -> [GATTServiceDescription] {
    guard !contains(where: { $0.uuid == .genericAccess || !$0.includes.isEmpty }), first?.handle == nil else {
      return self
    }
    var generic = Self.genericServices(name: name, appearance: appearance)
    if contains(where: { $0.uuid == .genericAttribute }) {
      generic.removeLast()
    } else {
      generic[generic.count - 1].characteristics = [
        GATTCharacteristicDescription(.serviceChanged, .indicate, value: [1, 0, 0xFF, 0xFF]),
        GATTCharacteristicDescription(.clientSupportedFeatures, [.read, .write], value: [0]),
        GATTCharacteristicDescription(.databaseHash, .read, value: []),
      ]
    }
    return generic + self
  }
}
