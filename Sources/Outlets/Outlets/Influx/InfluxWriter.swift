import BLELinux
import BLEWire
// Import only this type, because the module has another `SampleTable`.
import struct CaptureTools.LineProtocol
import Fleet
import JSONText
import Synchronization

/// Writes samples to a database on its own thread. A recording does not wait for the writer, and the writer's
/// errors do not affect the recording.
///
/// Lines are collected for a second, or until a batch is full. The writer sends a batch again until the
/// server accepts or rejects it. Further lines wait in a bounded queue.
package final class InfluxWriter: Sendable {
  /// Time for which lines are collected before they are sent, in milliseconds.
  private static let gatherMilliseconds = 1_000
  /// Longest delay in seconds that the server can request with Retry-After.
  private static let longestRetrySeconds = 60
  /// Time limit for finishing, and then for cancelling a post in progress.
  private static let patience = Duration.seconds(5)
  private static let cancelPatience = Duration.milliseconds(1_500)
  /// Maximum number of messages about a server that starts or stops accepting lines.
  private static let newsLimit = 20
  /// Maximum number of characters of a server's response that are shown.
  private static let wordsCount = 200

  /// Messages already shown to the user.
  private struct Told: Sendable {
    /// The reason why lines are waiting.
    var trouble: String?
    /// The reason for the server's first rejection of lines.
    var refusal: String?
    var changes = 0
  }

  let buffer: InfluxBuffer
  private let plan: InfluxPlan
  private let endpoint: HTTPEndpoint
  private let note: @Sendable (String) -> Void
  private let told = Mutex(Told())
  private let outbox: Outbox

  /// Creates a writer and starts its thread.
  ///
  /// - Parameter note: receives a line of text, on the writer's thread, when the server starts or stops
  ///   accepting lines.
  package init(
    _ plan: InfluxPlan, note: @escaping @Sendable (String) -> Void
  ) throws(NoInfluxWriter) {
    let (buffer, endpoint) = (InfluxBuffer(), try HTTPEndpoint(plan))
    (self.plan, self.buffer, self.endpoint, self.note) = (plan, buffer, endpoint, note)
    do throws(SystemError) {
      outbox = Outbox(try WakeEvent(urgent: { buffer.isUrgent })) { endpoint.cancel() }
      try outbox.start(named: "ringtap-influx") { self.main() }
    } catch { throw .system(error) }
  }

  /// Returns an output for the samples of a device.
  package func output(of device: SampleDevice) -> any SampleOutput { InfluxLines(device, to: self) }

  /// Wakes up the writer's thread to send new lines.
  func wake() { outbox.wake.signal() }

  // MARK: The end

  /// Waits until all lines are written, or until the time limit has passed.
  package func finish() async {
    await outbox.finish(within: Self.patience)
    await leave()
  }

  /// Ends the writer and waits for the post in progress, because libcurl must not run while the process
  /// exits.
  package func leave() async {
    outbox.abandon()
    await outbox.wait(within: Self.cancelPatience)
  }

  /// A message about unconfirmed lines, with the reason; `nil` if the server has confirmed all lines.
  package var problem: String? {
    let (counts, told) = (buffer.counts, told.withLock { $0 })
    var parts: [String] = []
    if counts.dropped > 0 {
      parts.append("\(counted(counts.dropped, "was", "were")) dropped, because too many waited")
    }
    if counts.refused > 0 {
      parts.append("\(counted(counts.refused, "was", "were")) refused (\(told.refusal ?? "unknown"))")
    }
    if counts.waiting > 0 {
      parts.append(
        "\(counted(counts.waiting, "is", "are")) still waiting (\(told.trouble ?? "the time limit was reached"))"
      )
    }
    return parts.isEmpty
      ? nil
      : "\(plan.place) has confirmed \(counted(counts.confirmed, "line")); " + parts.joined(separator: ", ")
  }

  /// Ends the writer as soon as possible. Call this if nothing was recorded or the user cancelled.
  package func abandon() { outbox.abandon() }

  // MARK: The thread

  private func main() {
    while true {
      outbox.wake.sleep { buffer.isEmpty && outbox.phase == .open }
      if outbox.phase == .open { outbox.wake.pause(milliseconds: Self.gatherMilliseconds) }
      // Read the phase before taking a batch, so that lines added before the end are still sent.
      let phase = outbox.phase
      if phase == .abandoned { return }
      if let batch = buffer.take() { write(batch) } else if phase == .ending { return }
    }
  }

  /// Sends a batch. Retries until the server accepts or rejects it, or until the writer is abandoned.
  private func write(_ batch: InfluxBuffer.Batch) {
    var delay = Outbox.RetryDelay()
    while true {
      let phase = outbox.phase
      if phase == .abandoned { return }
      switch Verdict(endpoint.post(batch.octets)) {
      case .taken:
        buffer.settle(batch, as: .confirmed)
        return tell(nil)
      case .refused(let why):
        buffer.settle(batch, as: .refused)
        return tell(refusal: why)
      case .later(let why, let seconds):
        if outbox.phase == .abandoned { return }
        tell(why)
        let wanted = min(seconds, Self.longestRetrySeconds) * 1_000
        outbox.rest(milliseconds: max(delay.next(in: phase), wanted), in: phase)
      }
    }
  }

  /// Meaning of a response for a batch.
  private enum Verdict {
    case taken
    case refused(String)
    case later(String, seconds: Int)

    /// Interprets a response. In InfluxDB's API, only status 204 means that all lines were accepted; a 200
    /// may come from an unrelated server.
    init(_ answer: HTTPEndpoint.Answer) {
      switch answer {
      case .missing(let why): self = .later(InfluxWriter.words(why), seconds: 0)
      case .came(204, _, _): self = .taken
      case .came(let status, let text, let seconds):
        let words = InfluxWriter.words(text)
        let why = "HTTP status \(status)" + (words.isEmpty ? "" : ": " + words)
        self =
          status == 408 || status == 429 || status >= 500
          ? .later(why, seconds: max(0, seconds)) : .refused(why)
      }
    }
  }

  /// Converts external text to one printable line.
  private static func words(_ text: String) -> String {
    String(text.split { $0.isNewline }.joined(separator: " ").printable.prefix(wordsCount))
  }

  // MARK: Texts

  /// Notifies the user of a change, once.
  private func tell(_ trouble: String?) {
    let isNews = told.withLock { told in
      let isNews = (told.trouble == nil) != (trouble == nil) && told.changes < Self.newsLimit
      told.trouble = trouble
      if isNews { told.changes += 1 }
      return isNews
    }
    guard isNews else { return }
    if let trouble {
      note("\(plan.place) does not accept lines: \(trouble); the recording continues, and lines wait")
    } else {
      note("\(plan.place) accepts lines again")
    }
  }

  /// Notifies the user of the first rejection only.
  private func tell(refusal: String) {
    let isNews = told.withLock { told in
      defer { told.refusal = told.refusal ?? refusal }
      return told.refusal == nil
    }
    if isNews {
      note(
        "\(plan.place) refuses lines: \(refusal); check its URL and token-file; the recording "
          + "continues")
    }
  }
}

