import BLELinux
import JSONText
import Synchronization

/// Writes what is recorded to a database, on a thread of its own, which a recording neither waits for nor is hurt by.
///
/// Lines gather for a second, or until a batch is full. A batch is posted until the server has taken or refused it; meanwhile the
/// others wait, in bounded memory.
package final class InfluxWriter: Sendable {
  /// How long lines gather, in milliseconds.
  private static let gatherMilliseconds = 1_000
  /// Milliseconds from one attempt to the next, where the server does not say for how long it wants to be left alone.
  private static let pauses = 250...10_000
  private static let longestRetrySeconds = 60
  /// How long the end may take, and then the end of a post that is under way.
  private static let patience = Duration.seconds(5)
  private static let cancelPatience = Duration.milliseconds(1_500)
  /// Changes between a server that takes lines and one that does not, of which a person is told.
  private static let newsLimit = 20
  /// Characters of a server's words.
  private static let wordsCount = 200

  /// What a person was told.
  private struct Told: Sendable {
    /// Why lines wait.
    var trouble: String?
    /// Why the server has refused lines, the first time.
    var refusal: String?
    var changes = 0
  }

  let buffer: InfluxBuffer
  private let plan: InfluxPlan
  private let endpoint: HTTPEndpoint
  private let note: @Sendable (String) -> Void
  private let told = Mutex(Told())
  private let over = OneShot<Void>()
  /// For lines.
  private let gathering: WakeEvent
  /// For the end alone.
  private let pausing: WakeEvent

  /// - Parameter note: gets a line about the server when that changes, on the writer's thread.
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

  /// Where the samples of a device go in.
  package func output(of device: SampleDevice) -> any SampleOutput { InfluxLines(device, to: self) }

  /// Lines have come.
  func wake() { gathering.signal() }

  // MARK: The end

  /// Waits until all is written, or some seconds have passed.
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

  /// Ends it, and waits for a post that is under way: libcurl is not to run while the process ends.
  package func leave() async {
    abandon()
    let limit = Task { [over] in
      try await Task.sleep(for: Self.cancelPatience)
      over.set(())
    }
    await over.value()
    limit.cancel()
  }

  /// What is not known to be with the server, and why; `nil` where all is.
  package var problem: String? {
    let (counts, told) = (buffer.counts, told.withLock { $0 })
    var parts: [String] = []
    if counts.dropped > 0 { parts.append("\(counts.dropped) found no room while others waited") }
    if counts.refused > 0 { parts.append("\(counts.refused) were refused (\(told.refusal ?? "unknown"))") }
    if counts.waiting > 0 {
      parts.append("\(counts.waiting) still wait (\(told.trouble ?? "the time is over"))")
    }
    return parts.isEmpty
      ? nil : "\(plan.place) has confirmed \(counts.confirmed) lines; " + parts.joined(separator: ", ")
  }

  /// Ends as soon as it can: nothing was recorded, or nothing more is wanted.
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
      // Read first: what came before the end is taken below.
      let phase = buffer.phase
      if phase == .abandoned { return }
      if let batch = buffer.take() { write(batch) } else if phase == .ending { return }
    }
  }

  /// Until the server has taken or refused it, or nobody waits any more.
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

  /// What an answer means for a batch.
  private enum Verdict {
    case taken
    case refused(String)
    case later(String, seconds: Int)

    /// InfluxDB's API: 204 alone says that all was taken; a 200 of whoever else listens there says nothing.
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

  /// A text from outside, for one line of a terminal.
  private static func words(_ text: String) -> String {
    String(text.split { $0.isNewline }.joined(separator: " ").printable.prefix(wordsCount))
  }

  // MARK: Words

  /// Once for each change.
  private func tell(_ trouble: String?) {
    let isNews = told.withLock { told in
      let isNews = (told.trouble == nil) != (trouble == nil) && told.changes < Self.newsLimit
      told.trouble = trouble
      if isNews { told.changes += 1 }
      return isNews
    }
    guard isNews else { return }
    if let trouble {
      note("\(plan.place) does not take lines: \(trouble); the recording goes on, and they wait")
    } else {
      note("\(plan.place) takes lines again")
    }
  }

  /// The first time.
  private func tell(refusal: String) {
    let isNews = told.withLock { told in
      defer { told.refusal = told.refusal ?? refusal }
      return told.refusal == nil
    }
    if isNews {
      note("\(plan.place) refuses lines: \(refusal); check its URL and --influx-token; the recording goes on")
    }
  }
}
