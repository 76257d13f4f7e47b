import BLECore
import BLEHost
import BLESensors
import BLEStack
import BLESystem
import BLEWire

/// A connected ring: its characteristics, and the commands of the raw stream.
struct RingLink: Sendable {
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

  /// Finds the ring's two services: by discovery, where it is not certain that they are where an earlier link found them.
  ///
  /// - Throws: `unsuitable` where the device has no ring service.
  init(_ connection: Connection) async throws(HostError) {
    self.connection = connection
    client = GATTClient(connection)
    attributes = try await Self.discover(client)
  }

  private static func discover(_ client: GATTClient) async throws(HostError) -> Attributes {
    let database: GATTDatabase
    do throws(GATTError) {
      database = try await client.attributes(of: [RingUUID.commandService, RingUUID.bigDataService])
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

  /// Subscribes, then starts the stream: a ring loses writes that come before the subscription.
  ///
  /// The MTU may wait: raw frames fit into the smallest.
  ///
  /// - Parameter take: gets every notification of the ring, on the receive thread.
  func startRaw(
    _ take: @escaping @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void
  ) async throws(HostError) {
    do throws(GATTError) {
      _ = try await client.subscribe(attributes.replies, take)
      if let bigData = attributes.bigData, bigData.properties.contains(.notify) {
        _ = try await client.subscribe(bigData, take)
      }
      try await write(.rawStart)
    } catch { throw .gatt(error) }
  }

  /// Stops the stream. A ring that does not answer in time is left to the end of the link.
  ///
  /// Twice, 120 ms apart: one stop does not always take effect (reference `colmi-ring-protocol.md`, 5.4).
  func stopRaw(within patience: Duration) async {
    let work = Task(executorPreference: connection.loop.preference) {
      try? await write(.rawStop)
      try? await connection.loop.wait(for: .milliseconds(120))
      try? await write(.rawStop)
    }
    let timer = Task(executorPreference: connection.loop.preference) {
      if (try? await connection.loop.wait(for: patience)) != nil { await connection.close() }
    }
    await work.value
    timer.cancel()
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
