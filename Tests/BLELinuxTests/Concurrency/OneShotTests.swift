import BLELinux
import Synchronization
import TestKit
import Testing

@Suite(.timeLimit(.minutes(1))) struct OneShotTests {
  private static let rounds = 3_000

  @Test func aValueSetBeforeIsThereAtOnce() async {
    let shot = OneShot<Int>()
    #expect(shot.current == nil)
    #expect(shot.set(7))
    #expect(!shot.set(8), "it is set once")
    #expect(shot.current == 7)
    #expect(await shot.value() == 7)
    #expect(await shot.value() == 7, "as often as it is asked for")
  }

  @Test func allWhoWaitGetTheValue() async throws {
    let shot = OneShot<Int>()
    let tasks = (0..<3).map { _ in Task { await shot.value() } }
    try await eventually("three wait") { shot.waitingCount == 3 }
    #expect(shot.set(7))
    for task in tasks { #expect(await task.value == 7) }
    #expect(shot.waitingCount == 0)
  }

  /// `nil` is a value like any other.
  @Test func aValueMayBeNothing() async {
    let shot = OneShot<Int?>()
    #expect(shot.set(nil))
    #expect(!shot.set(7))
    #expect(await shot.value() == nil)
  }

  @Test func throwsTheFailureOfAResult() async throws {
    struct Failure: Error, Equatable {}
    let shot = OneShot<Result<Int, Failure>>()
    let task = Task { try await shot.get() }
    try await eventually("it waits") { shot.waitingCount == 1 }
    shot.set(.failure(Failure()))
    await #expect(throws: Failure()) { try await task.value }
  }

  @Test func aCancelledTaskWaitsOnWhereItMust() async throws {
    let shot = OneShot<Int>()
    let task = Task { await shot.value() }
    try await eventually("it waits") { shot.waitingCount == 1 }
    task.cancel()
    #expect(shot.current == nil)
    shot.set(7)
    #expect(await task.value == 7)
  }

  @Test func aTaskCancelledBeforeSetsTheValue() async {
    let shot = OneShot<Int>()
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return await shot.value(ifCancelled: -1)
    }
    task.cancel()
    #expect(await task.value == -1)
    #expect(!shot.set(7))
  }

  @Test func aTaskCancelledMeanwhileSetsTheValueForAll() async throws {
    let shot = OneShot<Int>()
    let cancelled = Task { await shot.value(ifCancelled: -1) }
    let other = Task { await shot.value() }
    try await eventually("both wait") { shot.waitingCount == 2 }
    cancelled.cancel()
    #expect(await cancelled.value == -1)
    #expect(await other.value == -1)
  }

  @Test func aCancelComesTooLate() async {
    let shot = OneShot<Int>()
    shot.set(7)
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return await shot.value(ifCancelled: -1)
    }
    task.cancel()
    #expect(await task.value == 7)
  }

  /// Two tasks set the value, two wait, and one is cancelled, all at once.
  @Test func oneOfManyWins() async {
    for round in 0..<Self.rounds {
      let shot = OneShot<Int>()
      let cancelled = Task { await shot.value(ifCancelled: -1) }
      let outcome = await withTaskGroup(of: (won: Bool?, value: Int?).self) { group in
        for value in [2 * round, 2 * round + 1] { group.addTask { (shot.set(value), nil) } }
        for _ in 0..<2 { group.addTask { (nil, await shot.value()) } }
        group.addTask {
          cancelled.cancel()
          return (nil, await cancelled.value)
        }
        var outcome: (wins: Int, values: Set<Int>) = (0, [])
        for await (won, value) in group {
          if won == true { outcome.wins += 1 }
          if let value { outcome.values.insert(value) }
        }
        return outcome
      }
      #expect(outcome.values.count == 1, "all get the same")
      #expect(outcome.wins == (outcome.values == [-1] ? 0 : 1))
    }
  }
}
