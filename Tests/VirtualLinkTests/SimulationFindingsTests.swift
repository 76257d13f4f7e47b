import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Simulation
import TestPeer
import Testing

/// Bugs that `Tools/simulate` has found, each reproduced separately.
@Suite(.timeLimit(.minutes(1))) struct SimulationFindingsTests {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
  private static let request = LinkRequest()

  private static func connect(_ link: VirtualLink) -> Task<Result<Connection, HostError>, Never> {
    let adapter = link.adapter
    return Task(executorPreference: link.loop) {
      do throws(HostError) {
        return .success(
          try await adapter.connect(
            to: quietRing().address, asking: request, timeout: .seconds(5), tap: nil))
      } catch { return .failure(error) }
    }
  }

  /// Seed 8, event 1223. The first connect gave up its turn between the second's check and its queueing, and
  /// the second waited without end. Also, a caller that asked the adapter itself to report its loss was not
  /// notified.
  @Test func twoConnectsOnALostAdapterBothEnd() async throws {
    let link = try await VirtualLink.open([quietRing()], pace: .air, clock: .virtual(from: Self.start))
    let lost = Counter()
    await link.adapter.onLost { lost.add() }
    // More often than a controller is reset.
    for _ in 1...6 { await link.emulation.inject(.hardwareError(0x42)) }
    await lost.reaches(1)
    let connects = (1...4).map { _ in Self.connect(link) }
    for connect in connects {
      guard case .failure(let error) = await connect.value else {
        Issue.record("there is no controller")
        continue
      }
      #expect(error == .controller("virtual", .hardwareError(0x42)))
    }
    await link.close()
  }

  /// Seed 1, event 562. A cancelled request must end at once in the loop's time; it was cancelled through
  /// another thread while virtual time continued.
  @Test func aCancelledRequestEndsAtOnce() async throws {
    let link = try await VirtualLink.open([quietRing()], pace: .air, clock: .virtual(from: Self.start))
    let connection = try await Self.connect(link).value.get()
    let loop = link.loop
    let elapsed = try await Task(executorPreference: loop) {
      // The first gets no response, so that the second waits.
      await link.emulation.inject(.outOfRange(quietRing().address))
      let first = Task(executorPreference: loop) { try await connection.transact([0x0A, 7, 0]) }
      let second = Task(executorPreference: loop) { () -> (GATTError?, MonotonicTime) in
        do throws(GATTError) {
          _ = try await connection.transact([0x0A, 9, 0])
          return (nil, loop.clock.monotonic())
        } catch { return (error, loop.clock.monotonic()) }
      }
      try await loop.wait(for: .milliseconds(100))
      let cancelled = loop.clock.monotonic()
      second.cancel()
      let (error, ended) = await second.value
      #expect(error == .cancelled)
      _ = await first.result
      return cancelled.duration(to: ended)
    }.value
    #expect(elapsed == .zero)
    await link.close()
  }

  /// Seed 3, event 772926. The rest of a parameter change was applied to the next link, which had the ended
  /// link's handle.
  @Test func aChangeEndsWithItsLink() async throws {
    let link = try await VirtualLink.open([quietRing()], pace: .air, clock: .virtual(from: Self.start))
    let adapter = link.adapter
    let connection = try await Self.connect(link).value.get()
    let loop = link.loop
    let (changes, isSame) = try await Task(executorPreference: loop) {
      await link.emulation.inject(.delayAnswers(.seconds(1), times: 1))
      let change = Task(executorPreference: loop) {
        var request = LinkRequest()
        (request.latency, request.phy, request.dataLength) = (0, .le2M, 251)
        await adapter.change(connection, to: request)
      }
      try await loop.wait(for: .milliseconds(100))
      await link.emulation.inject(.disconnect(quietRing().address, .remoteUserTerminated))
      _ = await connection.ended()
      let next = try await Self.connect(link).value.get()
      await change.value
      let isSame = next.handle == connection.handle
      await next.close()
      return (await connection.changes, isSame)
    }.value
    #expect(isSame)
    let refusals = changes.compactMap { change -> LinkRequest.Part? in
      if case .refused(let part, .gatt(.closed)) = change.value { part } else { nil }
    }
    #expect(refusals == [.phy, .dataLength])
    await link.close()
  }

  /// Before any seed: held packets waited by the system's clock, in virtual time without end.
  @Test func heldPacketsWaitByTheLoopsClock() async throws {
    let plan = FaultPlan()
    let clock = LoopClock.virtual(from: Self.start)
    let link = try await VirtualLink.open(
      [quietRing()], pace: .air, clock: clock, wrap: { FaultyTransport($0, plan, clock: clock) })
    let connection = try await Self.connect(link).value.get()
    plan.add(PacketFault(.delay(.seconds(3)), .att(.readResponse), from: .controllerToHost))
    let elapsed = try await Task(executorPreference: link.loop) {
      let begun = clock.monotonic()
      _ = try await connection.transact([0x0A, 7, 0])
      return begun.duration(to: clock.monotonic())
    }.value
    #expect(elapsed >= .seconds(3) && elapsed < .seconds(4))
    #expect(plan.hits == 1)
    await link.close()
  }
}
