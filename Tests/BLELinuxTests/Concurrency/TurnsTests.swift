import BLELinux
import Synchronization
import TestKit
import Testing

@Suite(.timeLimit(.minutes(1))) struct TurnsTests {
  private static let rounds = 1_000

  @Test func aFreeTurnIsTakenAtOnce() async throws {
    let turns = Turns()
    for _ in 0..<3 {
      await turns.take()
      turns.end()
      try await turns.takeUnlessCancelled()
      turns.end()
    }
    #expect(turns.waitingCount == 0)
  }

  private final class Order: Sendable {
    private let state = Mutex<[Int]>([])
    var numbers: [Int] { state.withLock { $0 } }
    func add(_ number: Int) { state.withLock { $0.append(number) } }
  }

  @Test func turnsComeInOrder() async throws {
    let turns = Turns()
    let order = Order()
    await turns.take()
    var tasks: [Task<Void, Never>] = []
    for number in 0..<4 {
      tasks.append(
        Task {
          await turns.take()
          order.add(number)
          turns.end()
        })
      try await eventually("it is queued") { turns.waitingCount == number + 1 }
    }
    #expect(order.numbers == [])
    turns.end()
    for task in tasks { await task.value }
    #expect(order.numbers == [0, 1, 2, 3])
  }

  @Test func aCancelledTaskLeavesTheLine() async throws {
    let turns = Turns()
    await turns.take()
    let first = Task { try await turns.takeUnlessCancelled() }
    try await eventually("the first waits") { turns.waitingCount == 1 }
    let second = Task { await turns.take() }
    try await eventually("the second waits") { turns.waitingCount == 2 }
    first.cancel()
    // While another task has the turn.
    await #expect(throws: CancellationError.self) { try await first.value }
    #expect(turns.waitingCount == 1)
    turns.end()
    await second.value
    turns.end()
    await turns.take()
  }

  @Test func aTaskCancelledBeforeDoesNotWait() async {
    let turns = Turns()
    await turns.take()
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      try await turns.takeUnlessCancelled()
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(turns.waitingCount == 0)
  }

  @Test func aCancelledTaskWaitsOnWhereItMust() async throws {
    let turns = Turns()
    await turns.take()
    let task = Task { await turns.take() }
    try await eventually("it waits") { turns.waitingCount == 1 }
    task.cancel()
    #expect(turns.waitingCount == 1)
    turns.end()
    await task.value
  }

  /// State that only the turn guards.
  private final class Guarded: @unchecked Sendable {
    // Has no lock: the test checks that the turn is sufficient.
    var count = 0
    let inside = Atomic(0)
    let most = Atomic(0)

    func enter() {
      most.max(inside.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
      count += 1
    }

    func leave() { inside.subtract(1, ordering: .relaxed) }
  }

  @Test func oneAtATime() async {
    let turns = Turns()
    let guarded = Guarded()
    await withTaskGroup { group in
      for _ in 0..<8 {
        group.addTask {
          for _ in 0..<Self.rounds {
            await turns.take()
            guarded.enter()
            await Task.yield()
            guarded.leave()
            turns.end()
          }
        }
      }
    }
    #expect(guarded.count == 8 * Self.rounds)
    #expect(guarded.most.load(ordering: .relaxed) == 1)
  }

  /// A task is cancelled and gets the turn at the same moment: it has one of both results, and no turn is
  /// lost.
  @Test func noTurnIsLostToACancel() async {
    let turns = Turns()
    for _ in 0..<Self.rounds {
      await turns.take()
      let tasks = (0..<3).map { _ in
        Task {
          do throws(CancellationError) { try await turns.takeUnlessCancelled() } catch { return }
          turns.end()
        }
      }
      await withTaskGroup { group in
        for task in tasks.prefix(2) { group.addTask { task.cancel() } }
        group.addTask { turns.end() }
      }
      for task in tasks { await task.value }
      await turns.take()
      #expect(turns.waitingCount == 0)
      turns.end()
    }
  }
}
