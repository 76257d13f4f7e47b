import BLEHost
import BLELinux
import BLESensors
import BLEStack
package import BLEWire
package import ColmiRing
import Physiology
package import Recording
package import SensorSessions
import Synchronization

/// The state of one device's recording, for the live view.
///
/// The thread that writes the files adds the rows, and the recording adds its counters. The receive thread
/// does not access the feed. A feed exists only if the live view is shown.
package final class LiveFeed: RecordingWatcher {
  /// Capacity of the queue of ticks for the view: ten seconds of the fastest ring.
  private static let tickCapacity = 1 << 13

  private struct State: Sendable {
    var name: String?
    var battery: Int?
    var rssi: Int?
    /// Tables by number; `nil` for a table that is derived from other tables.
    var tables: [LiveTable?] = []
    var ticks: TickReport?
    var byteCount = 0
    /// Time at which the first stream started.
    var begunAt: MonotonicTime?
    var session: DeviceSession?
    var counts: (@Sendable () -> ReceiveCounts)?
    var pulse = LivePulse()
  }

  package let address: DeviceAddress
  private let ticks = SampleQueue<PlacedTick>(capacity: tickCapacity)
  private let state: Mutex<State>

  package init(_ address: DeviceAddress, name: String? = nil, rssi: Int8? = nil) {
    self.address = address
    state = Mutex(State(name: name, rssi: rssi.map { Int($0) }))
  }

  // MARK: The recording

  package func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts) {
    state.withLock { ($0.session, $0.counts) = (session, counts) }
  }

  package func begin() { state.withLock { $0.begunAt = $0.begunAt ?? SystemClock.monotonic() } }

  package func note(_ facts: SensorFacts) {
    let names = [facts.manufacturer, facts.model].compactMap(\.self).filter { !$0.isEmpty }
    state.withLock { state in
      if !names.isEmpty { state.name = names.joined(separator: " ") }
      if let battery = facts.battery { state.battery = Int(battery.percent) }
    }
  }

  // MARK: The writer's thread

  package func open(_ tables: [RecordedTable]) {
    state.withLock { $0.tables = tables.map { $0.content == .samples ? LiveTable($0) : nil } }
  }

  package func open(_ table: Int, with columns: [RecordedColumn]) {
    state.withLock { $0.tables[table]?.open(columns) }
  }

  package func take(_ row: some RecordedRow, _ table: Int) {
    let now = SystemClock.monotonic().nanoseconds
    state.withLock { $0.tables[table]?.take(row, now: now) }
  }

  package func take(_ placed: PlacedTick) { ticks.push(placed) }

  /// Reads the battery level, which a ring sends without a request.
  package func take(_ pdu: Span<UInt8>) {
    guard let notification = try? HandleValueNotification(validating: pdu),
      let frame = try? RingFrame(validating: notification.value), frame.opcode != RingCommand.rawStreamOpcode
    else { return }
    switch try? RingReply(decoding: frame) {
    case .battery(let battery), .notification(.battery(let battery)):
      state.withLock { $0.battery = Int(battery.percent) }
    default: break
    }
  }

  package func take(_ ticks: TickReport?, byteCount: Int) {
    state.withLock { ($0.ticks, $0.byteCount) = (ticks, byteCount) }
  }

  // MARK: The view

  /// Returns the time since the first stream started; `nil` if no stream has started.
  package func elapsed(at now: MonotonicTime) -> Duration? {
    state.withLock { $0.begunAt.map { $0.duration(to: now) } }
  }

  /// Reads the session's state on the event loop and returns it.
  package func standing() async -> LiveStanding {
    guard let session = state.withLock({ $0.session }) else { return LiveStanding() }
    return await session.standing
  }

  /// Returns the device's state for the view.
  ///
  /// - Parameter columns: number of columns of each wave.
  package func device(_ standing: LiveStanding, columns: Int, at now: MonotonicTime) -> LiveDevice {
    var device = LiveDevice("\(address)")
    (device.state, device.link, device.gaps) = (standing.state, standing.link, standing.gaps)
    device.lastGap = standing.lastGap
    let counts = state.withLock { state in
      while let placed = ticks.pop() {
        state.pulse.take(placed, rate: state.ticks?.rate)
        for stream in RingStream.allCases where state.tables.indices.contains(stream.rawValue) {
          guard let arrival = placed.tick.time(of: stream.part)?.nanoseconds else { continue }
          state.tables[stream.rawValue]?.place(at: placed.fittedTime.nanoseconds, cameAt: arrival)
        }
      }
      (device.name, device.rssi, device.battery) = (state.name, state.rssi, state.battery)
      device.pulse = state.pulse.reading
      device.byteCount = state.byteCount
      device.streams = state.tables.compactMap {
        $0?.stream(columns: columns, now: now.nanoseconds, ticks: state.ticks?.rate)
      }
      device.missingTicks = state.ticks?.clock.missing ?? 0
      if let ticks = state.ticks, ticks.ticks > 0 {
        device.jitter = ticks.parts.reduce(0) { max($0, $1.residualP99) }
      }
      return state.counts
    }
    device.counts = counts?() ?? ReceiveCounts()
    device.counts.kernelQueueDrops = standing.kernelQueueDrops
    return device
  }
}

