import ArgumentParser
import BLECore
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
      stamp), its stream, and four numbers: of ppg and spo2 value, max, min and diff in ADC counts; of accelerometer \
      x, y and z in counts, 512 to the g, and nothing. `ringtap capture` records, with a proof of what was lost.

      EXAMPLES
        ringtap ring raw --count 300 > samples.csv
        ringtap ring raw --json | jq -r 'select(.subtype == 2) | .value'
            one object a sample: event "sample", timeNs, and what `ringtap ring decode` says of it; at last event "end"
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

  mutating func begin(_ session: RingSession, _ peer: DeviceAddress) throws {
    guard !isJSON else { return }
    try Console.print("time_ns,stream,value_or_x_counts,max_or_y_counts,min_or_z_counts,diff_counts")
  }

  mutating func show(_ reading: RingRawReading) throws {
    guard let stream = reading.stream else { return }
    if isJSON {
      try Console.json { line in
        line.member("event", "sample")
        line.member("timeNs", reading.time.nanoseconds)
        line.members(of: reading.sample)
      }
    } else {
      try Console.print("\(reading.time.nanoseconds),\(stream.name),\(Self.columns(reading.sample))")
    }
  }

  private static func columns(_ sample: RingRawSample) -> String {
    switch sample {
    case .spO2(let s): "\(s.value),\(s.max),\(s.min),\(s.diff)"
    case .ppg(let p): "\(p.value),\(p.max),\(p.min),\(p.diff)"
    case .accelerometer(let a): "\(a.x),\(a.y),\(a.z),"
    case .unknown: ",,,"
    }
  }
}
