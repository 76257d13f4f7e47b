import ArgumentParser
import BLEDissector
import BLELinux
import BLEWire
import ColmiRing
import CommandKit
import FoundationEssentials
import JSONText

/// `ringtap decode`: decodes values of known characteristics from standard input.
package struct DecodeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "decode",
    abstract: "Decode values or a ring's packets, one JSON object per line.",
    discussion: """
      Each line is a JSON object. For a value it has 'characteristic' (a UUID, or 'manufacturerSpecificData') \
      and 'value' in hexadecimal, or 'frames': several values that belong together; 'service' is optional. For \
      packets of a ring it has 'channel' ("uart" for frames of 16 bytes, or "bigdata"), 'direction' \
      ("host->ring" or "ring->host") and 'packets', a list of values in hexadecimal: one frame, the frames of \
      a log, or the fragments of a big data message.

      EXAMPLES
        echo '{"service":"180D","characteristic":"2A37","value":"16485401ec02"}' \\
          | ringtap decode
            {"heartRateBpm":72,"heartRateIs16Bit":false,"sensorContact":"detected", …}

        ringtap notify C4:12:34:56:78:9A 2a37 --json \\
          | jq -c '.characteristic = "2a37"' | ringtap decode

        ringtap decode < packets.ndjson
            {"kind":"battery","level":64,"charging":false} for the line
            {"channel": "uart", "direction": "ring->host",
             "packets": ["03400000000000000000000000000043"]}

      Further optional keys: 'operation' (read, write, notify, indicate), \
      and for raw data of Polar sensors 'factor' (from the response to the start), \
      'previousTimestampNanoseconds' and 'sampleRateHz'.

      Known characteristics are those of Heart Rate, Battery, Device Information, Health Thermometer, \
      Running and Cycling Speed and Cadence, Pulse Oximeter, CORE body temperature, and Polar Measurement \
      Data. For a value that violates its format, the object has 'error'; the kind of a ring's damaged packet \
      is "invalid". For an invalid line, a message with the line's number is printed on standard error; the \
      exit status is then 1.
      """,
    shouldDisplay: false)

  @Flag(help: "Decode the messages in a ring's fragmented big data, one per line.")
  var contents = false

  package init() {}

  package func run() throws {
    let decoder = SensorDecoder()
    var output = JSONLine()
    var number = 0
    var wrong = 0
    var lines = InputLines()
    while let input = try failing({ () throws(SystemError) in try lines.next() }) {
      number += 1
      do throws(WrongLine) {
        guard case .text(let text) = input else { throw WrongLine("it is longer than 4 MiB") }
        if text.allSatisfy(\.isWhitespace) { continue }
        if let object = try? JSONDocument([UInt8](text.utf8)), object["channel"] != nil {
          try append(RingTranscript(of: object), to: &output)
        } else {
          let line = try DecodeLine(text)
          guard decoder.decode(line.frames, of: line.source, line.context, into: &output) else {
            throw WrongLine("the characteristic \(line.characteristic) is unknown")
          }
          output.endLine()
        }
      } catch {
        Console.note("line \(number): \(error.message)")
        wrong += 1
        continue
      }
      try Console.write(output.octets)
      output.removeAll()
    }
    if wrong > 0 { throw ExitCode.failure }
  }

  private func append(_ transcript: RingTranscript, to output: inout JSONLine) throws(WrongLine) {
    do throws(RingTranscript.Failure) {
      try transcript.append(to: &output, contents ? .contents : .reassembly)
    } catch { throw WrongLine(error.description) }
  }
}

extension RingTranscript {
  /// Parses a line with packets of a ring.
  fileprivate init(of object: JSONDocument) throws(WrongLine) {
    guard let channel = object["channel"]?.text.flatMap(Channel.init(rawValue:)) else {
      throw WrongLine("'channel' is neither \"uart\" nor \"bigdata\"")
    }
    guard let direction = object["direction"]?.text.flatMap(Direction.init(rawValue:)) else {
      throw WrongLine("'direction' is neither \"host->ring\" nor \"ring->host\"")
    }
    guard let members = object["packets"]?.array, case let texts = members.compactMap(\.text),
      texts.count == members.count
    else { throw WrongLine("'packets' is not a list of strings") }
    var packets: [[UInt8]] = []
    for (index, text) in texts.enumerated() {
      guard let packet = [UInt8](hex: text) else {
        throw WrongLine("packet \(index + 1) is not hexadecimal: \(text.printable)")
      }
      packets.append(packet)
    }
    self.init(channel: channel, direction: direction, packets: packets)
  }
}

/// The reason why a line of input is invalid.
private struct WrongLine: Error {
  let message: String

  init(_ message: String) { self.message = message }
}

/// A line of input.
private struct DecodeLine {
  /// The members of a line, before conversion.
  private struct Members: Decodable {
    var service: String?
    var characteristic: String?
    var value: String?
    var frames: [String]?
    var operation: String?
    var factor: Double?
    var previousTimestampNanoseconds: Timestamp?
    var sampleRateHz: UInt16?
    var requestedSampleRateHz: UInt16?
  }

  /// A number, or a string that contains a number: JSON parsers of some languages lose the last digits of
  /// large numbers.
  private struct Timestamp: Decodable {
    let nanoseconds: UInt64

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let number = try? container.decode(UInt64.self) {
        nanoseconds = number
      } else if let number = UInt64(try container.decode(String.self)) {
        nanoseconds = number
      } else {
        throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a timestamp")
      }
    }
  }

  let characteristic: String
  let source: SensorDecoder.Source
  let frames: [[UInt8]]
  var context = SensorDecoder.Context()

  init(_ text: String) throws(WrongLine) {
    let members: Members
    do { members = try JSONDecoder().decode(Members.self, from: Data(text.utf8)) } catch {
      throw WrongLine(Self.reason(error))
    }
    guard let characteristic = members.characteristic else { throw WrongLine("it has no 'characteristic'") }
    self.characteristic = characteristic
    if characteristic == "manufacturerSpecificData" {
      source = .manufacturerData
    } else if let uuid = BluetoothUUID(characteristic) {
      source = .characteristic(uuid)
    } else {
      throw WrongLine("'\(characteristic)' is not a UUID")
    }
    frames = try Self.frames(members.value, members.frames)
    if let name = members.operation {
      guard let operation = SensorDecoder.Operation(rawValue: name) else {
        throw WrongLine("'\(name)' is not an operation: read, write, notify or indicate")
      }
      context.operation = operation
    }
    context.factor = members.factor
    context.previousTimestampNanoseconds = members.previousTimestampNanoseconds?.nanoseconds
    context.sampleRate = members.sampleRateHz ?? members.requestedSampleRateHz
    if context.sampleRate == 0 { throw WrongLine("a sample rate of 0") }
  }

  private static func frames(_ value: String?, _ frames: [String]?) throws(WrongLine) -> [[UInt8]] {
    var octets: [[UInt8]] = []
    for text in frames ?? value.map({ [$0] }) ?? [] {
      guard let frame = [UInt8](hex: text) else { throw WrongLine("'\(text)' is not hexadecimal") }
      octets.append(frame)
    }
    guard !octets.isEmpty else { throw WrongLine("it has no 'value' and no 'frames'") }
    return octets
  }

  private static func reason(_ error: any Error) -> String {
    guard case .typeMismatch(_, let context) = error as? DecodingError, let key = context.codingPath.first
    else {
      return "it is not a JSON object with the keys listed by `ringtap decode --help`"
    }
    return "'\(key.stringValue)' has the wrong type"
  }
}
