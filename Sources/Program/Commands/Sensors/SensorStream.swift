import ArgumentParser
import BLEWire
import BLEHost
import BLELinux
import CommandKit
import JSONText
import SensorSessions
import Synchronization

/// Limits of a stream of samples.
struct SensorStream: Sendable {
  let count: Int?
  let duration: Duration?

  struct Outcome: Sendable {
    var values = 0
    /// Number of samples received, with or without a value.
    var samples = 0
    /// Number of skipped samples, which were shorter than their flags indicate.
    var malformed = 0
    /// Number of samples lost because the reader of the output was too slow, or the kernel's queue was full.
    var lost = 0
    /// Number of samples missing by the sensor's clock; `nil` if the sensor has no clock.
    var missing: Int?
    /// Number of lost links.
    var gaps = 0
    /// The error that ended the stream early.
    var failure: HostError?
    /// Whether the sensor ended the stream on a link that is still up.
    var isEndedBySensor = false
    var isInterrupted = false

    private static let silence =
      "the sensor sent nothing: it may be asleep, not worn, or sending to another host; `ringtap gatt "
      + "ADDRESS` shows its characteristics"

    private var reason: String? {
      failure.map { "\($0)" } ?? (isEndedBySensor ? "the sensor stopped the stream by itself" : nil)
    }

    /// Prints the last line if the output is JSON, and messages about problems.
    func show(json: Bool) throws {
      if json {
        try Console.json { line in
          line.member("event", "end")
          line.member("values", values)
          line.member("malformed", malformed)
          line.member("lost", lost)
          if let missing { line.member("missing", missing) }
          line.member("gaps", gaps)
          if let reason { line.member("reason", reason) }
        }
      }
      if malformed > 0 {
        Console.note("skipped \(malformed) malformed values: shorter than their flags require")
      }
      if lost > 0 {
        Console.note(
          "\(counted(lost, "value was", "values were")) lost: the reader of the output is too slow")
      }
      if let missing, missing > 0 {
        Console.note("\(missing) \(missing == 1 ? "sample is" : "samples are") missing by the sensor's clock")
      }
      if let reason { throw Failure("\(reason) after \(counted(values, "value"))") }
      guard samples == 0, malformed == 0, lost == 0 else { return }
      guard isInterrupted else { throw Failure(Self.silence) }
      Console.note("interrupted before the first value")
      throw ExitCode(130)
    }
  }
}

/// Prints the samples of one kind of sensor.
protocol SensorWriter<Session>: Sendable {
  associatedtype Session: SensorSession

  /// Whether the writer prints the sensor's identity.
  static var introducesSensors: Bool { get }
  /// Prints lines before the first sample. Called once, when the stream has started for the first time.
  mutating func begin(_ session: Session) throws
  /// Prints the sensor's identity. Called once, soon after the first sample.
  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws
  /// Prints one sample.
  mutating func show(_ sample: Session.Sample) throws
  /// Prints the retained samples at the end of the stream.
  ///
  /// - Returns: the number of samples that are missing by the sensor's clock, including late samples; `nil`
  ///   if the sensor has no clock.
  mutating func finish() throws -> Int?
}

extension SensorWriter {
  static var introducesSensors: Bool { true }

  mutating func begin(_ session: Session) throws {}
  mutating func finish() throws -> Int? { nil }
}

/// A writer shared by two tasks. Only one task prints at a time.
private final class Shown<Writer: SensorWriter>: Sendable {
  private let state: Mutex<(writer: Writer, isIntroduced: Bool)>

  init(_ writer: Writer, _ session: Writer.Session) throws {
    var writer = writer
    try writer.begin(session)
    state = Mutex((writer, false))
  }

  func show(_ sample: Writer.Session.Sample) throws { try state.withLock { try $0.writer.show(sample) } }

  func finish() throws -> Int? { try state.withLock { try $0.writer.finish() } }

  /// Prints the sensor's identity on the first call.
  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws {
    try state.withLock { state in
      guard !state.isIntroduced else { return }
      state.isIntroduced = true
      try state.writer.introduce(facts, peer)
    }
  }
}

/// Keeps a sensor connected and prints its samples.
struct SensorStreaming<Writer: SensorWriter>: Sendable {
  /// Time limit at the end of a stream for the sensor's identity to arrive.
  private static var introductionPatience: Duration { .seconds(1) }

  private let profile: SensorProfile<Writer.Session>
  private let session: DeviceSession

  init(_ settings: Writer.Session.Settings, _ plan: DeviceSession.Plan, on adapter: any Adapter) {
    profile = SensorProfile(settings)
    session = DeviceSession(plan, on: adapter)
  }

