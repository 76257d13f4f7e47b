import BLELinux
import BLEWire
import JSONText
import Recording
import SensorSessions
import Synchronization

/// Publishes recordings as live streams of the Lab Streaming Layer, for receivers on this machine and its
/// network.
package final class LabStreaming: Sendable {
  /// Events to report to the user.
  package enum News: Sendable {
    /// The stream with this name could not be created.
    case unavailable(String)
    /// liblsl rejected some samples of a device.
    case refused(SampleDevice, samples: Int)
  }

  /// Time in milliseconds for liblsl to send the last samples. When a stream ends, its queued samples are
  /// lost, and liblsl does not report queued samples.
  private static let lingerMilliseconds = 250

  private let library: LSLLibrary
  private let news: @Sendable (News) -> Void
  private let devices = Mutex<[DeviceOutlets]>([])

  /// Loads liblsl.
  ///
  /// - Parameter news: called on the thread that writes the recording's files.
  package init(news: @escaping @Sendable (News) -> Void) throws(NoLabStreaming) {
    library = try LSLLibrary()
    self.news = news
  }

  /// Returns an output for the samples of a device.
  package func output(of device: SampleDevice) -> any SampleOutput {
    let outlets = DeviceOutlets(device, library, news: news)
    devices.withLock { $0.append(outlets) }
    return outlets
  }

  /// Waits until the last samples are sent, then ends the streams. No samples may be pushed after this call.
  package func finish() async {
    let devices = devices.withLock { devices in
      defer { devices = [] }
      return devices
    }
    let isOver = OneShot<Void>()
    // Ends the streams on a separate thread, because ending takes a while.
    let isStarted: Void? = try? SystemThread.start(named: "ringtap-lsl-end") {
      if devices.contains(where: \.mayBeSending), let wake = try? WakeEvent() {
        wake.pause(milliseconds: Self.lingerMilliseconds)
      }
      for device in devices { device.close() }
      isOver.set(())
    }
    if isStarted != nil { await isOver.value() }
  }
}

// MARK: - Outlets of a device

/// The streams of one device: one per table, and one for events.
///
/// The thread that writes the recording's files pushes samples. A push copies samples into liblsl's queues,
/// one queue for each receiver, and does not block, because liblsl sends from its own threads.
final class DeviceOutlets: SampleOutput {
  /// Time in milliseconds for which samples are queued while there are receivers.
  private static let gatherMilliseconds = 20
  /// Number of values after which samples are pushed before the end of the current turn.
  private static let batchValueCount = 4_096

  private struct State: Sendable {
    /// Streams by table number; `nil` if the table has no stream.
    var tables: [OutletTable?] = []
    var events: LSLOutlet?
    var clock: LSLClock
    /// Number of samples that liblsl rejected.
    var refused = 0
  }

  private let device: SampleDevice
  private let library: LSLLibrary
  private let news: @Sendable (LabStreaming.News) -> Void
  /// Only one thread at a time uses the state.
  private let state: Mutex<State>
  /// Whether a stream has receivers; read in each turn without the lock.
  private let hasReceivers = Atomic<Bool>(false)

  init(_ device: SampleDevice, _ library: LSLLibrary, news: @escaping @Sendable (LabStreaming.News) -> Void) {
    (self.device, self.library, self.news) = (device, library, news)
    state = Mutex(State(clock: LSLClock(library.read())))
  }

  var gatherMilliseconds: Int? { hasReceivers.load(ordering: .relaxed) ? Self.gatherMilliseconds : nil }

  /// Whether a receiver may still lack the latest samples.
  fileprivate var mayBeSending: Bool {
    state.withLock { state in
      state.events?.hasReceivers == true || state.tables.contains { $0?.outlet.hasReceivers == true }
    }
  }

  /// Ends the streams.
  func close() {
    // Ending the streams runs without the lock, because it takes a long time.
    _ = state.withLock { state in
      let ended = (state.tables, state.events)
      (state.tables, state.events) = ([], nil)
      return ended
    }
  }

