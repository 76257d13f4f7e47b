import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CTestSystem
import Glibc
import Synchronization
import TestKit
import TestPeer
import Testing

/// A connection over a socket pair, and the script at its other end.
struct Link {
  let loop: EventLoop
  let connection: Connection
  let peer: Peer

  static func open(
    sendBufferByteCount: Int32? = nil, tap: PacketTap? = nil,
    _ answer: @escaping @Sendable (String) -> [String] = { _ in [] }
  ) async throws -> Link {
    let link = try await prepare(sendBufferByteCount: sendBufferByteCount, tap: tap)
    try link.peer.read { answer(hexOf($0)).map(octetsOf) }
    return link
  }

  /// Prepares a link whose peer does not read yet.
  static func prepare(sendBufferByteCount: Int32? = nil, tap: PacketTap? = nil) async throws -> Link {
    let pair = try SocketPair(sendBufferByteCount: sendBufferByteCount)
    let loop = try EventLoop.start()
    let connection = try await Connection.adopt(pair.ours(), peer: .any, on: loop, tap: tap)
    return Link(loop: loop, connection: connection, peer: Peer(pair.theirs()))
  }

  /// Opens a link as on a kernel without these SOL_SOCKET options. If `isLossy`, the channel drops packets.
  static func open(lacking options: [CInt], isLossy: Bool = false) async throws -> Link {
    let loop = try EventLoop.start()
    let (connection, peer) = try await Task(executorPreference: loop) {
      for option in options { test_lack(SOL_SOCKET, option) }
      let pair = isLossy ? try SocketPair.lossy() : try SocketPair()
      let connection = try await Connection.adopt(pair.ours(), peer: .any, on: loop)
      return (connection, Peer(pair.theirs()))
    }.value
    try peer.read { $0[0] == ATTOpcode.writeRequest.rawValue ? [[ATTOpcode.writeResponse.rawValue]] : [] }
    return Link(loop: loop, connection: connection, peer: peer)
  }

  func send(_ hex: String) { peer.send(octetsOf(hex)) }

  func close() async {
    await connection.close()
    loop.stop()
  }

  static func characteristic(
    _ valueHandle: UInt16, _ properties: CharacteristicProperties = .notify
  ) -> GATTDatabase.Characteristic {
    GATTDatabase.Characteristic(
      handle: AttributeHandle(valueHandle - 1), properties: properties,
      valueHandle: AttributeHandle(valueHandle), endHandle: AttributeHandle(valueHandle + 1),
      uuid: .heartRate,
      descriptors: [
        GATTDatabase.Descriptor(
          handle: AttributeHandle(valueHandle + 1), uuid: .clientCharacteristicConfiguration)
      ])
  }
}

extension Connection {
  /// Blocks the receive thread at the gate.
  func hold(at gate: Gate) { gate.pass() }
}

/// Received values in hexadecimal in order of arrival, each after its handle.
final class Values: Sendable {
  private let values = Mutex<[String]>([])
  private let stamps = Mutex<[ReceiveTime]>([])
  let count = Counter()

  func take(_ notification: borrowing HandleValueNotification, _ time: ReceiveTime) {
    let octets = notification.value.indices.map { notification.value[$0] }
    let text = String(notification.handle.rawValue, radix: 16) + ":" + hexOf(octets)
    values.withLock { $0.append(text) }
    stamps.withLock { $0.append(time) }
    count.add()
  }

  var all: [String] { values.withLock { $0 } }
  var times: [ReceiveTime] { stamps.withLock { $0 } }
}

func failure<T>(of body: () async throws(GATTError) -> T) async -> GATTError? {
  do throws(GATTError) {
    _ = try await body()
    return nil
  } catch { return error }
}
