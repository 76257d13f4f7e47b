import BLELinux
import BLEWire
package import ColmiRing
public import SensorSessions

/// The tables of a ring capture: one for each kind of raw sample.
public enum RingStream: Int, CaseIterable, Sendable {
  case accelerometer, ppg, spO2

  /// - Returns: the table of a sample; `nil` for a subtype that nobody knows.
  package init?(_ sample: RingRawSample) {
    switch sample {
    case .accelerometer: self = .accelerometer
    case .ppg: self = .ppg
    case .spO2: self = .spO2
    case .unknown: return nil
    }
  }

  /// As in `session.json`.
  public var name: String {
    switch self {
    case .accelerometer: "accelerometer"
    case .ppg: "ppg"
    case .spO2: "spo2"
    }
  }

  public var fileName: String { name + ".csv" }

  package var table: RecordedTable { RecordedTable(name: name, columns: columns) }

  /// Whether a sample of it may lack its reading.
  package var hasDropouts: Bool { self != .accelerometer }

  /// Its place in a tick.
  package var part: RingTick.Part {
    switch self {
    case .accelerometer: .accelerometer
    case .ppg: .ppg
    case .spO2: .spO2
    }
  }

  package var columns: [RecordedColumn] {
    switch self {
    case .accelerometer: [.time("time_ns")] + values(.int16)
    case .ppg, .spO2: [.time("time_ns")] + values(.uint16)
    }
  }

  /// The columns of a sample, by names that no other stream has. Counts are the sensor's own; 512 counts are 1 g.
  ///
  /// Where the light was not measured its column is empty; what belongs to the LED, green or red, is there all the same.
  ///
  /// - Parameter kind: of counts that are always there with the others of their sample.
  package func values(_ kind: RecordedColumn.Kind) -> [RecordedColumn] {
    switch self {
    case .accelerometer:
      ["x_counts", "y_counts", "z_counts"].map { .counts($0, kind) }
        + ["x_g", "y_g", "z_g"].map { RecordedColumn($0, .float32(decimals: 6), unit: "g") }
    case .ppg: Self.light("ppg_counts", led: "led", kind)
    case .spO2: Self.light("spo2_counts", led: "red", kind)
    }
  }

  private static func light(
    _ name: String, led: String, _ kind: RecordedColumn.Kind
  ) -> [RecordedColumn] {
    [.counts(name, .float32(decimals: 0))]
      + ["max", "min", "diff"].map { .counts("\(led)_\($0)_counts", kind) }
  }

  /// The table's first line as text.
  package var header: String { table.header }
}

extension RingRawReading: RecordedRow {
  /// The table it belongs to; `nil` for a subtype that nobody knows.
  public var stream: RingStream? { RingStream(sample) }

  /// Octets of the longest row's values: three counts of 7, three accelerations of 11.
  fileprivate static let valueLimit = 64

  package func encode<Output: RowOutput>(into output: inout Output) {
    output.append(time.nanoseconds)
    output.append(sample)
  }
}

extension [UInt8] {
  package mutating func append(decimal number: Int64) {
    append(addingCapacity: OutputSpan<UInt8>.decimalLimit) { $0.append(decimal: number) }
  }

  /// With so many digits behind the point, rounded half away from zero; nothing for what is no number or too large.
  package mutating func append(_ number: Double, decimals: Int) {
    var scale: Int64 = 1
    for _ in 0..<decimals { scale *= 10 }
    let scaled = (number * Double(scale)).rounded()
    guard scaled.isFinite, abs(scaled) < 9e18 else { return }
    let whole = Int64(scaled)
    if whole < 0 { append(UInt8(ascii: "-")) }
    append(decimal: Int64(whole.magnitude) / scale)
    guard decimals > 0 else { return }
    append(UInt8(ascii: "."))
    var divisor = scale / 10
    while divisor > 0 {
      append(UInt8(ascii: "0") + UInt8(Int64(whole.magnitude) / divisor % 10))
      divisor /= 10
    }
  }

  /// An empty one where there is no number.
  package mutating func appendColumn(_ number: Int64?) {
    append(UInt8(ascii: ","))
    if let number { append(decimal: number) }
  }

  /// With so many digits behind the point; an empty one where there is no number.
  package mutating func appendColumn(_ number: Double?, decimals: Int) {
    append(UInt8(ascii: ","))
    if let number { append(number, decimals: decimals) }
  }

  /// The values of a raw sample.
  package mutating func appendColumns(_ sample: RingRawSample) {
    append(addingCapacity: RingRawReading.valueLimit) { $0.append(columns: sample) }
  }
}

extension OutputSpan<UInt8> {
  /// Octets of the longest number.
  fileprivate static var decimalLimit: Int { 20 }

  fileprivate mutating func append(columns sample: RingRawSample) {
    switch sample {
    case .accelerometer(let a):
      append(column: Int64(a.x))
      append(column: Int64(a.y))
      append(column: Int64(a.z))
      append(microG: a.x)
      append(microG: a.y)
      append(microG: a.z)
    case .ppg(let p): append(columns: p.reading, p.max, p.min, p.diff)
    case .spO2(let s): append(columns: s.reading, s.max, s.min, s.diff)
    case .unknown: break
    }
  }

  fileprivate mutating func append(decimal number: Int64) {
    if number < 0 { append(UInt8(ascii: "-")) }
    // From the last digit on, and then in their order.
    var digits = InlineArray<20, UInt8>(repeating: 0)
    var first = digits.count
    var rest = number.magnitude
    repeat {
      first -= 1
      digits[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    } while rest > 0
    for index in first..<digits.count { append(digits[index]) }
  }

  fileprivate mutating func append(column number: Int64) {
    append(UInt8(ascii: ","))
    append(decimal: number)
  }

  fileprivate mutating func append(columns reading: UInt16?, _ max: UInt16, _ min: UInt16, _ diff: UInt16) {
    if let reading { append(column: Int64(reading)) } else { append(UInt8(ascii: ",")) }
    append(column: Int64(max))
    append(column: Int64(min))
    append(column: Int64(diff))
  }

  /// Counts as g with six decimals: 1 count is 1953.125 µg, rounded away from zero at half.
  fileprivate mutating func append(microG counts: Int16) {
    append(UInt8(ascii: ","))
    if counts < 0 { append(UInt8(ascii: "-")) }
    let microG = (UInt32(counts.magnitude) * 125_000 + 32) / 64
    append(decimal: Int64(microG / 1_000_000))
    append(UInt8(ascii: "."))
    var divisor: UInt32 = 100_000
    while divisor > 0 {
      append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: microG / divisor % 10))
      divisor /= 10
    }
  }
}
