import BLELinux
import BLEWire
import Synchronization
import TestPeer
import Testing

/// Virtual time of an event loop, which jumps from one deadline to the next.
@Suite(.timeLimit(.minutes(1))) struct LoopClockTests {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)

  @Test func waitsEndInTheOrderOfTime() async throws {
    let loop = try EventLoop(name: "test", clock: .virtual(from: Self.start))
    defer { loop.stop() }
    // On the loop, so that all begin before time advances.
    let task = Task(executorPreference: loop) {
      try await withThrowingTaskGroup(of: Int64.self) { group in
        for duration in [Duration.seconds(3600), .seconds(5), .seconds(86_400), .milliseconds(5)] {
          group.addTask {
            try await loop.wait(for: duration)
            return loop.clock.now().nanoseconds - Self.start.nanoseconds
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
    }
    let ended = try await task.value
    #expect(ended == [5_000_000, 5_000_000_000, 3_600_000_000_000, 86_400_000_000_000])
  }

  @Test func timeStandsStillWhileItIsHeld() async throws {
    let loop = try EventLoop(name: "test", clock: .virtual(from: Self.start))
    defer { loop.stop() }
    let asked = Counter()
    let isHeld = Atomic(true)
    loop.clock.hold {
      asked.add()
      return isHeld.load(ordering: .relaxed)
    }
    let sleeper = Task { try await loop.wait(for: .seconds(1)) }
    await asked.reaches(10)
    #expect(loop.clock.now() == Self.start)
    isHeld.store(false, ordering: .relaxed)
    try await sleeper.value
    #expect(loop.clock.monotonic() == MonotonicTime(nanoseconds: 1_000_000_000))
  }

  @Test func realTimePassesAtLeast() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let begin = SystemClock.monotonic()
    try await loop.wait(for: .milliseconds(20))
    #expect(begin.advanced(by: .milliseconds(20)) <= SystemClock.monotonic())
  }

  @Test func aCancelledWaitEnds() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let sleeper = Task { try await loop.wait(for: .seconds(86_400)) }
    sleeper.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.value }
  }

  @Test func aStoppedLoopEndsItsSleepers() async throws {
    let loop = try EventLoop(name: "test")
    let sleeper = Task { try await loop.wait(for: .seconds(86_400)) }
    loop.stop()
    await #expect(throws: CancellationError.self) { try await sleeper.value }
    await #expect(throws: CancellationError.self) { try await loop.wait(for: .zero) }
  }
}
