import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Synchronization
import TestKit
import TestPeer
import Testing

/// A host that reads nothing for a while: peripherals at the immediate pace wait for it.
@Suite(.timeLimit(.minutes(1))) struct SlowHostTests {
  private static let count = 60_000

  private actor Blocker {
    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

    init(_ loop: EventLoop) { self.loop = loop }

    func pass(_ gate: Gate) { gate.pass() }
  }

  @Test func everythingSentArrives() async throws {
    var ring = quietRing(rate: 1_000_000)
    // More bytes than a port buffers for a slow host.
    ring.notificationLimit = Self.count
    let link = try await VirtualLink.open([ring])
    let connection = try await link.adapter.connect(
      to: ring.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    let database = try await connection.discover()
    let replies = try #require(database.characteristic(RingUUID.commandNotify, in: RingUUID.commandService))
    let command = try #require(database.characteristic(RingUUID.commandWrite, in: RingUUID.commandService))
    let received = Counter()
    _ = try await connection.subscribe(replies) { _, _ in received.add() }
    let start = [UInt8](encoding: RingFrame.byteCount) { RingCommand.rawStart.encode(into: &$0) }
    try await connection.writeWithoutResponse(start, to: command.valueHandle)

    let gate = Gate()
    let blocker = Task { await Blocker(link.loop).pass(gate) }
    await gate.waitForSomebody()
    try await eventually("the ring's queue is full") {
      await link.emulation.inspect { ($0.peripherals.first as? EmulatedRing)?.droppedByRing } != 0
    }
    gate.open()
    await blocker.value
    await received.reaches(Self.count)
    #expect(await link.emulation.failure == nil)
    #expect(await connection.end == nil)
    let sent = await link.emulation.inspect { ($0.peripherals.first as? EmulatedRing)?.sentRawNotifications }
    #expect(sent == Self.count)
    await link.close()
  }
}
