import BLEHost
import BLELinux
import BLEPacketLog
import BLEStack
import BLEWire
import ColmiRing
import Foundation
import SensorSessions
import Synchronization
import TestKit
import TestPeer
import Testing

/// An ATT PDU from a packet log, with direction and time.
struct LoggedPDU {
  var isFromRing: Bool
  var time: ReceiveTime
  var octets: [UInt8]

  /// - Throws: if the file does not end with a complete record.
  static func all(_ path: String) throws -> [LoggedPDU] {
    var reader = PacketLogReader()
    var found: [LoggedPDU] = []
    let file = contents(path)
    try reader.read(file.span) { record in
      guard record.type == .acl else { return }
      let packet = record.packet.indices.map { record.packet[$0] }
      // ACL header and L2CAP header, four bytes each.
      found.append(
        LoggedPDU(
          isFromRing: record.direction == .controllerToHost, time: record.time, octets: Array(packet[8...])))
    }
    try reader.finish()
    return found
  }
}

/// A ring at the other end of a socket: an ATT server with the ring's services, and a script that is played
/// when the stream is started.
final class ScriptedRing: Sendable {
  private struct State: Sendable {
    var server: ATTServer
    var database: GATTServerDatabase
    /// Values written to the command characteristic.
    var commands: [[UInt8]] = []
    /// The rest of the script, played after the second subscription.
    var rest: ArraySlice<Event> = []
  }

  /// Events after the command `A1 04`, in order.
  enum Event: Sendable {
    case frame([UInt8])
    case bigData([UInt8])
    /// Waits until the gate is open.
    case wait(Gate)
    /// Waits until the second characteristic is subscribed to.
    case secondSubscription
    case hangUp
  }

  static let commandHandle = AttributeHandle(0x0003)
  static let replyHandle = AttributeHandle(0x0005)
  static let bigDataHandle = AttributeHandle(0x0009)
  static let bigDataConfiguration = AttributeHandle(0x000A)

  private let state: Mutex<State>
  private let script: [Event]
  /// Number of commands written.
  let written = Counter()

  init(_ script: [Event], commandService: BluetoothUUID = RingUUID.commandService) {
    self.script = script
    typealias Characteristic = GATTCharacteristicDescription
    let database = GATTServerDatabase([
      GATTServiceDescription(
        commandService,
        characteristics: [
          Characteristic(RingUUID.commandWrite, [.write, .writeWithoutResponse]),
          Characteristic(RingUUID.commandNotify, .notify),
        ]),
      GATTServiceDescription(
        RingUUID.bigDataService, characteristics: [Characteristic(RingUUID.bigDataNotify, .notify)]),
    ])
    state = Mutex(State(server: ATTServer(database: database), database: database))
  }

  var commands: [[UInt8]] { state.withLock(\.commands) }

  func answer(_ pdu: [UInt8], _ peer: Peer) -> [[UInt8]] {
    let (reply, command) = state.withLock { state in
      var command: [UInt8]?
      let reply = [UInt8](encoding: ATT.maximumMTU) { output in
        state.server.receive(pdu.span, database: &state.database, into: &output) { handle, value in
          if handle == Self.commandHandle { command = value.indices.map { value[$0] } }
          return nil
        }
      }
      if let command { state.commands.append(command) }
      return (reply, command)
    }
    if !reply.isEmpty { peer.send(reply) }
    if command?.prefix(2) == [0xA1, 0x04] { play(script[...], peer) }
    if pdu.starts(with: [0x12, UInt8(Self.bigDataConfiguration.rawValue), 0x00, 0x01]) {
      let rest = state.withLock { state in
        defer { state.rest = [] }
        return state.rest
      }
      play(rest, peer)
    }
    if command != nil { written.add() }
    return []
  }

  private func play(_ events: ArraySlice<Event>, _ peer: Peer) {
    for place in events.indices {
      switch events[place] {
      case .frame(let frame): push(Self.replyHandle, frame, peer)
      case .bigData(let frame): push(Self.bigDataHandle, frame, peer)
      case .wait(let gate): gate.pass()
      case .secondSubscription:
        return state.withLock { $0.rest = events[(place + 1)...] }
      case .hangUp: peer.hangUp()
      }
    }
  }

  private func push(_ handle: AttributeHandle, _ value: [UInt8], _ peer: Peer) {
    let pdu = state.withLock { state in
      [UInt8](encoding: ATT.maximumMTU) { output in
        _ = state.server.push(
          .notification, of: handle, value: value.span, database: state.database, into: &output)
      }
    }
    if !pdu.isEmpty { peer.send(pdu) }
  }
}

/// An adapter that connects to the scripted ring instead of using a radio.
actor SocketAdapter: Adapter {
  nonisolated let name = "test"
  nonisolated let mode = "raw"
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  let malformed = 0
  var hooks: [any AdapterHook] = []
  private let ring: ScriptedRing
  private(set) var peer: Peer?

  init(_ ring: ScriptedRing) throws {
    self.ring = ring
    loop = try EventLoop.start()
  }

  func beginScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {}
  func endScan() async throws(HostError) {}

  func link(
    to address: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let peer: Peer
    let connection: Connection
    do throws(SystemError) {
      let pair = try SocketPair()
      peer = Peer(pair.theirs())
      try peer.read { [ring, peer] in ring.answer($0, peer) }
      do throws(HostError) {
        connection = try await Connection.adopt(pair.ours(), peer: address, on: loop, tap: tap)
      } catch { preconditionFailure("\(error)") }
    } catch { throw .system(error) }
    self.peer = peer
    return connection
  }

  func change(_ connection: Connection, to request: LinkRequest) async {}
  func facts(of connection: Connection) async throws(HostError) -> LinkFacts { LinkFacts() }

  func release() async { loop.stop() }
}
