import ArgumentParser
import BLEHost
import BLEWire
import ColmiRing
import CommandKit
import JSONText
import SensorSessions

/// The command `ringtap ring realtime KIND`.
package struct RingRealtimeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "realtime",
    abstract: "Measure now and print values until --duration or Ctrl-C.",
    discussion: """
      A sensor takes up to a minute to warm up; --json also prints frames without a value. The measurement \
      is always stopped at the end.

      EXAMPLES
        ringtap ring realtime heart-rate --duration 60
        ringtap ring realtime spo2 70:CB:0D:00:A1:B2
        ringtap ring realtime hrv --json
            {"kind":"realtime","type":10,"value":42,"intervalMsInferred":905, …}
      """)

  enum Kind: String, CaseIterable, ExpressibleByArgument {
    case heartRate = "heart-rate"
    case spo2, hrv, stress

    var measurement: RingMeasurement {
      switch self {
      case .heartRate: .heartRate
      case .spo2: .spO2
      case .hrv: .heartRateVariability
      case .stress: .stress
      }
    }

    var unit: String {
      switch self {
      case .heartRate: " bpm"
      case .spo2: " %"
      case .hrv: " ms"
      case .stress: ""
      }
    }
  }

  @Argument(help: "What to measure: heart-rate, spo2, hrv or stress.") var kind: Kind
  @OptionGroup var ring: RingOptions
  @Option(
    help: ArgumentHelp("End after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?

  /// Maximum number of frames queued for a slow reader of the output. Two frames arrive per second.
  private static let queueLimit = 256

  func run() async throws {
    let (options, kind) = (ring, kind)
    let duration = duration.map { Duration.seconds($0) }
    try await options.withRing { ring in
      typealias Stamped = (frame: RingMeasurementFrame, time: ReceiveTime)
      let (frames, queue) = AsyncStream<Stamped>.makeStream(
        bufferingPolicy: .bufferingNewest(Self.queueLimit))
      let measuring = Task {
        try await ring.measure(kind.measurement, for: duration) { queue.yield(($0, $1)) }
      }
      // A detached task still prints the queued frames after Ctrl-C has cancelled the measurement.
      let printing = Task.detached {
        do { for await (frame, time) in frames { try Self.show(frame, time, kind, options.json) } } catch {
          measuring.cancel()
          throw error
        }
      }
      let result = await withTaskCancellationHandler {
        await measuring.result
      } onCancel: {
        measuring.cancel()
      }
      queue.finish()
      try await printing.value
      if case .failure(let error) = result { throw Failure(error) }
    }
  }

  private static func show(
    _ frame: RingMeasurementFrame, _ time: ReceiveTime, _ kind: Kind, _ json: Bool
  ) throws(Console.WriteError) {
    guard !json else {
      return try Console.json { line in
        line.members(of: RingAnswer.reply(.measurement(frame)))
        line.member("timeNs", time)
      }
    }
    switch frame.fault {
    case .none where frame.value != 0: try Console.print("\(frame.value)\(kind.unit)")
    case .contact: Console.progress("not worn, or in bad contact")
    default: Console.progress("warming up …")
    }
  }
}
