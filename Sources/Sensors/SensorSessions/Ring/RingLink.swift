package import BLEHost
import BLELinux
package import BLEStack
package import BLEWire
import ColmiRing

/// Connected ring: its characteristics, and the commands of the raw stream.
package struct RingLink: Sendable {
  /// The ring's characteristics.
  struct Attributes: Hashable, Sendable {
    var command: GATTDatabase.Characteristic
    var replies: GATTDatabase.Characteristic
    /// Characteristic of the big data channel from ring to host. Some rings send the raw stream here, instead
    /// of or in addition to `replies`.
    var bigData: GATTDatabase.Characteristic?
    var bigDataWrite: GATTDatabase.Characteristic?
  }

  let connection: Connection
  let attributes: Attributes

  /// Finds the ring's two services. They are discovered unless services from an earlier link are known to be
  /// valid.
  ///
  /// - Throws: `unsuitable` if the device has no ring service.
  package init(_ connection: Connection) async throws(HostError) {
    self.connection = connection
    let database: GATTDatabase
    do throws(GATTError) {
      let found = try await connection.attributes(of: [RingUUID.commandService, RingUUID.bigDataService])
      // If the service is not found by UUID, discover all services.
      database = Self.attributes(in: found) == nil ? try await connection.discover() : found
    } catch { throw .gatt(error) }
    attributes = try Self.attributes(in: database, of: connection.peer)
  }

  /// Finds only the attributes that the raw stream requires; `listenFurther` finds the other attributes.
  ///
  /// - Throws: `unsuitable` if the device has no ring service.
  package init(toStream connection: Connection) async throws(HostError) {
    self.connection = connection
    var services: [GATTDatabase.Service] = []
    do throws(GATTError) {
      for search in [ServiceSearch.uuid, .allServices]
      where Self.attributes(in: GATTDatabase(services: services)) == nil {
        services = try await connection.attributes(
          toStream: [RingUUID.commandNotify], with: [RingUUID.commandWrite], of: RingUUID.commandService,
          by: search)
      }
    } catch { throw .gatt(error) }
    attributes = try Self.attributes(in: GATTDatabase(services: services), of: connection.peer)
  }

  private static func attributes(
    in database: GATTDatabase, of peer: DeviceAddress
  ) throws(HostError) -> Attributes {
    guard let found = attributes(in: database) else {
      throw .unsuitable(
        "\(peer) has no ring service (\(RingUUID.commandService)); see what it has with `ringtap gatt \(peer)`"
      )
    }
    return found
  }

  /// Returns the attributes of the first service with both characteristics. Services whose reply
  /// characteristic can notify are preferred.
  private static func attributes(in database: GATTDatabase) -> Attributes? {
    let pairs = database.services.filter { $0.uuid == RingUUID.commandService }.compactMap { service in
      let alone = GATTDatabase(services: [service])
      return alone.characteristic(RingUUID.commandWrite, with: [.write, .writeWithoutResponse]).flatMap {
        command in
        alone.characteristic(RingUUID.commandNotify, with: [.notify, .indicate]).map { (command, $0) }
      }
    }
    guard let (command, replies) = pairs.first(where: { $0.1.canPush }) ?? pairs.first else { return nil }
    return Attributes(
      command: command, replies: replies,
      bigData: database.characteristic(
        RingUUID.bigDataNotify, in: RingUUID.bigDataService, with: [.notify, .indicate]),
      bigDataWrite: database.characteristic(RingUUID.bigDataWrite, in: RingUUID.bigDataService))
  }

  /// Subscribes, then starts the stream. A ring ignores writes before the subscription. Raw frames arrive on
  /// the reply characteristic, and with some rings also on the second channel (reference
  /// `colmi-ring-protocol.md`, 5).
  ///
  /// The MTU exchange can follow later, because raw frames fit into the smallest MTU. The start command is
  /// sent right after the subscription request, and the first frame acknowledges both.
  ///
  /// - Parameter take: called with every notification of the ring, on the receive thread.
  package func startRaw(
    _ take: @escaping @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void
  ) async throws(HostError) {
    do throws(GATTError) {
      try await listen(to: attributes.replies, andStart: true, take)
    } catch { throw .gatt(error) }
  }

  private func listen(
    to channel: GATTDatabase.Characteristic, andStart starts: Bool,
    _ take: @escaping @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void
  ) async throws(GATTError) {
    let command = attributes.command
    guard starts, command.properties.contains(.writeWithoutResponse) else {
      _ = try await connection.subscribe(channel, take)
      if starts { try await write(.rawStart) }
      return
    }
    let value = [UInt8](encoding: RingFrame.byteCount) { RingCommand.rawStart.encode(into: &$0) }
    let start = AttributeWrite(value, to: command.valueHandle)
    _ = try await connection.subscribe(channel, followedBy: start, take)
  }

  /// Finds the remaining attributes, and subscribes to the second channel.
  ///
  /// - Parameters:
  ///   - isSilent: whether no frame has arrived on the first channel. If so, the start command is repeated.
  ///   - take: called with every notification of the ring, on the receive thread.
  package func listenFurther(
    isSilent: Bool,
    _ take: @escaping @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void
  ) async throws(GATTError) {
    guard
      let database = try await connection.complete(of: [RingUUID.commandService, RingUUID.bigDataService]),
      let bigData = database.characteristic(RingUUID.bigDataNotify, in: RingUUID.bigDataService),
      bigData.properties.contains(.notify), !Task.isCancelled
    else { return }
    try await listen(to: bigData, andStart: isSilent, take)
  }

  /// Stops the stream. Closes the connection if the ring does not respond in time.
  ///
  /// The command is sent twice, 120 ms apart, because a single stop is not always effective (reference
  /// `colmi-ring-protocol.md`, 5.4).
  package func stopRaw(within patience: Duration) async {
    let timer = connection.loop.after(patience) { await connection.close() }
    defer { timer.cancel() }
    await connection.loop.uninterrupted {
      try? await write(.rawStop)
      try? await connection.loop.wait(for: .milliseconds(120))
      try? await write(.rawStop)
    }
  }

  /// Whether the ring has both characteristics of the big data channel.
  var hasBigData: Bool { attributes.bigData != nil && attributes.bigDataWrite != nil }

  /// Sends a message on the big data channel.
  ///
  /// - Precondition: `hasBigData`.
  func write(_ message: RingBigData) async throws(GATTError) {
    guard let bigDataWrite = attributes.bigDataWrite else {
      preconditionFailure("the ring has no big data channel")
    }
    let value = [UInt8](encoding: message.byteCount) { message.encode(into: &$0) }
    try await connection.writeWithoutResponse(value, to: bigDataWrite.valueHandle)
  }

  func write(_ frame: RingCommand) async throws(GATTError) {
    let value = [UInt8](encoding: RingFrame.byteCount) { frame.encode(into: &$0) }
    if attributes.command.properties.contains(.write) {
      try await connection.write(value, to: attributes.command.valueHandle)
    } else {
      try await connection.writeWithoutResponse(value, to: attributes.command.valueHandle)
    }
  }
}