/// State of a device's session.
package struct LiveStanding: Sendable {
  var state = LiveLinkState.waiting
  var link = LiveLink()
  var gaps = 0
  var lastGap: String?
  var kernelQueueDrops = 0
}

extension DeviceSession {
  /// The session's state for the live view.
  fileprivate var standing: LiveStanding {
    get async {
      var standing = LiveStanding()
      standing.state = liveState
      standing.gaps = gapCount
      standing.lastGap = gaps.last?.cause
      standing.kernelQueueDrops = statistics.kernelQueueDrops
      guard let connection = current else { return standing }
      standing.kernelQueueDrops += await connection.statistics.kernelQueueDrops
      let link = await connection.link
      standing.link = LiveLink(link, mtu: await connection.mtu)
      standing.link.security = link.security(seenByOwnHost: adapter.exclusive != nil)
      return standing
    }
  }

  private var liveState: LiveLinkState {
    switch state {
    case .streaming: return .streaming
    case .closed: return .closed
    case .idle: return .waiting
    case .reconnecting(let attempt, let pause):
      return lost(attempt, pause: pause == .zero ? nil : Int(pause.components.seconds)) ?? .connecting
    case .connecting: return lost(max(1, gaps.last?.attempts ?? 1), pause: nil) ?? .connecting
    case .discovering: return .discovering
    }
  }

  /// Returns the state of a lost link; `nil` if no stream has started yet.
  private func lost(_ attempt: Int, pause: Int?) -> LiveLinkState? {
    guard hasStreamed, let gap = gaps.last else { return nil }
    let nanoseconds = (adapter.loop.clock.now() - gap.lostAt).nanoseconds
    return .lost(
      seconds: Int(max(0, nanoseconds) / 1_000_000_000), reason: gap.cause, attempt: attempt, pause: pause)
  }
}

extension SessionGap {
  /// The disconnection reason, such as `0x08, Connection Timeout`, or the bearer's error.
  fileprivate var cause: String {
    reason.map { "0x" + hexadecimal($0.rawValue) + " \($0.name)" } ?? "\(end)"
  }
}

extension LiveLink {
  fileprivate init(_ state: LinkState, mtu: Int) {
    self.init()
    self.mtu = mtu
    security = state.security
    intervalMilliseconds = state.timing?.intervalMilliseconds
    latency = state.timing.map { Int($0.latency) }
    timeoutMilliseconds = state.timing?.supervisionTimeoutMilliseconds
    if let transmit = state.transmitPHY, let receive = state.receivePHY {
      phy = transmit == receive ? transmit.name : "\(transmit.name)/\(receive.name)"
    }
  }
}

/// Live pulse from a ring's light, computed as in `ringtap analyse`. Use an instance only on the thread that
/// displays the pulse.
package struct LivePulse: Sendable {
  private var meter: PulseRateMeter?
  package private(set) var reading: LivePulseReading?

  package init() {}

  /// Adds a tick.
  ///
  /// - Parameter rate: tick rate in hertz; `nil` while it is unknown.
  package mutating func take(_ placed: PlacedTick, rate: Double?) {
    if meter == nil, reading == nil || reading == .waiting { begin(rate) }
    _ = meter?.take(placed.signal)
    while let window = meter?.next() { reading = .window(window) }
  }

  private mutating func begin(_ rate: Double?) {
    guard let rate else { return reading = .waiting }
    do throws(PulseMeter.Refusal) {
      meter = try PulseRateMeter(rate: rate)
      reading = .waiting
    } catch { reading = .refused("\(error)") }
  }
}
