import BLELinux
import Fleet
import JSONText
import Synchronization

/// Writes samples to a database on its own thread. A recording does not wait for it, and is not affected by
/// its errors.
///
/// Lines gather for a second, or until a batch is full. A batch is retried until the server accepts or
/// rejects it. Further lines wait in a bounded queue meanwhile.
package final class InfluxWriter: Sendable {
  /// How long lines gather, in milliseconds.
  private static let gatherMilliseconds = 1_000
  /// Longest time in seconds that the server can request with Retry-After.
  private static let longestRetrySeconds = 60
  /// Time limit for finishing, and then for cancelling a post in progress.
  private static let patience = Duration.seconds(5)
  private static let cancelPatience = Duration.milliseconds(1_500)
  /// Maximum number of messages that the server has started or stopped accepting lines.
  private static let newsLimit = 20
  /// Maximum number of characters of a server's response that are shown.
  private static let wordsCount = 200

  /// Messages already shown to the user.
  private struct Told: Sendable {
    /// Why lines are waiting.
    var trouble: String?
    /// Why the server first rejected lines.
    var refusal: String?
    var changes = 0
  }

  let buffer: InfluxBuffer
  private let plan: InfluxPlan
  private let endpoint: HTTPEndpoint
  private let note: @Sendable (String) -> Void
  private let told = Mutex(Told())
  private let outbox: Outbox

  /// - Parameter note: called on the writer's thread with a line of text when the server starts or stops
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

  /// Waits until everything is written, or until the time limit has passed.
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

  /// Describes the lines that the server has not confirmed, and why; `nil` if it has confirmed all lines.
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

  /// Ends the writer as soon as possible, because nothing was recorded or the user cancelled.
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

    /// In InfluxDB's API, only status 204 means that all lines were accepted. A 200 may come from an
    /// unrelated server.
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
