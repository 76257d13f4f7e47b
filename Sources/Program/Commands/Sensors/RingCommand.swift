import ArgumentParser
import BLELinux
import ColmiRing
import CommandKit
import JSONText

/// `ringtap ring …`: what COLMI rings can do.
struct RingToolCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ring",
    abstract: "Query and configure rings, fetch their history.",
    discussion: """
      `ringtap capture` records the raw stream.

      EXAMPLES
        ringtap ring battery                       of the first ring in range
        ringtap ring time 70:CB:0D:00:A1:B2 --set
            local time, by which the ring counts its days
        ringtap ring realtime heart-rate --duration 60
        ringtap ring sync --output history         all that it stored, into tables
      """,
    subcommands: [
      RingInfoCommand.self, RingBatteryCommand.self, RingTimeCommand.self, RingFindCommand.self,
      RingSettingsCommand.self, RingRealtimeCommand.self, RingRawCommand.self, RingStepsCommand.self,
      RingHeartRateCommand.self,
      RingOxygenCommand.self, RingStressCommand.self, RingVariabilityCommand.self, RingSleepCommand.self,
      RingTemperatureCommand.self,
      RingSyncCommand.self, RingPowerOffCommand.self, RingRebootCommand.self, RingFactoryResetCommand.self,
      Decode.self,
    ])

  /// `ringtap ring decode`: packets in, meaning out.
  struct Decode: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "decode",
      abstract: "Say what packets of a ring mean.",
      discussion: """
        Reads one JSON object a line from standard input and writes one for each:
          channel    "uart" (frames of 16 octets) or "bigdata"
          direction  "host->ring" or "ring->host"
          packets    values in hexadecimal digits: one frame, the frames of a log,
                     or the pieces of a big data message
        Other keys are left alone. A packet that is damaged yields the kind \
        "invalid"; a line that is wrong a message on standard error, and exit \
        status 1 at the end.

        EXAMPLES
          ringtap ring decode < packets.ndjson
              {"kind":"battery","level":64,"charging":false} for the line
              {"channel": "uart", "direction": "ring->host",
               "packets": ["03400000000000000000000000000043"]}

          ringtap ring decode < packets.ndjson | jq -r .kind | sort | uniq -c
              what there is, and how often
        """)

    @Flag(help: "For big data in several pieces, say what the messages hold, each on a line.")
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

    /// A line that cannot be read, and why.
    private struct Wrong: Error {
      let reason: String

      init(_ reason: String) { self.reason = reason }

      init(_ failure: RingTranscript.Failure) {
        switch failure {
        case .noPackets: reason = "'packets' is empty"
        case .severalFrames: reason = "frames that are no log stand alone, each on a line of its own"
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
      else { throw Wrong("'packets' is no list of strings") }
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
