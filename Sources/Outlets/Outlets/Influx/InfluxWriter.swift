import BLELinux
import JSONText
import Synchronization

/// Writes samples to a database on its own thread. Recording neither waits for it nor fails with it.
///
/// Lines gather for a second or until a batch is full. A batch is retried until the server accepts or refuses
/// it. Meanwhile further lines wait in a bounded queue.
package final class InfluxWriter: Sendable {
  /// Time that lines gather, in milliseconds.
  private static let gatherMilliseconds = 1_000
  /// Retry delay in milliseconds, unless the server sends Retry-After.
  private static let pauses = 250...10_000
  private static let longestRetrySeconds = 60
  /// Timeout for the end, and then for the cancellation of a post in progress.
  private static let patience = Duration.seconds(5)
  private static let cancelPatience = Duration.milliseconds(1_500)
  /// Maximum number of messages about a server that starts or stops accepting lines.
  private static let newsLimit = 20
  /// Maximum number of characters shown of a server's response.
  private static let wordsCount = 200

  /// Messages already shown to the user.
  private struct Told: Sendable {
    /// Reason why lines wait.
    var trouble: String?
    /// Reason for the server's first refusal of lines.
    var refusal: String?
    var changes = 0
  }

  let buffer: InfluxBuffer
  private let plan: InfluxPlan
  private let endpoint: HTTPEndpoint
  private let note: @Sendable (String) -> Void
  private let told = Mutex(Told())
  private let over = OneShot<Void>()
  /// Wakes the thread for new lines.
  private let gathering: WakeEvent
  /// Wakes the thread only for the end.
  private let pausing: WakeEvent

  /// - Parameter note: called on the writer's thread with a line of text when the state of the server
  ///   changes.
  package init(
    _ plan: InfluxPlan, note: @escaping @Sendable (String) -> Void
  ) throws(NoInfluxWriter) {
    let buffer = InfluxBuffer()
    (self.plan, self.buffer, self.note) = (plan, buffer, note)
    endpoint = try HTTPEndpoint(plan)
    do throws(SystemError) {
      gathering = try WakeEvent(urgent: { buffer.isUrgent })
      pausing = try WakeEvent()
      try SystemThread.start(named: "ringtap-influx", as: .patient) { self.main() }
    } catch { throw .system(error) }
  }

  /// Returns an output for the samples of a device.
  package func output(of device: SampleDevice) -> any SampleOutput { InfluxLines(device, to: self) }

  /// Wakes the writer's thread for new lines.
  func wake() { gathering.signal() }

  // MARK: The end

  /// Waits until everything is written, or until the timeout.
  package func finish() async {
    buffer.end()
    gathering.interrupt()
    pausing.interrupt()
    let limit = Task { [self] in
      try await Task.sleep(for: Self.patience)
      await leave()
    }
    await over.value()
    limit.cancel()
  }

  /// Ends, and waits for the post in progress, because libcurl must not run while the process exits.
  package func leave() async {
    abandon()
    let limit = Task { [over] in
      try await Task.sleep(for: Self.cancelPatience)
      over.set(())
    }
    await over.value()
    limit.cancel()
  }

  /// Describes lines that the server has not confirmed, and why; `nil` if it confirmed all.
  package var problem: String? {
    let (counts, told) = (buffer.counts, told.withLock { $0 })
    var parts: [String] = []
    if counts.dropped > 0 { parts.append("\(counts.dropped) were dropped, because too many waited") }
    if counts.refused > 0 { parts.append("\(counts.refused) were refused (\(told.refusal ?? "unknown"))") }
    if counts.waiting > 0 {
      parts.append("\(counts.waiting) are still waiting (\(told.trouble ?? "the time limit was reached"))")
    }
    return parts.isEmpty
      ? nil : "\(plan.place) has confirmed \(counts.confirmed) lines; " + parts.joined(separator: ", ")
  }

  /// Ends as soon as possible: nothing was recorded, or the user cancelled.
  package func abandon() {
    buffer.abandon()
    endpoint.cancel()
    gathering.interrupt()
    pausing.interrupt()
  }

  // MARK: The thread

  private func main() {
    defer { over.set(()) }
    while true {
      gathering.sleep { buffer.isIdle }
      gathering.pause(milliseconds: Self.gatherMilliseconds)
      // Read the phase first: lines from before the end are taken below.
      let phase = buffer.phase
      if phase == .abandoned { return }
      if let batch = buffer.take() { write(batch) } else if phase == .ending { return }
    }
  }

  /// Retries until the server accepts or refuses the batch, or the writer is abandoned.
  private func write(_ batch: InfluxBuffer.Batch) {
    var pause = Self.pauses.lowerBound
    while true {
      let phase = buffer.phase
      if phase == .abandoned { return }
      switch Verdict(endpoint.post(batch.octets)) {
      case .taken:
        buffer.settle(batch, as: .confirmed)
        return tell(nil)
      case .refused(let why):
        buffer.settle(batch, as: .refused)
        return tell(refusal: why)
      case .later(let why, let seconds):
        if buffer.phase == .abandoned { return }
        tell(why)
        let wanted = min(seconds, Self.longestRetrySeconds) * 1_000
        pausing.sleep(milliseconds: max(pause, wanted)) { buffer.phase == phase }
        pause = buffer.phase == phase ? min(pause * 2, Self.pauses.upperBound) : Self.pauses.lowerBound
      }
    }
  }

  /// Meaning of a response for a batch.
  private enum Verdict {
    case taken
    case refused(String)
    case later(String, seconds: Int)

    /// In InfluxDB's API only 204 means that all lines were accepted. A 200 may come from an unrelated
    /// server.
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

  /// Makes external text fit for one line of a terminal.
  private static func words(_ text: String) -> String {
    String(text.split { $0.isNewline }.joined(separator: " ").printable.prefix(wordsCount))
  }

  // MARK: Texts

  /// Reports each change once.
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

  /// Reports the first refusal only.
  private func tell(refusal: String) {
    let isNews = told.withLock { told in
      defer { told.refusal = told.refusal ?? refusal }
      return told.refusal == nil
    }
    if isNews {
      note(
        "\(plan.place) refuses lines: \(refusal); check its URL and --influx-token; the recording "
          + "continues")
    }
  }
}
