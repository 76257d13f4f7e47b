import BLELinux
import Synchronization
import TestKit
import TestPeer
import Testing

@Suite(.timeLimit(.minutes(1))) struct WaitersTests {
  private static let rounds = 5_000

  private final class Flag: Sendable {
    private let value = Atomic(false)
    var isUp: Bool { value.load(ordering: .acquiring) }
    func raise() { value.store(true, ordering: .releasing) }
  }

  @Test func doesNotWaitForWhatIsSo() async throws {
    let waiters = Waiters()
    await waiters.wait { true }
    try await waiters.waitUnlessCancelled { true }
    #expect(waiters.waitingCount == 0)
  }

  @Test func allLookAgain() async throws {
    let (waiters, flag) = (Waiters(), Flag())
    let looks = Counter()
    let tasks = (0..<2).map { _ in
      Task {
        await waiters.wait {
          looks.add()
          return flag.isUp
        }
      }
    }
    try await eventually("both wait") { waiters.waitingCount == 2 }
    let before = looks.value
    waiters.wakeAll()
    try await eventually("both have looked") {
      waiters.waitingCount == 2 && looks.value >= before + 4
    }
    flag.raise()
    waiters.wakeAll()
    for task in tasks { await task.value }
    #expect(waiters.waitingCount == 0)
  }

  /// The condition becomes true between the first check and the registration as a waiter.
  @Test func missesNothingBeforeItWaits() async {
    let (waiters, flag) = (Waiters(), Flag())
    await waiters.wait {
      defer {
        flag.raise()
        waiters.wakeAll()
      }
      return flag.isUp
    }
    #expect(waiters.waitingCount == 0)
  }

  @Test func aCancelledTaskWaitsNoMore() async throws {
    let (waiters, flag) = (Waiters(), Flag())
    let cancelled = Task {
      try await waiters.waitUnlessCancelled { flag.isUp }
    }
    let other = Task { await waiters.wait { flag.isUp } }
    try await eventually("both wait") { waiters.waitingCount == 2 }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    #expect(waiters.waitingCount == 1)
    other.cancel()
    #expect(waiters.waitingCount == 1, "who must wait waits on")
    flag.raise()
    waiters.wakeAll()
    await other.value
  }

  @Test func aTaskCancelledBeforeDoesNotWait() async {
    let waiters = Waiters()
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      try await waiters.waitUnlessCancelled { false }
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(waiters.waitingCount == 0)
  }

  private final class Ball: Sendable { let holder = Atomic(0) }

  /// Two tasks wait for each other in turn: after one missed wake-up neither would continue.
  @Test func noWakeUpIsMissed() async {
    let waiters = Waiters()
    let ball = Ball()
    await withTaskGroup { group in
      for side in 0..<2 {
        group.addTask {
          for round in 0..<Self.rounds {
            await waiters.wait { ball.holder.load(ordering: .acquiring) == 2 * round + side }
            ball.holder.add(1, ordering: .releasing)
            waiters.wakeAll()
          }
        }
      }
    }
    #expect(ball.holder.load(ordering: .relaxed) == 2 * Self.rounds)
    #expect(waiters.waitingCount == 0)
  }

  /// The actor waits for its own state: nothing can happen between the check and the wait.
  private actor Store {
    private let waiters = Waiters()
    private var count = 0

    func add() {
      count += 1
      waiters.wakeAll()
    }

    func take() async {
      await waiters.wait { count > 0 }
      count -= 1
    }

    var rest: Int { count }
  }

  @Test func anActorTakesWhatItWaitedFor() async {
    let store = Store()
    await withTaskGroup { group in
      for _ in 0..<4 {
        group.addTask { for _ in 0..<500 { await store.take() } }
        group.addTask { for _ in 0..<500 { await store.add() } }
      }
    }
    #expect(await store.rest == 0)
  }
}
