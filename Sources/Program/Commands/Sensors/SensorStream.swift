import BLEHost
import BLELinux
import BLEWire
import CommandKit
import JSONText
import SensorSessions
import Synchronization

/// How long to take samples of a sensor.
struct SensorStream: Sendable {
  let count: Int?
  let duration: Duration?

  struct Outcome: Sendable {
    var values = 0
    /// Samples that came, with a value or without.
    var samples = 0
    /// Shorter than their flags promise: skipped.
    var malformed = 0
    /// Our reader was too slow, or the kernel's queue was full.
    var lost = 0
    /// Links that were lost.
    var gaps = 0
    /// What ended it before its time.
    var failure: HostError?
    /// Whether that was the sensor, over a link that is up.
    var isEndedBySensor = false

    private static let silence =
      "the sensor sent nothing: it may be asleep, worn by nobody, or send to another host; see what it has with "
      + "`ringtap gatt ADDRESS`"

    private var reason: String? {
      failure.map { "\($0)" } ?? (isEndedBySensor ? "the sensor stopped the stream by itself" : nil)
    }

    /// The last line, for programs; people are told what is not as it should be.
    func show(json: Bool) throws {
      if json {
        try Console.json { line in
          line.member("event", "end")
          line.member("values", values)
          line.member("malformed", malformed)
          line.member("lost", lost)
          line.member("gaps", gaps)
          if let reason { line.member("reason", reason) }
        }
      }
      if malformed > 0 {
        Console.note("\(malformed) values were malformed: shorter than their own flags say; skipped")
      }
      if lost > 0 { Console.note("\(lost) values were lost: what reads our output is too slow") }
      if let reason { throw Failure("\(reason) after \(values) values") }
      if samples == 0, malformed == 0, lost == 0 { throw Failure(Self.silence) }
    }
  }
}

/// Shows what one kind of sensor says.
protocol SensorWriter: Sendable {
  associatedtype Session: SensorSession

  /// Whether it has something to show of who the sensor is.
  static var introducesSensors: Bool { get }
  /// The stream has started, for the first time.
  mutating func begin(_ session: Session) throws
  /// Shows who the sensor is, once: soon after the first sample.
  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws
  /// Shows one sample.
  mutating func show(_ sample: Session.Sample) throws
}

extension SensorWriter {
  static var introducesSensors: Bool { true }

  mutating func begin(_ session: Session) throws {}
}

/// Where lines of two tasks come one after the other.
private final class Shown<Writer: SensorWriter>: Sendable {
  private let state: Mutex<(writer: Writer, isIntroduced: Bool)>

  init(_ writer: Writer, _ session: Writer.Session) throws {
    var writer = writer
    try writer.begin(session)
    state = Mutex((writer, false))
  }

  func show(_ sample: Writer.Session.Sample) throws { try state.withLock { try $0.writer.show(sample) } }

  /// Once only.
  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws {
    try state.withLock { state in
      guard !state.isIntroduced else { return }
      state.isIntroduced = true
      try state.writer.introduce(facts, peer)
    }
  }
}

/// A sensor that is kept connected while its samples are shown.
struct SensorStreaming<Writer: SensorWriter>: Sendable {
  /// How long the end of a stream waits for the sensor to tell who it is.
  private static var introductionPatience: Duration { .seconds(1) }

  private let profile: SensorProfile<Writer.Session>
  private let session: DeviceSession

  init(_ settings: Writer.Session.Settings, _ plan: DeviceSession.Plan, on adapter: any Adapter) {
    profile = SensorProfile(settings)
    session = DeviceSession(plan, on: adapter)
  }

  /// Until the stream is long enough, the task is cancelled or the sensor does not come back.
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
        // To be cancelled is how a session ends well, and it tells the sensor.
        running.cancel()
        let failure = await running.value
        await notes.value
        guard var outcome else { throw failure.map { Failure($0) } ?? CancellationError() }
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
      // Whoever interrupts it is not kept waiting by a silent device.
      _ = session.adapter.loop.after(Interruption.patience) { await session.cut() }
    }
  }

  /// - Returns: what came; `nil` where no stream was started.
  private func take(
    _ stream: SensorStream, _ running: Task<HostError?, Never>, _ writer: Writer
  ) async throws -> SensorStream.Outcome? {
    let (profile, peer) = (profile, session.plan.peer)
    var sessions = profile.sessions.makeAsyncIterator()
    guard let first = await sessions.next() else { return nil }
    let shown = try Shown(writer, first)
    // Who it is comes after the first sample, or while there is none yet.
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
    let (malformed, dropped) = (profile.samples.malformed, profile.samples.dropped)
    if Writer.introducesSensors {
      // A short stream may be over before the sensor has told.
      let limit = loop.after(Self.introductionPatience) { introduction.cancel() }
      defer { limit.cancel() }
      await withTaskCancellationHandler {
        _ = await introduction.result
      } onCancel: {
        introduction.cancel()
      }
      try shown.introduce(profile.facts ?? SensorFacts(), peer)
    }
    return SensorStream.Outcome(values: values, samples: samples, malformed: malformed, lost: dropped)
  }

  /// Says when the link is lost, and when the stream runs again.
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

  /// The statistics of all links, for who wants to know more; and wishes that were not fulfilled.
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
