import BLELinux
import BLEWire
package import ColmiRing
public import SensorSessions

/// Tables of a ring capture: one for each kind of raw sample.
public enum RingStream: Int, CaseIterable, Sendable {
  case accelerometer, ppg, spO2

  /// Returns the table for a sample; `nil` for an unknown subtype.
  package init?(_ sample: RingRawSample) {
    switch sample {
    case .accelerometer: self = .accelerometer
    case .ppg: self = .ppg
    case .spO2: self = .spO2
    case .unknown: return nil
    }
  }

  /// Name in `session.json`.
  public var name: String {
    switch self {
    case .accelerometer: "accelerometer"
    case .ppg: "ppg"
    case .spO2: "spo2"
    }
  }

  public var fileName: String { name + ".csv" }

  package var table: RecordedTable { RecordedTable(name: name, columns: columns) }

  /// Whether a sample of this stream may lack a reading.
  package var hasDropouts: Bool { self != .accelerometer }

  /// The corresponding part of a tick.
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

  /// Returns the columns of a sample, with names that no other stream uses. Counts are raw sensor values; 512
  /// counts are 1 g.
  ///
  /// If the light was not measured, the light column is empty, but the values of the green or red LED are
  /// present.
  ///
  /// - Parameter kind: kind of the columns that have a value in every received sample.
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

  /// Header line of the CSV file.
  package var header: String { table.header }
}

extension RingRawReading: RecordedRow {
  /// Table of this reading; `nil` for an unknown subtype.
  public var stream: RingStream? { RingStream(sample) }

  /// Maximum size of a row's values, in bytes: three counts of 7 bytes, three accelerations of 11 bytes.
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

  /// Appends a number with `decimals` digits after the point, rounded half away from zero. Appends nothing if
  /// it is not finite or too large.
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

  /// Appends a comma and, if there is one, the number.
  package mutating func appendColumn(_ number: Int64?) {
    append(UInt8(ascii: ","))
    if let number { append(decimal: number) }
  }

  /// Appends a comma and, if there is one, the number with `decimals` digits after the point.
  package mutating func appendColumn(_ number: Double?, decimals: Int) {
    append(UInt8(ascii: ","))
    if let number { append(number, decimals: decimals) }
  }

  /// Appends the values of a raw sample, each after a comma.
  package mutating func appendColumns(_ sample: RingRawSample) {
    append(addingCapacity: RingRawReading.valueLimit) { $0.append(columns: sample) }
  }
}

extension OutputSpan<UInt8> {
  /// Length of the longest number, in bytes.
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
    // Compute the digits from last to first, then append them in order.
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

  /// Appends a comma and the counts as g with six decimals, rounded half away from zero. 1 count is 1953.125
  /// µg.
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