/// Queue of lines for a database, with counts of confirmed, rejected and dropped lines. Adding lines never
/// blocks.
final class InfluxBuffer: Sendable {
  /// Lines that are sent together.
  struct Batch: Sendable {
    var octets: [UInt8] = []
    var lines = 0
  }

  /// The outcome of sending a batch.
  enum Fate: Sendable {
    case confirmed, refused
  }

  /// Numbers of lines by outcome.
  struct Counts: Hashable, Sendable {
    /// Number of lines that the server has confirmed.
    var confirmed = 0
    /// Number of lines that the server has rejected.
    var refused = 0
    /// Number of lines that did not fit into the queue.
    var dropped = 0
    /// Number of lines that are queued or in flight.
    var waiting = 0
  }

  static let limit = Limit(
    16 << 20, "bytes of lines that wait for a database", by: .broker, whenFull: "further lines are dropped",
    counted: "a message at the end, and exit status 4")
  /// Size in bytes at which a batch is sent immediately.
  static let batchByteCount = 128 << 10

  private struct State: Sendable {
    var batches: [Batch] = []
    /// Total size of the queued lines and of the lines in flight, in bytes.
    var byteCount = 0
    var counts = Counts()
  }

  private let state = Mutex(State())

  // MARK: Adding lines

  /// Adds a line.
  ///
  /// - Parameter line: a line with its line feed.
  func append(_ line: [UInt8]) {
    state.withLock { state in
      guard state.byteCount + line.count <= Self.limit.count else {
        state.counts.dropped += 1
        return
      }
      state.byteCount += line.count
      state.counts.waiting += 1
      if state.batches.last.map({ $0.octets.count >= Self.batchByteCount }) ?? true {
        state.batches.append(Batch())
      }
      let last = state.batches.count - 1
      state.batches[last].octets += line
      state.batches[last].lines += 1
    }
  }

  // MARK: Sending lines

  var isEmpty: Bool { state.withLock(\.batches.isEmpty) }

  /// Whether a batch is full.
  fileprivate var isUrgent: Bool {
    state.withLock { ($0.batches.first?.octets.count ?? 0) >= Self.batchByteCount }
  }

  /// Removes the oldest batch. Its lines count as waiting until `settle` is called for the batch.
  func take() -> Batch? { state.withLock { $0.batches.isEmpty ? nil : $0.batches.removeFirst() } }

  fileprivate func settle(_ batch: Batch, as fate: Fate) {
    state.withLock { state in
      state.byteCount -= batch.octets.count
      state.counts.waiting -= batch.lines
      switch fate {
      case .confirmed: state.counts.confirmed += batch.lines
      case .refused: state.counts.refused += batch.lines
      }
    }
  }

  var counts: Counts { state.withLock(\.counts) }
}

/// Encodes the samples of one device in the line protocol. `ringtap convert --to influx` writes the same
/// lines.
final class InfluxLines: SampleOutput {
  private struct State: Sendable {
    /// Encoders by table number; `nil` for a table that has not been opened.
    var tables: [LineProtocol?] = []
    var line: [UInt8] = []
  }

  private let device: SampleDevice
  private let writer: InfluxWriter
  /// Only one thread at a time uses the state.
  private let state = Mutex(State())

  init(_ device: SampleDevice, to writer: InfluxWriter) { (self.device, self.writer) = (device, writer) }

  /// Always `nil`, because batches are collected for longer than samples.
  var gatherMilliseconds: Int? { nil }

  func open(_ table: SampleTable) {
    state.withLock { state in
      while state.tables.count <= table.number { state.tables.append(nil) }
      state.tables[table.number] = LineProtocol(
        table.name, table.columns, device: device.address.description)
    }
  }

  func take(_ cells: [UInt64], of table: Int) {
    state.withLock { state in
      guard table < state.tables.count else { return }
      state.line.removeAll(keepingCapacity: true)
      state.tables[table]?.append(cells, to: &state.line)
      if !state.line.isEmpty { writer.buffer.append(state.line) }
    }
  }

  func take(_ event: SampleEvent) {}

  func endTurn() { writer.wake() }
}
