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
      Finds the ring by its name (or uses the given address), connects, subscribes, starts the raw stream \
      and records until --duration, --count or Ctrl-C; then it stops the stream. The capture is a directory: \
      accelerometer.csv, ppg.csv, spo2.csv (first column: nanoseconds since the Unix epoch, the kernel's \
      timestamp), samples.csv (the same data tick by tick, on the sensor's own clock), packets.btsnoop and \
      session.json with the loss report, the sampling rate and its jitter. With --format npy each table is a \
      folder with one NumPy array per column, listed in columns.json; `ringtap convert` converts either \
      format to the other.

      A lost link causes a gap: ringtap reconnects at once and then with increasing pauses, for --patience \
      seconds, and continues the same tables. session.json lists each gap with its cause and length. Gaps do \
      not affect --duration and --count.

      Other sensors can be recorded too, several at once, each in its own directory below --output and all \
      on one clock: list the kinds (ring, heart-rate, thermometer, cycling or polar) or KIND@ADDRESS. The \
      tables are those of the sensor's own command, which has its settings; polar:ecg,acc is a Polar sensor \
      with two streams. `ringtap align` finds the offset between their clocks from shared movement or \
      heartbeats.

      On a terminal a live view on standard error shows link, streams, pulse and losses; see --quiet.

      With --stream, other programs receive each sample as a line of JSON within about 20 milliseconds. The \
      guide "Samples for other programs" describes the format. A slow reader loses lines, and gets a line \
      with their number; the recording is not affected. With '-', samples go to standard output; messages go \
      to standard error and the live view is off. Such a recording ends when its reader ends, unless \
      --output, --duration, --count, --publish, --lsl, --home-assistant, --influx or another --stream is \
      given.

      With --lsl each table is a stream of the Lab Streaming Layer, with times on LSL's clock, as described \
      in the same guide. It needs liblsl; if the system does not find the library, set RINGTAP_LIBLSL to its \
      path.

      Connecting to an address needs no privilege; finding a ring needs CAP_NET_RAW (beside bluetoothd: \
      CAP_NET_ADMIN).

      EXAMPLES
        ringtap capture --duration 60
        ringtap capture 70:CB:0D:00:A1:B2 --count 3000 --output walk
        ringtap capture --format npy --output walk
            numpy.load("walk/ppg/ppg_counts.npy"), even during the recording
        ringtap capture --json | jq .lost
            the last line has the contents of session.json
        ringtap capture --rings 4 --output group --duration 60
            four at once, each in its own directory below group
        ringtap capture ring heart-rate@C4:12:34:56:78:9A --address-type random \\
          --output ride
            a ring and a strap: ride/70-CB-0D-00-A1-B2/ppg.csv,
            ride/C4-12-34-56-78-9A/rr_intervals.csv
        ringtap capture --publish mqtt://broker.local --output walk
            to every `ringtap collect mqtt://broker.local`, during the recording
        ringtap capture --home-assistant mqtt://ringtap@broker.local --output walk
            battery, pulse, steps and more appear in Home Assistant: see the guide
            "Home Assistant"
        ringtap capture --influx http://localhost:8428/write --output walk
            each row is in VictoriaMetrics or InfluxDB a second later;
            Tools/grafana/ringtap.json shows it in Grafana
        ringtap capture --output walk --stream - | jq -c 'select(.table == "ppg")'
            each sample of the green light as soon as it arrives
        ringtap capture --output walk --stream unix:samples
            for any number of `socat -u UNIX-CONNECT:samples -` in other terminals
        ringtap capture --output walk --lsl
            for LabRecorder, MNE-LSL and other receivers of the Lab Streaming Layer
        ringtap capture --transport replay:walk/packets.pcapng --output again
            from a log: the same tables as the live capture, byte for byte

      Exit status 1: the recording ended early, for example because the ring did not reconnect. Everything \
      received is recorded.
      Exit status 3: recorded, but received data was lost; the report lists where. Samples that a ring did \
      not send during a gap do not count, unless it stopped sending on a link that stayed up.
      Exit status 4: recorded, but no collector has confirmed all of it (`ringtap publish` sends the rest), \
      the broker has not received the last values for Home Assistant, or a database is missing some rows.
      """)

  @OptionGroup(title: "Radio and link") var radio: AdapterOptions
  @OptionGroup(title: "Radio and link") var link: LinkOptions
  @OptionGroup(title: "Radio and link") var choice: DeviceOptions
  @OptionGroup(title: "Radio and link") var patience: PatienceOptions
  @OptionGroup(title: "Radio and link") var thread: ReceiveThreadOptions

  @Argument(
    help: ArgumentHelp(
      """
      What to record: an address such as 70:CB:0D:00:A1:B2 is a ring; a kind such as heart-rate is the first \
      sensor of that kind in range; KIND@ADDRESS is a sensor of that kind (default: the first ring in \
      range).
      """, valueName: "sensor"))
  var sensors: [String] = []

  @Option(
    help: ArgumentHelp("Find and record this many rings at once.", valueName: "count"),
    in: NumberRange(1...64))
  var rings = 1

  @Option(help: "Record only the ring that advertises exactly this name.")
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
      valueName: "format"))
  var logFormat = LogFormat.btsnoop

  @OptionGroup(title: "Files") var tables: TableOptions
  @OptionGroup(title: "For other programs, meanwhile") var streaming: StreamOptions
  @OptionGroup(title: "For other programs, meanwhile") var lab: LSLOptions
  @OptionGroup(title: "For other programs, meanwhile") var publishing: PublishOptions
  @OptionGroup(title: "For other programs, meanwhile") var home: HomeAssistantOptions
  @OptionGroup(title: "For other programs, meanwhile") var database: InfluxOptions
  @OptionGroup var view: ViewOptions

  enum LogFormat: String, CaseIterable, ExpressibleByArgument {
    case btsnoop, pcapng

    var capture: CaptureLogFormat { self == .btsnoop ? .btsnoop : .pcapng }
  }

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws {
    if output == "-" {
      throw ValidationError("a capture is a directory; for samples on standard output: --stream -")
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
    let targets = try streaming.targets
    let job = RecordingJob(
      wanted: wanted, name: name, directory: output ?? Self.nameByTime(),
      limits: RecordingLimits(duration: duration.map { .seconds($0) }, count: count),
      logFormat: logFormat.capture, tables: tables, device: device, patience: patience,
      tuning: thread.tuning, publishing: try publishing.publishing(tables.format),
      streams: targets, outputEnd: outputEnd(targets), isForLab: lab.lsl, homeAssistant: try home.plan(),
      influx: try database.plan())
    try await job.run(view, json: json)
  }

  private func wanted() throws -> [RecordingJob.Wanted] {
    guard !sensors.isEmpty else {
      return (0..<rings).map { _ in Self.ring(nil) }
    }
    return try sensors.map { text in
      func name(_ kind: some StringProtocol) -> String { String(kind.prefix { $0 != ":" }) }
      if let kind = AnySensorKind(named: text) {
        return RecordingJob.Wanted(kind: kind, kindName: name(text))
      }
      let parts = text.split(separator: "@", maxSplits: 1)
      if parts.count == 2, let kind = AnySensorKind(named: String(parts[0])) {
        return RecordingJob.Wanted(
          kind: kind, kindName: name(parts[0]), address: try device.parse(String(parts[1])))
      }
      return Self.ring(try device.parse(text))
    }
  }

  private static func ring(_ address: DeviceAddress?) -> RecordingJob.Wanted {
    RecordingJob.Wanted(kind: AnySensorKind(.ring), kindName: "ring", address: address)
  }

  /// If the sample stream is the recording's only output, the recording ends when the stream's reader ends.
  private func outputEnd(_ targets: [StreamTarget]) -> SampleStream.OutputEnd {
    let isForReader =
      targets == [.standardOutput] && publishing.publish == nil && !lab.lsl && home.homeAssistant == nil
      && database.influx == nil
    return isForReader && output == nil && duration == nil && count == nil ? .ends : .goesOn
  }

  private static func nameByTime() -> String {
    let now = LocalTime(SystemClock.now())
    func two(_ part: Int) -> String { NumberText.padded(part, 2) }
    return "ringtap-\(now.year)\(two(now.month))\(two(now.day))-"
      + "\(two(now.hour))\(two(now.minute))\(two(now.second))"
  }
}
