import BLELinux
import BLEWire
import ColmiRing
import LiveView
import Physiology
import Recording
import SensorSessions
import Synchronization

/// Fills a board from a recording, or from one after the other of the same device.
///
/// The writer's thread hands over the values, a few a second; a ring's ticks wait for the connection's thread, which finds the
/// pulse in them. What happens to the link waits for the turn of the writer's thread that begins after it: samples that came before
/// are told before.
final class HomeFeed: RecordingWatcher {
  /// Ticks that wait for the connection's thread: ten seconds of the fastest ring. What is beyond is a gap for the pulse.
  private static let tickCapacity = 1 << 13

  private struct State: Sendable {
    var board: HomeBoard
    var tables: [HomeTable?] = []
    /// Ticks a second of a ring, once it is known.
    var rate: Double?
    var pulse = LivePulse()
    /// The last that was told.
    var reading: LivePulseReading?
    /// Whether the link came or went, since the writer's thread looked, and before this turn of it.
    var changes: [Bool] = []
    var due: [Bool] = []
  }

  private let ticks = SampleQueue<PlacedTick>(capacity: tickCapacity)
  private let state: Mutex<State>

  init(_ device: HomeDevice) { state = Mutex(State(board: HomeBoard(device))) }

  // MARK: The recording

  func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts) {}

  func begin() { state.withLock { setLink(isUp: true, &$0) } }

  func note(_ facts: SensorFacts) { state.withLock { $0.board.note(facts, SystemClock.monotonic()) } }

  func take(_ gap: SessionGap, _ change: GapChange) { state.withLock { $0.changes.append(change == .back) } }

  func end(_ reason: String, lost: Int) {
    state.withLock { state in
      (state.changes, state.due) = ([], [])
      setLink(isUp: false, &state)
    }
  }

  private func setLink(isUp: Bool, _ state: inout State) {
    state.board.setLink(isUp: isUp, SystemClock.monotonic())
    guard !isUp else { return }
    // No pulse of before is found later.
    while ticks.pop() != nil {}
    (state.pulse, state.reading) = (LivePulse(), nil)
  }

  // MARK: The writer's thread

  func beginTurn() {
    state.withLock { state in
      guard !state.changes.isEmpty else { return }
      state.due += state.changes
      state.changes = []
    }
  }

  func endTurn() {
    state.withLock { state in
      guard !state.due.isEmpty else { return }
      for isUp in state.due { setLink(isUp: isUp, &state) }
      state.due = []
    }
  }

  func open(_ tables: [RecordedTable]) {
    state.withLock { state in
      state.tables = tables.map { HomeTable($0) }
      state.rate = nil
    }
  }

  /// None of those.
  func open(_ table: Int, with columns: [RecordedColumn]) {}

  func take(_ row: some RecordedRow, _ table: Int) {
    state.withLock { state in
      guard let values = state.tables[table]?.values(of: row) else { return }
      let now = SystemClock.monotonic()
      for (entity, text) in values { state.board.set(entity, text, now) }
    }
  }

  func take(_ placed: PlacedTick) { ticks.push(placed) }

  /// A ring tells its battery and the day's steps unasked.
  func take(_ pdu: Span<UInt8>) {
    guard let notification = try? HandleValueNotification(validating: pdu),
      let frame = try? RingFrame(validating: notification.value), frame.opcode != RingCommand.rawStreamOpcode,
      let reply = try? RingReply(decoding: frame)
    else { return }
    let now = SystemClock.monotonic()
    state.withLock { state in
      switch reply {
      case .battery(let battery), .notification(.battery(let battery)):
        // The ring's word for it that is none.
        guard battery.percent <= 100 else { return }
        state.board.set(.battery, "\(battery.percent)", now)
        state.board.set(.charging, HomeTable.flag(battery.isCharging), now)
      case .notification(.activity(let activity)):
        state.board.set(.steps, "\(activity.steps)", now)
        state.board.set(.calories, HomeTable.text(Double(activity.calories) / 1000, 1), now)
        state.board.set(.distance, "\(activity.distanceMeters)", now)
      default: break
      }
    }
  }

  func take(_ ticks: TickReport?, byteCount: Int) { state.withLock { $0.rate = ticks?.rate } }

  // MARK: The connection's thread

  /// Looks for the pulse in what has come, and hands out the board.
  func withBoard<Value: Sendable>(_ body: (inout HomeBoard) -> Value) -> Value {
    state.withLock { state in
      takePulse(&state)
      return body(&state.board)
    }
  }

  private func takePulse(_ state: inout State) {
    while let placed = ticks.pop() { state.pulse.take(placed, rate: state.rate) }
    guard state.pulse.reading != state.reading else { return }
    state.reading = state.pulse.reading
    guard case .window(let window)? = state.reading else { return }
    let now = SystemClock.monotonic()
    let pulse = window.pulse
    state.board.set(.heartRateQuality, pulse.map { HomeTable.text($0.quality * 100, 0) }, now)
    let isGood = (pulse?.quality ?? 0) >= PulseEstimate.goodQuality
    state.board.set(.heartRate, isGood ? pulse.map { HomeTable.text($0.beatsPerMinute, 0) } : nil, now)
  }
}
