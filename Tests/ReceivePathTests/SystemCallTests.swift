import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Foundation
import SensorSessions
import Synchronization
import TestPeer
import Testing

@testable import Recording

/// System calls on the receive thread per notification while a capture writes it.
///
/// They are counted where they are made: see `ThreadUsage`.
@Suite(.serialized, .timeLimit(.minutes(1))) struct SystemCallTests {
  /// Records the receive thread's system call count at each notification.
  private final class Sink: Sendable {
    let ring = SampleSink<RingRawReading>(SampleChannel(capacity: RingSession.queueCapacity), for: .recorder)
    private let source = RawSource()
    let calls = Mutex<[UInt64]>([])
    let count = Counter()
    let next: @Sendable (Int) -> Void

    init(_ next: @escaping @Sendable (Int) -> Void = { _ in }) { self.next = next }

    func take(_ notification: borrowing HandleValueNotification, at time: ReceiveTime) {
      ring.take(notification, of: source, at: time)
      let number = calls.withLock { calls in
        calls.append(ThreadUsage.currentSystemCalls)
        return calls.count
      }
      next(number)
      count.add()
    }

    /// System calls between the first notification and the last.
    var total: Int { calls.withLock { Int($0[$0.count - 1] - $0[0]) } }
  }

  /// The captured frame `raw-ppg-ei-1` of `ring-vectors.json`.
  private static let frame: [UInt8] = [
    0x1B, 0x12, 0x00, 0xA1, 0x02, 0x29, 0x81, 0x2A, 0xCD, 0x29, 0xC1, 0x01, 0x0C, 0x01, 0, 0, 0, 0, 0x3C,
  ]

  private static let characteristic = GATTDatabase.Characteristic(
    handle: AttributeHandle(0x11), properties: .notify, valueHandle: AttributeHandle(0x12),
    endHandle: AttributeHandle(0x13), uuid: RingUUID.commandNotify,
    descriptors: [
      GATTDatabase.Descriptor(handle: AttributeHandle(0x13), uuid: .clientCharacteristicConfiguration)
    ])

  /// Runs `body` with a connection whose notifications a recorder writes.
  private func withCapture(_ sink: Sink, _ body: (Peer, Connection) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
    try Files.createDirectory(folder)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let pair = try SocketPair()
    let loop = try EventLoop.start()
    let peer = try Peer.start(pair.theirs()) { $0[0] == ATTOpcode.writeRequest.rawValue ? [[0x13]] : [] }
    let packets = PacketQueue(byteCount: 1 << 20)
    let connection = try await Connection.adopt(pair.ours(), peer: .any, on: loop, tap: PacketTap(packets))
    let recorder = try await Recorder.start(
      in: folder, sink.ring.samples.ring, RingTables(), packets: packets, pace: .free)
    await connection.addWake(recorder.wake)
    _ = try await connection.subscribe(Self.characteristic) { sink.take($0, at: $1) }
    try await body(peer, connection)
    await connection.close()
    let outcome = await recorder.finish()
    #expect(outcome.rows.reduce(0, +) >= sink.count.value)
    loop.stop()
  }

  /// Single notifications: the next is sent when the previous one was delivered. Each takes one call to wait
  /// and one to receive: there is no second poll of the socket, and no signal to the writer.
  @Test func thinTrafficTakesTwoCallsEach() async throws {
    let count = 4_000
    let turns = AsyncStream<Void>.makeStream()
    let sink = Sink { _ in turns.continuation.yield() }
    try await withCapture(sink) { peer, _ in
      peer.send(Self.frame)
      var sent = 1
      for await _ in turns.stream {
        guard sent < count else { break }
        peer.send(Self.frame)
        sent += 1
      }
      await sink.count.reaches(count)
    }
    // One in a hundred extra, for a writer that fell asleep because the machine was busy.
    #expect(sink.total <= 2 * (count - 1) + count / 100)
    #expect(sink.total >= 2 * (count - 1))
  }

  /// Accumulated notifications arrive in slabs of 64, with one call each.
  @Test func heavyTrafficTakesACallForEachSlab() async throws {
    let sink = Sink()
    try await withCapture(sink) { peer, connection in
      let gate = Gate()
      let held = Task { await connection.hold(at: gate) }
      await gate.waitForSomebody()
      for _ in 0..<200 { peer.send(Self.frame) }
      gate.open()
      await held.value
      await sink.count.reaches(200)
    }
    // 200 are three full slabs and a partial one: three calls after the first.
    #expect(sink.total == 3)
  }
}

extension Connection {
  /// Blocks the receive thread at the gate.
  fileprivate func hold(at gate: Gate) { gate.pass() }
}
