import ArgumentParser
import BLEWire
import ColmiRing
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap ring raw`.
struct RingRawCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "raw",
    abstract: "Print the raw stream as it comes.",
    discussion: """
      Starts the stream and prints each sample until --duration, --count or Ctrl-C; then the stream is stopped. A lost \
      link is made again. Lines are CSV: when the sample came (nanoseconds since the Unix epoch, the kernel's receive \
      stamp), its stream, and the columns that the tables of `ringtap capture` have, those of the other streams empty; \
      a reading that the ring dropped is empty too. `ringtap capture` records, with a proof of what was lost.

      EXAMPLES
        ringtap ring raw --count 300 > samples.csv
        ringtap ring raw --json | jq -r 'select(.stream == "ppg") | .ppg_counts'
            one object a sample: event "sample", stream, time_ns and the stream's
            columns; at last event "end"
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

  /// Who the ring is: `ringtap ring info`.
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

  /// As in `samples.csv`.
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
