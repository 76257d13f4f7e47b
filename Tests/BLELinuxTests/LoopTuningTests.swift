import BLELinux
import BLEWire
import Glibc
import Synchronization
import TestPeer
import Testing

/// The kernel's view of a loop's thread that requested a processor or a priority.
@Suite(.timeLimit(.minutes(1))) struct LoopTuningTests {
  private actor Resident {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

    init(_ loop: EventLoop) { self.loop = loop }

    func run<Value: Sendable>(_ body: @Sendable () throws -> Value) rethrows -> Value { try body() }
  }

  /// Processors of the calling thread.
  private static func processors() -> String? {
    Files.text(at: "/proc/thread-self/status")?.split(separator: "\n").first {
      $0.hasPrefix("Cpus_allowed_list")
    }
    .map(String.init)
  }

  /// Scheduling policy and real-time priority of the calling thread: fields 41 and 40 of proc(5)'s `stat`.
  private static func policy() -> [Substring] {
    let fields = Files.text(at: "/proc/thread-self/stat")?.split(separator: " ") ?? []
    return fields.count > 40 ? [fields[40], fields[39]] : []
  }

  /// A value from a thread that a loop's thread starts.
  private static func ofChild<Value: Sendable>(
    _ resident: Resident, as role: SystemThread.Role = .ordinary, _ body: @escaping @Sendable () -> Value
  ) async throws -> Value? {
    let told = Counter()
    let value = Mutex<Value?>(nil)
    try await resident.run {
      try SystemThread.start(named: "child", as: role) {
        let found = body()
        value.withLock { $0 = found }
        told.add()
      }
    }
    await told.reaches(1)
    return value.withLock { $0 }
  }

  @Test func staysOnItsProcessorAlone() async throws {
    let main = try #require(
      Files.text(at: "/proc/self/status")?.split(separator: "\n").first { $0.hasPrefix("Cpus_allowed_list") })
    let processor = try #require(Int(main.dropFirst("Cpus_allowed_list:\t".count).prefix { $0.isNumber }))
    var tuning = LoopTuning()
    tuning.processor = processor
    let loop = try EventLoop(name: "test", tuning: tuning)
    defer { loop.stop() }
    let resident = Resident(loop)
    #expect(await resident.run { Self.processors() } == "Cpus_allowed_list:\t\(processor)")
    #expect(try await Self.ofChild(resident) { Self.processors() } == String(main))
  }

  @Test func tellsOfAProcessorThatIsNotThere() throws {
    var tuning = LoopTuning()
    tuning.processor = 1_000
    do throws(SystemError) {
      _ = try EventLoop(name: "test", tuning: tuning)
      Issue.record("there are not so many processors")
    } catch { #expect(error.number == EINVAL) }
  }

  /// SCHED_FIFO is 1, SCHED_OTHER 0, SCHED_BATCH 3; the flag that keeps children from inheriting it is not in
  /// `stat`.
  @Test(.enabled(if: ProcessFacts.has(.sysNice), "needs CAP_SYS_NICE"))
  func hasItsPriorityAlone() async throws {
    var tuning = LoopTuning()
    tuning.realTimePriority = 7
    let loop = try EventLoop(name: "test", tuning: tuning)
    defer {
      loop.stop()
      // Later tests do not need it.
      munlockall()
    }
    let resident = Resident(loop)
    #expect(await resident.run { Self.policy() } == ["1", "7"])
    #expect(try await Self.ofChild(resident) { Self.policy() } == ["0", "0"])
    #expect(try await Self.ofChild(resident, as: .patient) { Self.policy() } == ["3", "0"])
    #expect(loop.locksMemory == ProcessFacts.has(.ipcLock))
  }

  /// While it spins, the loop polls repeatedly; without spinning it polls only when there is an event.
  @Test func looksOnAfterAPacketIfToldTo() async throws {
    for spin in [0, 1_000_000] {
      var tuning = LoopTuning()
      tuning.spinMicroseconds = spin
      let loop = try EventLoop(name: "test", tuning: tuning)
      defer { loop.stop() }
      let resident = Resident(loop)
      let pair = try SocketPair()
      let theirs = pair.theirs()
      let reader = Reader(pair.ours())
      try await resident.run { try reader.add(to: loop) }
      let pdu: [UInt8] = [1]
      _ = try theirs.send(pdu.span)
      await reader.readied.reaches(1)
      let before = await resident.run { ThreadUsage.currentSystemCalls }
      try await loop.wait(for: .milliseconds(100))
      let calls = await resident.run { ThreadUsage.currentSystemCalls } - before
      #expect(spin == 0 ? calls < 20 : calls > 100, "\(calls)")
      await resident.run { reader.remove(from: loop) }
    }
  }

  /// Reads incoming data. Its properties are used on the loop's thread only.
  private final class Reader: EventSource, @unchecked Sendable {
    private let descriptor: FileDescriptor
    private var token: UInt64?
    let readied = Counter()

    init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }

    func add(to loop: EventLoop) throws(SystemError) {
      token = try loop.add(self, descriptor, for: .readable)
    }
    func remove(from loop: EventLoop) { if let token { loop.remove(token, descriptor) } }

    func ready(_ readiness: Readiness) {
      var buffer = [UInt8](repeating: 0, count: 8)
      _ = try? descriptor.read(into: &buffer)
      readied.add()
    }

    var deadline: MonotonicTime? { nil }
    func expired(now: MonotonicTime) {}
  }
}
