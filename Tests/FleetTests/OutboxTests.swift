import BLELinux
import Fleet
import Synchronization
import TestKit
import Testing

/// The thread that delivers for the stream, the database, Home Assistant and publishers.
@Suite(.timeLimit(.minutes(1))) struct OutboxTests {
  /// Blocks a thread until it is opened.
  private final class Gate: Sendable {
    private let isOpen = Atomic(false)
    private let wake: WakeEvent

    init() throws { wake = try WakeEvent() }

    func open() {
      isOpen.store(true, ordering: .sequentiallyConsistent)
      wake.interrupt()
    }

    func pass() { while !isOpen.load(ordering: .sequentiallyConsistent) { wake.sleep { true } } }
  }

  @Test func delaysDoubleUpToALimit() {
    var delay = Outbox.RetryDelay()
    #expect((0..<8).map { _ in delay.next(in: .open) } == [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000])
    #expect((0..<2).map { _ in delay.next(in: .ending) } == [1000, 1000])
    delay = Outbox.RetryDelay()
    #expect((0..<4).map { _ in delay.next(in: .ending) } == [250, 500, 1000, 1000])
  }

  @Test func deliversWhatWasAddedBeforeTheEnd() async throws {
    let outbox = Outbox(try WakeEvent())
    let waiting = Mutex<[Int]>([])
    let delivered = Mutex<[Int]>([])
    try outbox.start(named: "test-outbox") {
      while true {
        outbox.wake.sleep { waiting.withLock(\.isEmpty) && outbox.phase == .open }
        let phase = outbox.phase
        let taken = waiting.withLock { waiting in
          defer { waiting = [] }
          return waiting
        }
        if taken.isEmpty, phase != .open { return }
        delivered.withLock { $0 += taken }
      }
    }
    for number in 0..<1000 {
      waiting.withLock { $0.append(number) }
      outbox.wake.signal()
    }
    await outbox.finish(within: .seconds(30))
    #expect(delivered.withLock { $0 } == Array(0..<1000))
  }

  /// The end interrupts a delay, and the thread tries again at once.
  @Test func theEndInterruptsADelay() async throws {
    let outbox = Outbox(try WakeEvent())
    let attempts = Atomic(0)
    try outbox.start(named: "test-outbox") {
      repeat {
        attempts.add(1, ordering: .relaxed)
        // A signal without a change of the phase does not end the delay.
        outbox.wake.signal()
        outbox.rest(milliseconds: 3_600_000, in: .open)
      } while attempts.load(ordering: .relaxed) < 2
    }
    try await eventually("it has tried") { attempts.load(ordering: .relaxed) == 1 }
    outbox.wake.signal()
    await outbox.finish(within: .seconds(30))
    #expect(attempts.load(ordering: .relaxed) == 2)
  }

  /// A thread that is blocked is interrupted at the time limit, and is not waited for.
  @Test func abandonsAThreadThatIsBlocked() async throws {
    let gate = try Gate()
    let interrupts = Atomic(0)
    let outbox = Outbox(try WakeEvent()) { interrupts.add(1, ordering: .relaxed) }
    try outbox.start(named: "test-outbox") { gate.pass() }
    await outbox.finish(within: .milliseconds(1))
    #expect(outbox.phase == .abandoned && interrupts.load(ordering: .relaxed) == 1)
    gate.open()
    await outbox.wait(within: .seconds(30))
    // After the thread has ended, there is nothing to interrupt.
    outbox.abandon()
    #expect(interrupts.load(ordering: .relaxed) == 1)
  }

  @Test func isAbandonedWithItsTask() async throws {
    let gate = try Gate()
    let outbox = Outbox(try WakeEvent()) { gate.open() }
    try outbox.start(named: "test-outbox") { gate.pass() }
    let task = Task { await outbox.finish(within: .seconds(3600)) }
    task.cancel()
    await task.value
    #expect(outbox.phase == .abandoned)
  }
}
