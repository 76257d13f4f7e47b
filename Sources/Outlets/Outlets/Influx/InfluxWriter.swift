import BLELinux
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
  /// Delay between retries in milliseconds, unless the server sends Retry-After.
  private static let pauses = 250...10_000
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
  private let over = OneShot<Void>()
  /// Wakes up the thread when lines are added.
  private let gathering: WakeEvent
  /// Wakes up the thread only when the writer ends.
  private let pausing: WakeEvent

  /// - Parameter note: called on the writer's thread with a line of text when the server starts or stops
  ///   accepting lines.
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

  /// Wakes up the writer's thread to send new lines.
  func wake() { gathering.signal() }

  // MARK: The end

  /// Waits until everything is written, or until the time limit has passed.
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

  /// Ends the writer and waits for the post in progress, because libcurl must not run while the process
  /// exits.
  package func leave() async {
    abandon()
    let limit = Task { [over] in
      try await Task.sleep(for: Self.cancelPatience)
      over.set(())
    }
    await over.value()
    limit.cancel()
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
      // Read the phase before taking a batch, so that lines added before the end are still sent.
      let phase = buffer.phase
      if phase == .abandoned { return }
      if let batch = buffer.take() { write(batch) } else if phase == .ending { return }
    }
  }

  /// Sends a batch. Retries until the server accepts or rejects it, or until the writer is abandoned.
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
        "\(plan.place) refuses lines: \(refusal); check its URL and --influx-token; the recording "
          + "continues")
    }
  }
}
