import BLEHost
import BLELinux
import BLESensors
import BLEWire
import ColmiRing
import Recording
import SensorSessions
import Synchronization

/// The sensor's side of a relay. Any thread may use it.
final class RelayInput<Source: RelaySource>: Sendable {
  /// Time to wait for the sensor's facts about itself. After this time, the relay starts without the facts.
  private static var introductionPatience: Duration { .seconds(3) }

  let hub: RelayHub
  private let clock: LoopClock
  private let source: Mutex<Source>
  /// A flag that becomes `true` when the stream starts for the first time, or `false` if the stream will
  /// never start.
  let started = OneShot<Bool>()
  private let learned = OneShot<SensorFacts>()
  private let gapCount = Atomic<Int>(0)

  private let refused: @Sendable (String) -> Void

  /// Creates the sensor's side of a relay.
  ///
  /// - Parameter refused: called if the sensor's data cannot be used.
  init(
    _ source: Source, _ hub: RelayHub, _ clock: LoopClock, refused: @escaping @Sendable (String) -> Void
  ) {
    (self.hub, self.clock, self.refused) = (hub, clock, refused)
    self.source = Mutex(source)
  }

  func take(_ sample: Source.Sample) {
    let refusal = source.withLock { source in
      source.take(sample) { hub.offer($0) }
      return source.refusal
    }
    if let refusal { refused(refusal) }
  }

  func take(_ gap: SessionGap, _ change: GapChange) {
    hub.tell(.gap(gap, change))
    guard change == .lost else { return }
    gapCount.add(1, ordering: .relaxed)
    if let value = source.withLock({ $0.lost(at: clock.now()) }) { hub.offer(value) }
  }

  func learn(_ facts: SensorFacts) {
    if learned.set(facts) { return }
    // Each link reports the battery level again.
    if let battery = facts.battery { hub.offer(RelayedValue(.battery(battery), at: clock.now())) }
  }

  /// Waits for the facts that the sensor reports about itself. Returns no facts after a timeout.
  func facts(on loop: EventLoop) async -> SensorFacts {
    let limit = loop.after(Self.introductionPatience) { [learned] in learned.set(SensorFacts()) }
    defer { limit.cancel() }
    return await learned.value(ifCancelled: SensorFacts())
  }

  var silences: Int { source.withLock { $0.silences } }
  var gaps: Int { gapCount.load(ordering: .relaxed) }
}

/// Relays the samples of a recording, on the thread that writes its files.
final class RelayTap<Source: RelaySource>: RecordingWatcher {
  /// Time in milliseconds for which samples are queued, as for other live outputs.
  private static var gatherTime: Int { 20 }

  private let input: RelayInput<Source>

  init(_ input: RelayInput<Source>) { self.input = input }

  var gatherMilliseconds: Int? { Self.gatherTime }

  func take(sample: some BitwiseCopyable & Sendable) {
    if let sample = sample as? Source.Sample { input.take(sample) }
  }

  func begin() { input.started.set(true) }
  func note(_ facts: SensorFacts) { input.learn(facts) }
  func take(_ gap: SessionGap, _ change: GapChange) { input.take(gap, change) }

  func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts) {}
  func open(_ tables: [RecordedTable]) {}
  func open(_ table: Int, with columns: [RecordedColumn]) {}
  func take(_ row: some RecordedRow, _ table: Int) {}
  func take(_ placed: PlacedTick) {}
  func take(_ pdu: Span<UInt8>) {}
  func take(_ ticks: TickReport?, byteCount: Int) {}
}
