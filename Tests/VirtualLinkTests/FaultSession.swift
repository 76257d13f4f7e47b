import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Recording
import SensorSessions
import Synchronization
import TestPeer

/// Steps of a session with a ring, in order.
enum SessionStep: String, CaseIterable, Sendable {
  case scan, connect, mtu, discovery, subscribe, stream, disconnect
}

/// Result of a session.
struct SessionOutcome: Sendable {
  /// The step that failed, or the last step.
  var step = SessionStep.scan
  var error: HostError?
  /// Number of values received before the response to a read that was sent after the last of them.
  var notifications = 0
}

/// A session with an emulated ring that sends 90 notifications, from the scan to the end of the link.
struct FaultSession: Sendable {
  var pace = VirtualAir.Pace.immediate
  var wrap: @Sendable (any PacketTransport) -> any PacketTransport = { $0 }

  /// - Parameters:
  ///   - expected: number of notifications to wait for.
  ///   - begins: called when a step begins.
  func run(
    _ expected: Int, _ begins: @escaping @Sendable (SessionStep, ControllerAttachment) async -> Void
  ) async throws -> SessionOutcome {
    var ring = quietRing()
    ring.notificationLimit = 90
    let link = try await VirtualLink.open([ring], pace: pace, wrap: wrap)
    var outcome = SessionOutcome()
    func step(_ step: SessionStep) async {
      outcome.step = step
      await begins(step, link.emulation)
    }
    do throws(HostError) {
      await step(.scan)
      _ = try await SensorFinder.find(SensorKind.ring.search, on: link.adapter, within: .seconds(2))
      await step(.connect)
      let connection = try await link.adapter.connect(
        to: ring.address, asking: LinkRequest(), timeout: .seconds(1), tap: nil)
      do throws(GATTError) {
        outcome.notifications = try await Self.converse(connection, expected) { await step($0) }
      } catch { throw .gatt(error) }
      await step(.disconnect)
      await connection.close()
    } catch { outcome.error = error }
    await link.close()
    return outcome
  }

  private static func converse(
    _ connection: Connection, _ expected: Int, _ step: (SessionStep) async -> Void
  ) async throws(GATTError) -> Int {
    await step(.mtu)
    try await connection.exchangeMTU()
    await step(.discovery)
    let database = try await connection.discover()
    await step(.subscribe)
    guard
      let replies = database.characteristic(RingUUID.commandNotify, in: RingUUID.commandService),
      let command = database.characteristic(RingUUID.commandWrite, in: RingUUID.commandService)
    else { return 0 }
    let progress = Counter()
    let values = Values()
    _ = try await connection.subscribe(replies) { _, _ in
      values.add()
      progress.add()
    }
    await step(.stream)
    let watcher = Task {
      _ = await connection.ended()
      progress.add(expected)
    }
    let start = [UInt8](encoding: RingFrame.byteCount) { RingCommand.rawStart.encode(into: &$0) }
    try await connection.write(start, to: command.valueHandle)
    await progress.reaches(expected)
    watcher.cancel()
    _ = try await connection.read(AttributeHandle(0x0007))
    return values.count
  }
}

/// Counts values on the receive thread.
private final class Values: Sendable {
  private let number = Atomic<Int>(0)
  var count: Int { number.load(ordering: .relaxed) }
  func add() { number.add(1, ordering: .relaxed) }
}
