package import BLECore
package import BLEHost
import BLELinux
package import BLEStack
package import BLEWire
import ColmiRing

/// A connected ring: its characteristics, and the commands of the raw stream.
package struct RingLink: Sendable {
  /// Where a ring has what is needed here.
  struct Attributes: Sendable {
    var command: GATTDatabase.Characteristic
    var replies: GATTDatabase.Characteristic
    /// Some rings send the raw stream here, or here too.
    var bigData: GATTDatabase.Characteristic?
    var bigDataWrite: GATTDatabase.Characteristic?
  }

  let connection: Connection
  let attributes: Attributes
  let client: GATTClient
  /// The second channel is subscribed to when the stream runs, not before.
  private let isListeningFurther: Bool

  /// Finds the ring's two services: by discovery, where it is not certain that they are where an earlier link found them.
  ///
  /// - Parameter isForStream: what the stream does not wait for may be left to `listenFurther`.
  /// - Throws: `unsuitable` where the device has no ring service.
  package init(_ connection: Connection, isForStream: Bool = false) async throws(HostError) {
    self.connection = connection
    client = GATTClient(connection)
    attributes = try await Self.discover(client, urgent: isForStream ? [RingUUID.commandService] : nil)
    isListeningFurther = await connection.usesEarlierDiscovery && isForStream
  }

  private static func discover(
    _ client: GATTClient, urgent: [BluetoothUUID]?
  ) async throws(HostError) -> Attributes {
    let database: GATTDatabase
    do throws(GATTError) {
      database = try await client.attributes(
        of: [RingUUID.commandService, RingUUID.bigDataService], urgent: urgent)
    } catch { throw .gatt(error) }
    guard
      let command = database.characteristic(RingUUID.commandWrite, in: RingUUID.commandService),
      let replies = database.characteristic(RingUUID.commandNotify, in: RingUUID.commandService)
    else {
      throw .unsuitable(
        "\(client.connection.peer) has no ring service (\(RingUUID.commandService)); "
          + "see what it has with `ringtap gatt \(client.connection.peer)`")
    }
    return Attributes(
      command: command, replies: replies,
      bigData: database.characteristic(RingUUID.bigDataNotify, in: RingUUID.bigDataService),
      bigDataWrite: database.characteristic(RingUUID.bigDataWrite, in: RingUUID.bigDataService))
  }

  /// Subscribes, then starts the stream: a ring loses writes that come before the subscription. Raw frames come where replies
  /// do, from some rings also by the second channel (reference `colmi-ring-protocol.md`, 5).
  ///
  /// The MTU may wait: raw frames fit into the smallest.
  ///
  /// - Parameter take: gets every notification of the ring, on the receive thread.
  package func startRaw(
    _ take: @escaping @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void
  ) async throws(HostError) {
    do throws(GATTError) {
      _ = try await client.subscribe(attributes.replies, take)
      if !isListeningFurther, let bigData = attributes.bigData, bigData.properties.contains(.notify) {
        _ = try await client.subscribe(bigData, take)
      }
      try await write(.rawStart)
    } catch { throw .gatt(error) }
  }

  /// Subscribes to the second channel too, where the start did not wait for that.
  ///
  /// - Parameter isSilent: nothing has come by the first: the ring is told again to start.
  package func listenFurther(
    isSilent: Bool,
    _ take: @escaping @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void
  ) async throws(GATTError) {
    guard isListeningFurther,
      let bigData = try await client.discoverMore(of: [RingUUID.bigDataService])?
        .characteristic(RingUUID.bigDataNotify, in: RingUUID.bigDataService),
      bigData.properties.contains(.notify)
    else { return }
    _ = try await client.subscribe(bigData, take)
    if isSilent { try await write(.rawStart) }
  }

  /// Stops the stream. A ring that does not answer in time is left to the end of the link.
  ///
  /// Twice, 120 ms apart: one stop does not always take effect (reference `colmi-ring-protocol.md`, 5.4).
  package func stopRaw(within patience: Duration) async {
    let timer = connection.loop.after(patience) { await connection.close() }
    defer { timer.cancel() }
    await connection.loop.uninterrupted {
      try? await write(.rawStop)
      try? await connection.loop.wait(for: .milliseconds(120))
      try? await write(.rawStop)
    }
  }

  /// Whether it has both characteristics of the big data channel.
  var hasBigData: Bool { attributes.bigData != nil && attributes.bigDataWrite != nil }

  /// - Precondition: `hasBigData`.
  func write(_ message: RingBigData) async throws(GATTError) {
    guard let bigDataWrite = attributes.bigDataWrite else {
      preconditionFailure("the ring has no big data channel")
    }
    let value = [UInt8](encoding: message.byteCount) { message.encode(into: &$0) }
    try await client.writeWithoutResponse(value, to: bigDataWrite.valueHandle)
  }

  func write(_ frame: RingCommand) async throws(GATTError) {
    let value = [UInt8](encoding: RingFrame.byteCount) { frame.encode(into: &$0) }
    if attributes.command.properties.contains(.write) {
      try await client.write(value, to: attributes.command.valueHandle)
    } else {
      try await client.writeWithoutResponse(value, to: attributes.command.valueHandle)
    }
  }
}
