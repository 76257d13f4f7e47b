import BLELinux
import BLEWire
import Synchronization
import TestPeer
import Testing

@Suite(.timeLimit(.minutes(1))) struct LoopTaskTests {
  private actor Resident {
    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
    let calls = Counter()

    init(_ loop: EventLoop) { self.loop = loop }

    func call() {
      loop.assertIsCurrent()
      calls.add()
    }
  }

  private static func virtualLoop() throws -> EventLoop {
    try EventLoop(name: "test", clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)))
  }

  @Test(arguments: [false, true]) func callsAnActorLater(isVirtual: Bool) async throws {
    let loop = isVirtual ? try Self.virtualLoop() : try EventLoop(name: "test")
    defer { loop.stop() }
    let resident = Resident(loop)
    loop.later(resident) { $0.call() }
    await resident.calls.reaches(1)
  }

  /// In virtual time the tasks stay on the loop: time does not advance while they work.
  @Test func tasksHoldVirtualTime() async throws {
    let loop = try Self.virtualLoop()
    defer { loop.stop() }
    let begin = loop.clock.monotonic()
    let later = await loop.task {
      let sleeper = loop.after(.seconds(3600)) {}
      for _ in 0..<1_000 { await Task.yield() }
      let before = loop.clock.monotonic()
      await sleeper.value
      return (begin.duration(to: before), before.duration(to: loop.clock.monotonic()))
    }.value
    #expect(later == (.zero, .seconds(3600)))
  }

  @Test func aCancelledTimerDoesNothing() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let calls = Counter()
    let timer = loop.after(.seconds(86_400)) { calls.add() }
    timer.cancel()
    await timer.value
    #expect(calls.value == 0)
  }

  @Test func goesOnThoughItIsCancelled() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let begun = Counter()
    let end = OneShot<Void>()
    let task = Task {
      await loop.uninterrupted {
        begun.add()
        await end.value(ifCancelled: ())
        return Task.isCancelled
      }
    }
    await begun.reaches(1)
    task.cancel()
    #expect(end.current == nil)
    end.set(())
    #expect(await task.value == false)
  }
}
