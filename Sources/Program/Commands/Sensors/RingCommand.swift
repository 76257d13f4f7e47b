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

  /// `ringtap ring decode`: decodes packets of a ring.
  struct Decode: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "decode",
      abstract: "Decode packets of a ring.",
      discussion: """
        Reads one JSON object per line from standard input and writes one for each:
          channel    "uart" (frames of 16 bytes) or "bigdata"
          direction  "host->ring" or "ring->host"
          packets    values in hexadecimal digits: one frame, the frames of a log,
                     or the fragments of a big data message
        Other keys are ignored. The kind of a damaged packet is "invalid". If a line is invalid, a message \
        is printed on standard error, and the exit status is 1 at the end.

        EXAMPLES
          ringtap ring decode < packets.ndjson
              {"kind":"battery","level":64,"charging":false} for the line
              {"channel": "uart", "direction": "ring->host",
               "packets": ["03400000000000000000000000000043"]}

          ringtap ring decode < packets.ndjson | jq -r .kind | sort | uniq -c
              the kinds, and how often each occurs
        """)

    @Flag(help: "Decode the messages in fragmented big data, one per line.")
    var contents = false

    func run() throws {
      var number = 0
      var isWrong = false
      var lines = InputLines()
      while let input = try failing({ () throws(SystemError) in try lines.next() }) {
        number += 1
        var line = JSONLine()
        do throws(Wrong) {
          guard case .text(let text) = input else { throw Wrong("it is longer than 4 MiB") }
          guard !text.allSatisfy(\.isWhitespace) else { continue }
          let transcript = try Self.transcript(text)
          do throws(RingTranscript.Failure) {
            try transcript.append(to: &line, contents ? .contents : .reassembly)
          } catch { throw Wrong(error) }
        } catch {
          Console.note("line \(number): \(error.reason)")
          isWrong = true
          continue
        }
        try Console.write(line.octets)
      }
      if isWrong { throw ExitCode.failure }
    }

    /// The reason why a line is invalid.
    private struct Wrong: Error {
      let reason: String

      init(_ reason: String) { self.reason = reason }

      init(_ failure: RingTranscript.Failure) { reason = failure.description }
    }

    private static func transcript(_ text: String) throws(Wrong) -> RingTranscript {
      guard let object = try? JSONDocument([UInt8](text.utf8)), case .object = object else {
        throw Wrong("not a JSON object")
      }
      guard let channel = object["channel"]?.text.flatMap(RingTranscript.Channel.init(rawValue:))
      else {
        throw Wrong("'channel' is neither \"uart\" nor \"bigdata\"")
      }
      guard let direction = object["direction"]?.text.flatMap(RingTranscript.Direction.init(rawValue:))
      else { throw Wrong("'direction' is neither \"host->ring\" nor \"ring->host\"") }
      guard let members = object["packets"]?.array, case let texts = members.compactMap(\.text),
        texts.count == members.count
      else { throw Wrong("'packets' is not a list of strings") }
      var packets: [[UInt8]] = []
      for (index, text) in texts.enumerated() {
        guard let packet = [UInt8](hex: text) else {
          throw Wrong("packet \(index + 1) is not hexadecimal: \(text.printable)")
        }
        packets.append(packet)
      }
      return RingTranscript(channel: channel, direction: direction, packets: packets)
    }
  }
}

/// `ringtap ring raw`.
struct RingRawCommand: AsyncParsableCommand {
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

  @OptionGroup var sensor: SensorOptions

  func validate() throws {
    if sensor.output != nil { throw ValidationError("`ringtap capture --output` records the raw stream") }
  }

  func run() async throws { try await sensor.run(.ring, (), RingRawWriter(isJSON: sensor.json)) }
}

private struct RingRawWriter: SensorWriter {
  let isJSON: Bool

  mutating func begin(_ session: RingSession) throws {
    guard !isJSON else { return }
    let names = Self.streams.flatMap { $0.table.columns.dropFirst() }.map(\.name)
    try Console.print((["time_ns", "stream"] + names).joined(separator: ","))
  }

  /// False: `ringtap ring info` shows the ring's identity.
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
