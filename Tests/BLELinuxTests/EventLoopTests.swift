import BLELinux
import BLEWire
import Glibc
import Synchronization
import TestPeer
import Testing

/// Counts the loop's calls. Its properties are used on the loop's thread only.
private final class Source: EventSource, @unchecked Sendable {
  let descriptor: FileDescriptor
  let readied = Counter()
  let expirations = Counter()
  let gone: Counter
  var token: UInt64?
  var deadline: MonotonicTime?
  var seen: Readiness = []
  var expiredAt: MonotonicTime?
  var whenReady: (Source) -> Void = { _ in }
  private let loop: EventLoop

  init(_ descriptor: consuming FileDescriptor, on loop: EventLoop, gone: Counter = Counter()) {
    self.descriptor = descriptor
    self.loop = loop
    self.gone = gone
  }

  deinit { gone.add() }

  func add(for readiness: Readiness) throws(SystemError) {
    token = try loop.add(self, descriptor, for: readiness)
  }

  func remove() {
    if let token { loop.remove(token, descriptor) }
    token = nil
  }

  func ready(_ readiness: Readiness) {
    seen.formUnion(readiness)
    whenReady(self)
    readied.add()
  }

  func expired(now: MonotonicTime) {
    expiredAt = now
    deadline = nil
    expirations.add()
  }
}

private actor Resident {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  private(set) var turns = 0
  private var isStopped = false

  init(_ loop: EventLoop) { self.loop = loop }

  var isOnLoop: Bool { loop.isOnThread }
  func run<T: Sendable>(_ body: @Sendable () throws -> T) rethrows -> T { try body() }
  func count() { turns += 1 }
  func stop() { isStopped = true }

  func begin(_ source: Source, _ spun: Counter) throws {
    try source.add(for: .writable)
    spin(spun)
  }

  /// Enqueues another job each time, until it is told to stop.
  func spin(_ spun: Counter) {
    guard !isStopped else { return }
    spun.add()
    Task { self.spin(spun) }
  }
}

@Suite(.timeLimit(.minutes(1))) struct EventLoopTests {
  @Test func runsItsActorsOnItsThread() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let resident = Resident(loop)
    #expect(!loop.isOnThread)
    #expect(await resident.isOnLoop)
    await resident.run { resident.assertIsolated() }
    await withTaskGroup { group in
      for _ in 0..<1_000 { group.addTask { await resident.count() } }
    }
    #expect(await resident.turns == 1_000)
  }

  @Test func tellsReadiness() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let resident = Resident(loop)
    let pair = try SocketPair()
    let theirs = pair.theirs()
    let source = Source(pair.ours(), on: loop)
    source.whenReady = {
      var buffer = [UInt8](repeating: 0, count: 8)
      _ = try? $0.descriptor.read(into: &buffer)
    }
    try await resident.run { try source.add(for: .readable) }
    let pdu: [UInt8] = [1]
    _ = try theirs.send(pdu.span)
    await source.readied.reaches(1)
    await resident.run { #expect(source.seen == .readable) }
    theirs.shutDown()
    await source.readied.reaches(2)
    await resident.run {
      #expect(source.seen.isSuperset(of: .readable))
      #expect(!source.seen.isDisjoint(with: .hangUp))
      source.remove()
    }
  }

  /// A removed source is not called again, not even for an event of the same turn.
  @Test func leavesARemovedSourceAlone() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let resident = Resident(loop)
    let (first, second) = (try SocketPair(), try SocketPair())
    let (one, other) = (Source(first.ours(), on: loop), Source(second.ours(), on: loop))
    // Both are ready in one turn; the first one called removes both.
    for source in [one, other] {
      source.whenReady = { _ in
        one.remove()
        other.remove()
      }
    }
    let firstEnd = first.theirs()
    let secondEnd = second.theirs()
    let pdu: [UInt8] = [1]
    _ = try firstEnd.send(pdu.span)
    _ = try secondEnd.send(pdu.span)
    try await resident.run {
      try one.add(for: .readable)
      try other.add(for: .readable)
    }
    // A third source is called after them: then their turn is over.
    let third = try SocketPair()
    let last = Source(third.ours(), on: loop)
    last.whenReady = { $0.remove() }
    try await resident.run { try last.add(for: .writable) }
    await last.readied.reaches(1)
    #expect(one.readied.value + other.readied.value == 1)
    await resident.run {
      one.whenReady = { _ in }
      other.whenReady = { _ in }
    }
  }

  @Test func expiresAtTheDeadline() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let resident = Resident(loop)
    let pair = try SocketPair()
    let source = Source(pair.ours(), on: loop)
    let due = SystemClock.monotonic().advanced(by: .milliseconds(30))
    try await resident.run {
      source.deadline = due
      try source.add(for: .readable)
    }
    await source.expirations.reaches(1)
    await resident.run {
      #expect(source.expiredAt.map { $0 >= due } ?? false)
      #expect(source.seen == [])
      // A deadline in the past fires in the next turn.
      source.deadline = MonotonicTime(nanoseconds: 1)
    }
    await source.expirations.reaches(2)
    await resident.run { source.remove() }
  }

  /// Tasks that never leave the loop must not keep it from its sockets.
  @Test func jobsDoNotStarveSources() async throws {
    let loop = try EventLoop(name: "test")
    defer { loop.stop() }
    let resident = Resident(loop)
    let pair = try SocketPair()
    let source = Source(pair.ours(), on: loop)
    source.whenReady = { $0.remove() }
    // Both in one job: nothing else reaches the loop from outside.
    let spun = Counter()
    try await resident.begin(source, spun)
    await source.readied.reaches(1)
    await spun.reaches(100)
    await resident.stop()
  }

  /// Queued jobs still run when the loop is stopped; then the thread and the sources are released, even those
  /// that were not removed.
  @Test func stopsAfterTheJobsThatWait() async throws {
    let gone = Counter()
    let ran = Counter()
    let gate = Gate()
    let loop = try EventLoop(name: "test")
    let resident = Resident(loop)
    let pair = try SocketPair()
    try await resident.run { [source = Source(pair.ours(), on: loop, gone: gone)] in
      try source.add(for: .readable)
    }
    let holder = Task { await resident.run { gate.pass() } }
    await gate.waitForSomebody()
    let waiting = (0..<10).map { _ in Task { await resident.run { ran.add() } } }
    loop.stop()
    gate.open()
    await holder.value
    for task in waiting { await task.value }
    await gone.reaches(1)
    // Actors outlive their loop: their callers still get results, one at a time.
    await withTaskGroup { group in
      for _ in 0..<1_000 { group.addTask { await resident.count() } }
    }
    #expect(await resident.turns == 1_000)
    #expect(await resident.isOnLoop)
    let late = try SocketPair()
    let source = Source(late.ours(), on: loop)
    _ = await resident.run {
      #expect(throws: SystemError(call: "event loop", number: ECANCELED)) { try source.add(for: .readable) }
    }
  }
}
