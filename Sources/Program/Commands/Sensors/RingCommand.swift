import ArgumentParser
import BLELinux
import ColmiRing
import CommandKit
import JSONText

/// `ringtap ring …`: commands for COLMI rings.
struct RingToolCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ring",
    abstract: "Query and configure rings, fetch their history.",
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
        Other keys are ignored. The kind of a damaged packet is "invalid". For an invalid \
        line, a message is printed on standard error, and the exit status is 1 at the end.

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

    /// Why a line is invalid.
    private struct Wrong: Error {
      let reason: String

      init(_ reason: String) { self.reason = reason }

      init(_ failure: RingTranscript.Failure) {
        switch failure {
        case .noPackets: reason = "'packets' is empty"
        case .severalFrames: reason = "frames that are not a log must each be on a line of their own"
        }
      }
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
