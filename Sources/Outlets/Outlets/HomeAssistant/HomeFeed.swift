import BLELinux
import BLEWire
import ColmiRing
import LiveView
import Physiology
import Recording
import SensorSessions
import Synchronization

/// Fills a board with the values of a device from its consecutive recordings.
///
/// The thread that writes the recording's files delivers values, a few per second. Raw ticks of a ring are
/// queued for the connection's thread, which computes the pulse. Link events come from other threads. Link
/// events are queued until the writing thread runs again, so that they follow earlier samples.
final class HomeFeed: RecordingWatcher {
  /// Capacity of the queue of ticks for the connection's thread: ten seconds of the fastest ring. If the
  /// queue is full, ticks are dropped, which the pulse treats as a gap.
  private static let tickCapacity = 1 << 13

  private struct State: Sendable {
    var board: HomeBoard
    var tables: [HomeTable?] = []
    /// Tick rate of a ring in hertz; `nil` while it is unknown.
    var rate: Double?
    var pulse = LivePulse()
    /// The last reading that was published.
    var reading: LivePulseReading?
    /// Link events since the writing thread last ran: true if the link is up.
    var changes: [Bool] = []
    /// Link events to handle in the current turn of the writing thread.
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
    // The pulse must not use ticks that arrived before the loss.
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

  /// Does nothing; the columns are not needed.
  func open(_ table: Int, with columns: [RecordedColumn]) {}

  func take(_ row: some RecordedRow, _ table: Int) {
    state.withLock { state in
      guard let values = state.tables[table]?.values(of: row) else { return }
      let now = SystemClock.monotonic()
      for (entity, text) in values { state.board.set(entity, text, now) }
    }
  }

  func take(_ placed: PlacedTick) { ticks.push(placed) }

  /// Reads the battery level and the day's steps, which a ring sends without a request.
  func take(_ pdu: Span<UInt8>) {
    guard let notification = try? HandleValueNotification(validating: pdu),
      let frame = try? RingFrame(validating: notification.value), frame.opcode != RingCommand.rawStreamOpcode,
      let reply = try? RingReply(decoding: frame)
    else { return }
    let now = SystemClock.monotonic()
    state.withLock { state in
      switch reply {
      case .battery(let battery), .notification(.battery(let battery)):
        // A level above 100 means unknown.
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

  /// Computes the pulse from the queued ticks, and passes the board to `body`.
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
