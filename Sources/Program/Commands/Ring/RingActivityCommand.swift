import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import ColmiRing
import CommandKit
import JSONText
import SensorSessions

/// The command `ringtap ring activity ACTION`.
package struct RingActivityCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "activity",
    abstract: "Start, watch and end a workout.",
    discussion: """
      During a workout a ring reports heart rate, steps and distance about once a second, for as long as it \
      lasts. watch starts a workout, prints its reports until --duration or Ctrl-C, and ends it; with --join it \
      prints those of a workout that is in progress and lets it go on. The commands are from a published \
      description of the protocol; not every ring has them.

      EXAMPLES
        ringtap ring activity watch --sport run
            0:01  93 bpm, 2 steps, 1 m
        ringtap ring activity watch --json
            {"kind":"sportSample","type":4,"status":1,"seconds":1,"value":93, …}
        ringtap ring activity start --sport cycle
        ringtap ring activity watch --join --duration 600
        ringtap ring activity stop
      """)

  enum Action: String, CaseIterable, ExpressibleByArgument {
    case start, pause, resume, stop, watch
  }

  enum Sport: String, CaseIterable, ExpressibleByArgument {
    case walk, run, hike, cycle, other

    var sport: RingSport {
      switch self {
      case .walk: .walk
      case .run: .run
      case .hike: .hike
      case .cycle: .cycle
      case .other: .other
      }
    }
  }

  @Argument(help: "start, pause, resume, stop or watch.") var action: Action
  @OptionGroup var ring: RingOptions

  @Option(help: "The kind of workout.") var sport = Sport.walk

  @Flag(help: "watch: print the reports of the workout in progress.") var join = false

  @Option(
    help: ArgumentHelp("watch: end after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?

  func validate() throws {
    if action != .watch, join || duration != nil {
      throw ValidationError("--join and --duration are for watch")
    }
  }

  /// Maximum number of reports queued for a slow reader of the output.
  private static let queueLimit = 256

  func run() async throws {
    let (options, sport, join) = (ring, sport.sport, join)
    let duration = duration.map { Duration.seconds($0) }
    let single: RingSportAction? =
      switch action {
      case .start: .start
      case .pause: .pause
      case .resume: .resume
      case .stop: .end
      case .watch: nil
      }
    try await options.withRing { ring in
      if let single {
        try await failing { () async throws(RingError) in try await ring.workout(single, sport) }
      } else {
        try await Self.watch(ring, sport, join: join, duration, options.json)
      }
    }
  }

  private static func watch(
    _ ring: RingConversation, _ sport: RingSport, join: Bool, _ duration: Duration?, _ json: Bool
  ) async throws {
    if !join { try await failing { () async throws(RingError) in try await ring.workout(.start, sport) } }
    typealias Stamped = (sample: RingSportSample, time: ReceiveTime)
    let (samples, queue) = AsyncStream<Stamped>.makeStream(bufferingPolicy: .bufferingNewest(queueLimit))
    let watching = Task { try await ring.watchWorkout(for: duration) { queue.yield(($0, $1)) } }
    // A detached task still prints the queued reports after Ctrl-C.
    let printing = Task.detached {
      var count = 0
      do {
        for await (sample, time) in samples {
          try show(sample, time, json)
          count += 1
        }
      } catch {
        watching.cancel()
        throw error
      }
      return count
    }
    let result = await withTaskCancellationHandler {
      await watching.result
    } onCancel: {
      watching.cancel()
    }
    queue.finish()
    let isOpen = await ring.connection.end == nil
    // The end of the activity must reach the ring even if the task is cancelled.
    if !join, isOpen {
      await ring.connection.loop.uninterrupted { try? await ring.workout(.end, sport) }
    }
    let count = try await printing.value
    if case .failure(let error) = result { throw Failure(error) }
    guard count == 0, !Task.isCancelled else { return }
    throw Failure(
      join
        ? "no report arrived: no workout is in progress; `ringtap ring activity start` begins one"
        : "the ring accepted the workout and sent no report within the time")
  }

  private static func show(
    _ sample: RingSportSample, _ time: ReceiveTime, _ json: Bool
  ) throws(Console.WriteError) {
    guard !json else {
      return try Console.json { line in
        line.members(of: RingAnswer.reply(.sport(sample)))
        line.member("timeNs", time)
      }
    }
    let seconds = Int(sample.seconds)
    let clock = "\(seconds / 60):\(seconds % 60 < 10 ? "0" : "")\(seconds % 60)"
    let pulse = sample.heartRate == 0 ? "no pulse yet" : "\(sample.heartRate) bpm"
    try Console.print("\(clock)  \(pulse), \(counted(sample.steps, "step")), \(sample.distanceMeters) m")
  }
}