  func open(_ table: SampleTable) {
    let outlet = make(LSLStream(table, of: device))
    state.withLock { state in
      if state.events == nil { state.events = make(.events(of: device)) }
      while state.tables.count <= table.number { state.tables.append(nil) }
      push(table.number, &state)
      state.tables[table.number] = outlet.map { OutletTable($0, table.columns) }
    }
  }

  private func make(_ stream: LSLStream) -> LSLOutlet? {
    let outlet = LSLOutlet(stream, library)
    if outlet == nil { news(.unavailable(stream.name)) }
    return outlet
  }

  func take(_ cells: [UInt64], of table: Int) {
    state.withLock { state in
      guard table < state.tables.count, state.tables[table]?.hasReceivers == true else { return }
      let isFull = state.tables[table]?.take(cells, Self.batchValueCount) == true
      if isFull { push(table, &state) }
    }
  }

  func take(_ event: SampleEvent) {
    let (text, wall) =
      switch event {
      case .lost(let gap): ("lost: \(gap.end)", gap.lostAt)
      case .back(let gap): ("back", gap.connectedAt ?? SystemClock.now())
      case .end(let reason, _, _): ("end: \(reason)", SystemClock.now())
      }
    endTurn()
    state.withLock { state in
      let isTaken = state.events?.push(text.printable, at: state.clock.time(of: wall.nanoseconds)) ?? true
      if !isTaken { state.refused += 1 }
      if case .end = event, state.refused > 0 { news(.refused(device, samples: state.refused)) }
    }
  }

  func endTurn() {
    state.withLock { state in
      var isWanted = false
      for place in state.tables.indices {
        push(place, &state)
        guard let outlet = state.tables[place]?.outlet else { continue }
        let hasReceivers = outlet.hasReceivers
        state.tables[place]?.hasReceivers = hasReceivers
        isWanted = isWanted || hasReceivers
      }
      hasReceivers.store(isWanted, ordering: .relaxed)
    }
  }

  private func push(_ table: Int, _ state: inout State) {
    guard let count = state.tables[table]?.waitingCount, count > 0 else { return }
    state.clock.take(library.read())
    if state.tables[table]?.push(state.clock) == false { state.refused += count }
  }
}

/// A table's stream, with its pending samples.
private struct OutletTable: Sendable {
  let outlet: LSLOutlet
  private let columns: [RecordedColumn]
  /// Indexes of the columns that are channels.
  private let places: [Int]
  /// Whether there were receivers at the start of the turn. A receiver that connects during a turn gets
  /// samples from the next turn.
  var hasReceivers = false
  /// Timestamps of pending samples, in nanoseconds since the Unix epoch.
  private var stamps: [Int64] = []
  private var times: [Double] = []
  private var values: [Double] = []

  init(_ outlet: LSLOutlet, _ columns: [RecordedColumn]) {
    (self.outlet, self.columns, places) = (outlet, columns, LSLStream.places(columns))
  }

  var waitingCount: Int { stamps.count }

  /// Adds a sample.
  ///
  /// - Returns: whether the limit of pending values has been reached.
  mutating func take(_ cells: [UInt64], _ limit: Int) -> Bool {
    stamps.append(Int64(bitPattern: cells[0]))
    for place in places { values.append(columns[place].kind.channelValue(cells[place])) }
    return values.count >= limit
  }

  /// Pushes the pending samples.
  ///
  /// - Returns: whether liblsl accepted the samples.
  mutating func push(_ clock: LSLClock) -> Bool {
    for stamp in stamps { times.append(clock.time(of: stamp)) }
    defer {
      stamps.removeAll(keepingCapacity: true)
      times.removeAll(keepingCapacity: true)
      values.removeAll(keepingCapacity: true)
    }
    return outlet.push(values, at: times)
  }
}

extension LSLLibrary {
  /// Reads both clocks at the same time.
  fileprivate func read() -> LSLClock.Reading {
    LSLClock.Reading.take({ now }, { SystemClock.now().nanoseconds })
  }
}
