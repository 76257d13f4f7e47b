import BLECore
import BLEHost
import BLELinux
import CommandKit
import JSONText
import SensorSessions

/// How long to take samples of a sensor.
struct SensorStream: Sendable {
  let count: Int?
  let duration: Duration?

  struct Outcome: Sendable {
    var values = 0
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
    }
  }
}

/// Shows what one kind of sensor says.
protocol SensorWriter: Sendable {
  associatedtype Session: SensorSession

  /// Shows who the sensor is, once.
  mutating func begin(_ session: Session, _ peer: DeviceAddress) throws
  /// Shows one sample.
  mutating func show(_ sample: Session.Sample) throws
}

/// A sensor that is kept connected while its samples are shown.
struct SensorStreaming<Writer: SensorWriter>: Sendable {
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
        let values = try await take(stream, running, writer)
        // To be cancelled is how a session ends well, and it tells the sensor.
        running.cancel()
        let failure = await running.value
        await notes.value
        guard let values else { throw failure.map { Failure($0) } ?? CancellationError() }
        var outcome = SensorStream.Outcome(values: values)
        if values != stream.count {
          (outcome.failure, outcome.isEndedBySensor) = (failure, profile.isEndedBySensor)
        }
        outcome.malformed = profile.samples.malformed
        outcome.lost = profile.samples.dropped + (await session.statistics.kernelQueueDrops)
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

  /// - Returns: how many samples were values; `nil` where no stream was started.
  private func take(
    _ stream: SensorStream, _ running: Task<HostError?, Never>, _ writer: Writer
  ) async throws -> Int? {
    var writer = writer
    var sessions = profile.sessions.makeAsyncIterator()
    guard let first = await sessions.next() else { return nil }
    try writer.begin(first, session.plan.peer)
    let loop = session.adapter.loop
    let timer = stream.duration.map { loop.after($0) { running.cancel() } }
    defer { timer?.cancel() }
    var values = 0
    for await sample in profile.samples {
      try writer.show(sample)
      if sample.isValue { values += 1 }
      if values == stream.count { break }
    }
    return values
  }

  /// Says when the link is lost, and when the stream runs again.
  private static func note(_ states: AsyncStream<SessionState>, _ session: DeviceSession) async {
    let links = NoteLimit(on: session.adapter.loop) { Console.note($0) }
    defer { links.flush() }
    var isLost = false
    for await state in states {
      switch state {
      case .reconnecting:
        guard !isLost, let gap = await session.gaps.last else { continue }
        links.note("\(GapText.cause(gap)); connecting again")
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
    for note in LinkText.refusals(links.last?.changes ?? []) { Console.note(note) }
  }
}