  /// Runs until the stream's limits are reached, the task is cancelled, or the sensor does not reconnect.
  func run(_ stream: SensorStream, _ writer: Writer) async throws -> SensorStream.Outcome {
    let (profile, session) = (profile, session)
    let states = await session.states()
    let notes = Task { await Self.note(states, session) }
    let running = Task { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    return try await withTaskCancellationHandler {
      do {
        let outcome = try await take(stream, running, writer)
        // Cancelling is the normal way to end a session, which then stops the sensor's stream.
        running.cancel()
        let failure = await running.value
        await notes.value
        guard var outcome else { throw failure.map { Failure($0) } ?? CancellationError() }
        outcome.isInterrupted = Task.isCancelled
        if outcome.values != stream.count {
          (outcome.failure, outcome.isEndedBySensor) = (failure, profile.isEndedBySensor)
        }
        outcome.lost += await session.statistics.kernelQueueDrops
        outcome.gaps = await session.gapCount
        return outcome
      } catch {
        running.cancel()
        _ = await running.value
        await notes.value
        throw error
      }
    } onCancel: {
      running.cancel()
      // A device that does not respond must not delay an interrupted command.
      _ = session.adapter.loop.after(Interruption.patience) { await session.cut() }
    }
  }

  /// Prints the samples.
  ///
  /// - Returns: the outcome; `nil` if no stream was started.
  private func take(
    _ stream: SensorStream, _ running: Task<HostError?, Never>, _ writer: Writer
  ) async throws -> SensorStream.Outcome? {
    let (profile, peer) = (profile, session.plan.peer)
    guard let first = await profile.firstStream() else { return nil }
    let shown = try Shown(writer, first.session)
    // The identity is printed after the first sample, or earlier if the first sample takes longer.
    let introduction = Task {
      let facts = await profile.learned()
      if !Task.isCancelled { try shown.introduce(facts, peer) }
    }
    defer { introduction.cancel() }
    let loop = session.adapter.loop
    let timer = stream.duration.map { loop.after($0) { running.cancel() } }
    defer { timer?.cancel() }
    var (values, samples) = (0, 0)
    for await sample in profile.samples {
      try shown.show(sample)
      samples += 1
      if sample.isValue { values += 1 }
      if values == stream.count { break }
    }
    let missing = try shown.finish()
    let (malformed, dropped) = (profile.samples.malformed, profile.samples.dropped)
    if Writer.introducesSensors {
      // A short stream may end before the sensor's identity is known, so wait for the identity.
      let limit = loop.after(Self.introductionPatience) { introduction.cancel() }
      defer { limit.cancel() }
      await withTaskCancellationHandler {
        _ = await introduction.result
      } onCancel: {
        introduction.cancel()
      }
      try shown.introduce(profile.facts ?? SensorFacts(), peer)
    }
    return SensorStream.Outcome(
      values: values, samples: samples, malformed: malformed, lost: dropped, missing: missing)
  }

  /// Prints a message when the link is lost, and another message when the stream continues.
  private static func note(_ states: AsyncStream<SessionState>, _ session: DeviceSession) async {
    let links = NoteLimit(on: session.adapter.loop) { Console.note($0) }
    defer { links.flush() }
    var isLost = false
    var told: Set<LinkRemark> = []
    for await state in states {
      for remark in await session.remarks where told.insert(remark).inserted { Console.note("\(remark)") }
      switch state {
      case .reconnecting:
        guard !isLost, let gap = await session.gaps.last else { continue }
        links.note(GapText.lost(gap))
        isLost = true
      case .streaming where isLost:
        links.note("streaming again")
        isLost = false
      default: break
      }
    }
  }

  /// Prints refused requests and, if `isVerbose`, the statistics of all links.
  func showLinks(_ isVerbose: Bool) async {
    let (links, statistics) = (await session.links, await session.statistics)
    if isVerbose {
      Console.note(
        "MTU \(links.last?.mtu ?? 0), \(statistics.received) PDUs received, \(statistics.sent) sent, "
          + "\(statistics.malformed) malformed, \(statistics.kernelQueueDrops) dropped by the kernel")
      if let link = links.last.flatMap({ LinkText.inForce(LinkState(after: $0.changes)) }) {
        Console.note("link: \(link)")
      }
      if let error = statistics.lastMalformed { Console.note("last malformed: \(error)") }
    }
    if let note = LinkText.strays(statistics.strayResponses) { Console.note(note) }
    if let note = LinkText.unsubscribed(statistics.unsubscribed) { Console.note(note) }
    for note in LinkText.refusals(links.last?.changes ?? []) { Console.note(note) }
  }
}
