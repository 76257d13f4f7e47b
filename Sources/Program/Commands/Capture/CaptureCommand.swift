import ArgumentParser
import BLEHost
import BLELinux
import BLEReplay
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Outlets
import Recording
import SensorSessions

/// `ringtap capture [ADDRESS]`: records sensors, the program's main purpose.
struct CaptureCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "capture",
    abstract: "Record one or more sensors to a directory.",
    discussion: """
      Finds the first ring in range, or the sensors given, and records until --duration, --count or Ctrl-C. A \
      capture is a directory of tables, a packet log and a report: `ringtap help formats`. If a link is lost, \
      ringtap reconnects and continues the tables; the report lists each gap.

      EXAMPLES
        ringtap capture --duration 60
        ringtap capture 70:CB:0D:00:A1:B2 --count 3000 --output walk
        ringtap capture ring heart-rate@C4:12:34:56:78:9A --output ride
            several sensors on one clock; kinds: ring, heart-rate[:reset-energy],
            thermometer, cycling, polar[:ecg,acc] or polar:acc,rate=100
        ringtap capture --output walk --to - | jq -c 'select(.table == "ppg")'
            each sample of the green light as soon as it arrives
        ringtap capture --transport replay:walk/packets.btsnoop --output again
            from a log: the same tables as the live capture

      Exit status 1: the recording ended early. 3: data was lost, and the report says where. 4: an output did \
      not confirm everything. What was received is recorded.

      --help-all lists all options: also those of `ringtap help link`.
      """)

  @OptionGroup(title: "Radio and link") var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup(title: "Radio and link") var choice: DeviceOptions
  @OptionGroup(title: "Radio and link") var patience: PatienceOptions
  @OptionGroup(visibility: .hidden) var thread: ReceiveThreadOptions

  @Argument(
    help: ArgumentHelp(
      """
      What to record: the address of a ring, a kind such as heart-rate, or KIND@ADDRESS (default: the first \
      ring in range).
      """, valueName: "sensor"))
  var sensors: [String] = []

  @Option(
    help: ArgumentHelp("Find and record this many rings at once.", valueName: "count"),
    in: NumberRange(1...64))
  var rings = 1

  @Option(help: "Record the ring that advertises this name.")
  var name: String?

  @Option(name: [.short, .long], help: "The capture directory (default: named after the time).")
  var output: String?

  @Option(
    help: ArgumentHelp("End after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?

  @Option(help: "End after this many samples of all streams together.", in: .count)
  var count: Int?

  @Option(
    help: ArgumentHelp(
      "The packet log's format: btsnoop has microseconds; pcapng has nanoseconds, like the tables.",
      valueName: "format", visibility: .hidden), completion: .list(LogFormat.allCases.map(\.rawValue)),
    transform: Words.parse)
  var logFormat = LogFormat.btsnoop

  @OptionGroup var tables: TableOptions
  @OptionGroup var elsewhere: OutputOptions
  @OptionGroup(visibility: .hidden) var streaming: FormerStreamOptions
  @OptionGroup var view: ViewOptions

  enum LogFormat: String, CaseIterable, ExpressibleByArgument {
    case btsnoop, pcapng

    var capture: CaptureLogFormat { self == .btsnoop ? .btsnoop : .pcapng }
  }

  @Flag(
    help: ArgumentHelp(
      """
      Recover an adapter that stops answering, as the daemon does: switch it off and on, rfkill, authorise its \
      USB device again. Disturbs all programs that use it.
      """, visibility: .hidden))
  var recover = false

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws {
    if output == "-" {
      throw ValidationError("a capture is a directory; for samples on standard output: --to -")
    }
    if recover, radio.transport != nil || radio.mode == .exclusive {
      throw ValidationError(
        "--recover is for an adapter that is shared with the kernel's host; in exclusive mode use `ringtap "
          + "daemon`, which opens a lost adapter again")
    }
    if !sensors.isEmpty, rings != 1 { throw ValidationError("give sensors or --rings, not both") }
    let wanted = try wanted()
    if name != nil, wanted.count > 1 || wanted[0].address != nil {
      throw ValidationError("give an address or --name, not both; --name selects a single sensor")
    }
    let addresses = wanted.compactMap(\.address)
    guard Set(addresses).count == addresses.count else { throw ValidationError("duplicate address") }
  }

  func run() async throws {
    var wanted = try wanted()
    if wanted.count == 1, let known = device.known(name) {
      (wanted[0].address, wanted[0].name) = (known, name)
    }
    let outputs = try elsewhere.outputs(streaming.streams, for: tables.format)
    let job = RecordingJob(
      wanted: wanted, name: name, directory: output ?? Self.nameByTime(),
      limits: RecordingLimits(duration: duration.map { .seconds($0) }, count: count),
      logFormat: logFormat.capture, tables: tables, device: device, patience: patience,
      tuning: thread.tuning, recovers: recover, outputs: outputs, outputEnd: outputEnd(outputs))
    try await job.run(view, json: json)
  }

  private func wanted() throws -> [RecordingJob.Wanted] {
    guard !sensors.isEmpty else {
      return (0..<rings).map { _ in Self.ring(nil) }
    }
    return try sensors.map { text in
      if let kind = AnySensorKind(named: text) { return RecordingJob.Wanted(kind: kind) }
      let parts = text.split(separator: "@", maxSplits: 1)
      if parts.count == 2, let kind = AnySensorKind(named: String(parts[0])) {
        return RecordingJob.Wanted(kind: kind, address: try device.parse(String(parts[1])))
      }
      if AnySensorKind.names.contains(String(text.prefix { $0 != ":" && $0 != "@" })) {
        throw ValidationError(
          "'\(text)': settings are polar:ecg, acc or ppg, several as in polar:ecg,acc, one with a rate as in "
            + "polar:acc,rate=100; and heart-rate:reset-energy")
      }
      return Self.ring(try device.parse(text))
    }
  }

  private static func ring(_ address: DeviceAddress?) -> RecordingJob.Wanted {
    RecordingJob.Wanted(kind: AnySensorKind(.ring), address: address)
  }

  /// Returns the action when the reader of the sample stream closes it. If the stream is the recording's only
  /// output, the recording ends.
  private func outputEnd(_ outputs: Outputs) -> SampleStream.OutputEnd {
    let isForReader = outputs.streams == [.standardOutput] && outputs.isOnlyStreams
    return isForReader && output == nil && duration == nil && count == nil ? .ends : .goesOn
  }

  private static func nameByTime() -> String {
    let now = LocalTime(SystemClock.now())
    func two(_ part: Int) -> String { NumberText.padded(part, 2) }
    return "ringtap-\(now.year)\(two(now.month))\(two(now.day))-"
      + "\(two(now.hour))\(two(now.minute))\(two(now.second))"
  }
}
