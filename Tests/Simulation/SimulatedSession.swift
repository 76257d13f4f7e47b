import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import Recording
import SensorSessions

/// A capture of one ring without its files. It is restarted when it has ended by itself.
final class SimulatedSession: @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  private unowned let scene: SimulatedScene
  private let ring: EmulatedRing
  private let adapter: HostAdapter
  private var task: Task<Void, Never>?
  private var reception: SampleSink<RingRawReading>?
  private var lastEnd = ""
  private weak var session: DeviceSession?
  /// Number of samples of receptions that have ended, and number of samples read from queues.
  private var formerCount = 0
  private var expectedAbove = 0
  /// Time before which no samples are read.
  private var stalledUntil = MonotonicTime(nanoseconds: 0)
  private var taken = 0
  private var lastTime: ReceiveTime?

  init(_ scene: SimulatedScene, _ ring: EmulatedRing, on adapter: HostAdapter) {
    self.scene = scene
    self.ring = ring
    self.adapter = adapter
  }

  private var world: SimulatedWorld { scene.world }

  func start() { scene.spawn { await self.runOn() } }

  private func runOn() async {
    while !scene.isOver, !scene.isAdapterLost {
      await runOnce()
      if scene.isOver { return }
      try? await scene.loop.wait(for: .seconds(1))
    }
  }

  private func runOnce() async {
    var plan = DeviceSession.Plan(ring.configuration.address)
    plan.patience = .seconds(world.random.pick([0, 30, 300]))
    plan.connectTimeout = .seconds(world.random.integer(1...10))
    plan.request = RandomClient.request(&world.random)
    let session = DeviceSession(plan, on: adapter)
    let reception = SampleSink<RingRawReading>(
      SampleChannel(capacity: RingSession.queueCapacity), for: .recorder)
    world.watch(session, "a session")
    self.session = session
    world.watch(reception, "a reception")
    world.frames.begin(reception)
    self.reception = reception
    (taken, lastTime) = (0, nil)
    let task = Task(executorPreference: scene.loop) {
      do throws(HostError) {
        try await session.run(SensorProfile<RingSession>((), reception))
        self.lastEnd = "ended"
      } catch { self.lastEnd = "\(error)" }
    }
    self.task = task
    world.trace.note("session begins \(ring.configuration.name)", at: world.now)
    await task.value
    self.task = nil
    world.trace.note("session: \(lastEnd)", at: world.now)
    drain(reception)
    world.frames.end(reception)
    let counts = reception.counts
    if taken + counts.dropped != counts.values {
      fault = "\(counts.values) samples, of which \(taken) were taken and \(counts.dropped) dropped"
    }
    world.report.dropped += counts.dropped
    formerCount += counts.values
    self.reception = nil
  }

  private var fault: String?

  func cancel() { task?.cancel() }

  func stall(for duration: Duration) { stalledUntil = world.now.advanced(by: duration) }

  /// Reads queued samples, unless the writer is stalled.
  func tick() throws {
    if let reception, world.now >= stalledUntil { drain(reception) }
    try finish()
  }

  func finish() throws {
    if let fault { throw world.finding(fault) }
  }

  private func drain(_ reception: SampleSink<RingRawReading>) {
    while let time = reception.samples.ring.pop()?.time {
      // Reordered packets keep their times.
      if let lastTime, time.nanoseconds < lastTime.nanoseconds, scene.kind != .packets {
        fault = "a sample of \(lastTime.nanoseconds) before one of \(time.nanoseconds)"
      }
      lastTime = time
      taken += 1
    }
  }

  // MARK: Recovery

  private var sampleCount: Int { formerCount + (reception?.counts.values ?? 0) }

  func expectSample() { expectedAbove = sampleCount }

  var hasNewSample: Bool { sampleCount > expectedAbove }

  /// State of the session, for a finding.
  var sessionState: String {
    get async { if let session { await "\(session.state)" } else { "none" } }
  }

  var state: String {
    "\(ring.configuration.name): \(task == nil ? "not running" : "running"), before: \(lastEnd)"
  }
}
