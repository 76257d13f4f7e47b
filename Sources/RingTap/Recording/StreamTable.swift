import BLECore
import BLESensors
import BLESystem

/// The tables of a ring capture: one for each kind of raw sample.
public enum RingStream: Int, CaseIterable, Sendable {
  case accelerometer, ppg, spO2

  /// As in `session.json`.
  public var name: String {
    switch self {
    case .accelerometer: "accelerometer"
    case .ppg: "ppg"
    case .spO2: "spo2"
    }
  }

  public var fileName: String { name + ".csv" }

  /// The table's first line. Counts are the sensor's own; 512 counts are 1 g.
  var header: String {
    switch self {
    case .accelerometer: "time_ns,x_counts,y_counts,z_counts,x_g,y_g,z_g\n"
    case .ppg, .spO2: "time_ns,value_counts,max_counts,min_counts,diff_counts\n"
    }
  }
}

/// One decoded sample with its kernel stamp, as it crosses from the receive thread to the writer.
struct StampedSample: BitwiseCopyable, Sendable {
  let time: ReceiveTime
  let sample: RingRawSample

  /// The table it belongs to; `nil` for a subtype that nobody knows.
  var stream: RingStream? {
    switch sample {
    case .accelerometer: .accelerometer
    case .ppg: .ppg
    case .spO2: .spO2
    case .unknown: nil
    }
  }

  func appendRow(to text: inout [UInt8]) {
    text.append(decimal: time.nanoseconds)
    switch sample {
    case .accelerometer(let a):
      for axis in [a.x, a.y, a.z] { text.appendColumn(Int64(axis)) }
      for axis in [a.x, a.y, a.z] { text.appendColumn(microG: axis) }
    case .ppg(let p):
      for column in [p.value, p.max, p.min, p.diff] { text.appendColumn(Int64(column)) }
    case .spO2(let s):
      for column in [s.value, s.max, s.min, s.diff] { text.appendColumn(Int64(column)) }
    case .unknown: break
    }
    text.append(UInt8(ascii: "\n"))
  }
}

extension [UInt8] {
  mutating func append(decimal number: Int64) {
    if number < 0 { append(UInt8(ascii: "-")) }
    var digits = number.magnitude
    let start = count
    repeat {
      append(UInt8(ascii: "0") + UInt8(digits % 10))
      digits /= 10
    } while digits > 0
    self[start...].reverse()
  }

  fileprivate mutating func appendColumn(_ number: Int64) {
    append(UInt8(ascii: ","))
    append(decimal: number)
  }

  /// Counts as g with six decimals: 1 count is 1953.125 µg, rounded away from zero at half.
  fileprivate mutating func appendColumn(microG counts: Int16) {
    append(UInt8(ascii: ","))
    if counts < 0 { append(UInt8(ascii: "-")) }
    let microG = (UInt64(counts.magnitude) * 1_000_000 + 256) / 512
    append(decimal: Int64(microG / 1_000_000))
    append(UInt8(ascii: "."))
    var divisor: UInt64 = 100_000
    while divisor > 0 {
      append(UInt8(ascii: "0") + UInt8(microG / divisor % 10))
      divisor /= 10
    }
  }
}
