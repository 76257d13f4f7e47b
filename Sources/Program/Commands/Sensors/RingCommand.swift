import ArgumentParser
import BLELinux
import BLEWire
import ColmiRing
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap ring …`: commands for COLMI rings.
struct RingToolCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ring",
    abstract: "Query and configure rings, and fetch their history.",
    discussion: """
      `ringtap capture` records the raw stream.

      EXAMPLES
        ringtap ring battery                       the first ring in range
        ringtap ring time 70:CB:0D:00:A1:B2 --set
            local time, by which the ring separates its days
        ringtap ring realtime heart-rate --duration 60
        ringtap ring sync --output history         its stored data, into tables
      """,
    subcommands: [
      RingInfoCommand.self, RingBatteryCommand.self, RingTimeCommand.self, RingFindCommand.self,
      RingSettingsCommand.self, RingRealtimeCommand.self, RingActivityCommand.self, RingRawCommand.self,
      RingStepsCommand.self,
      RingHeartRateCommand.self,
      RingOxygenCommand.self, RingStressCommand.self, RingVariabilityCommand.self, RingSleepCommand.self,
      RingTemperatureCommand.self,
      RingSyncCommand.self, RingPowerOffCommand.self, RingRebootCommand.self, RingFactoryResetCommand.self,
      Decode.self,
    ])

  /// The command `ringtap ring decode`, an earlier name of `ringtap decode`.
  struct Decode: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "decode",
      abstract: "The same as `ringtap decode`.",
      discussion: """
        EXAMPLE
          ringtap ring decode < packets.ndjson
        """,
      shouldDisplay: false)

    @OptionGroup var decode: DecodeCommand

    func run() throws { try decode.run() }
  }
}

/// `ringtap ring raw`.
typealias RingRawCommand = SensorCommand<RingRawOptions>

struct RingRawOptions: PrintedSensor {
  static let configuration = CommandConfiguration(
    commandName: "raw",
    abstract: "Print the raw stream live.",
    discussion: """
      Starts the stream and prints each sample until --duration, --count or Ctrl-C; then it stops the \
      stream. ringtap reconnects if the link is lost. Lines are CSV: the kernel's timestamp (nanoseconds \
      since the Unix epoch), the stream, and the columns of the tables of `ringtap capture`. Columns of \
      other streams are empty, and so is a reading that the ring dropped. To record, use `ringtap capture`, \
      which also reports losses.

      EXAMPLES
        ringtap ring raw --count 300 > samples.csv
        ringtap ring raw --json | jq -r 'select(.stream == "ppg") | .ppg_counts'
            one object per sample: event "sample", stream, time_ns and the stream's
            columns; finally event "end"
        ringtap ring raw --transport virtual:ring --count 6
      """)

  var formerStreams: FormerStreams { .none }

  func kind(isRecorded: Bool) throws -> RingKind {
    if isRecorded { throw ValidationError("`ringtap capture --output` records the raw stream") }
    return RingKind()
  }

  func writer(isJSON: Bool) -> some SensorWriter<RingSession> { RingRawWriter(isJSON: isJSON) }
}

private struct RingRawWriter: SensorWriter {
  let isJSON: Bool

  mutating func begin(_ session: RingSession) throws {
    guard !isJSON else { return }
    let names = Self.streams.flatMap { $0.table.columns.dropFirst() }.map(\.name)
    try Console.print((["time_ns", "stream"] + names).joined(separator: ","))
  }

  /// The ring's identity is not printed, because `ringtap ring info` shows it.
  static var introducesSensors: Bool { false }

  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) {}

  mutating func show(_ reading: RingRawReading) throws {
    guard let stream = reading.stream else { return }
    if isJSON {
      try Console.json { line in
        line.member("event", "sample")
        line.member("stream", stream.name)
        line.members(of: reading, stream.table.columns)
      }
    } else {
      try Console.write(Self.line(reading, stream))
    }
  }

  /// The ring's streams, in the order of `samples.csv`.
  private static let streams: [RingStream] = [.spO2, .ppg, .accelerometer]

  private static func line(_ reading: RingRawReading, _ stream: RingStream) -> [UInt8] {
    var row: [UInt8] = []
    reading.appendRow(to: &row)
    let time = row.prefix { $0 != UInt8(ascii: ",") }
    var text = Array(time) + [UInt8(ascii: ",")] + stream.name.utf8
    for other in streams {
      if other == stream {
        text += row[time.count...].dropLast()
      } else {
        text += [UInt8](repeating: UInt8(ascii: ","), count: other.table.columns.count - 1)
      }
    }
    return text + [UInt8(ascii: "\n")]
  }
}
