public import BLEWire
#if !hasFeature(Embedded)
  import JSONText
#endif

/// Date and time on a sensor's own clock, in local time without a time zone.
///
/// GATT Specification Supplement, Date Time (0x2A08). Year, month and day are 0 if the sensor does not know
/// them. Values out of range are kept, because a wrong clock does not make the measurement wrong.
public struct DateTime: CharacteristicValue, BitwiseCopyable {
  public static let byteCount = 7

  /// 1582 … 9999; 0 means unknown.
  public var year: UInt16
  /// 1 … 12; 0 means unknown.
  public var month: UInt8
  /// 1 … 31; 0 means unknown.
  public var day: UInt8
  public var hour: UInt8
  public var minute: UInt8
  public var second: UInt8

  public init(year: UInt16, month: UInt8, day: UInt8, hour: UInt8, minute: UInt8, second: UInt8) {
    self.year = year
    self.month = month
    self.day = day
    self.hour = hour
    self.minute = minute
    self.second = second
  }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .thermometer)
    self = try reader.dateTime()
  }

  /// Whether all fields are known and in range.
  public var isComplete: Bool {
    1582...9999 ~= year && 1...12 ~= month && 1...31 ~= day && hour < 24 && minute < 60 && second < 60
  }

  public var encodedByteCount: Int { Self.byteCount }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: year)
    output.append(month)
    output.append(day)
    output.append(hour)
    output.append(minute)
    output.append(second)
  }
}

extension FieldReader {
  mutating func dateTime() throws(WireError) -> DateTime {
    let start = try take(DateTime.byteCount)
    return DateTime(
      year: bytes.u16(at: start), month: bytes[start + 2], day: bytes[start + 3], hour: bytes[start + 4],
      minute: bytes[start + 5], second: bytes[start + 6])
  }
}

#if !hasFeature(Embedded)
  extension FieldList {
    /// Adds a date such as `2024-02-29T23:59:58`. An incomplete date is added as an object with its parts.
    /// Unknown parts are `null`.
    mutating func member(_ name: String, _ time: DateTime) {
      guard !time.isComplete else { return member(name, Self.text(time)) }
      object(name) { fields in
        fields.member("year", time.year == 0 ? nil : time.year)
        fields.member("month", time.month == 0 ? nil : time.month)
        fields.member("day", time.day == 0 ? nil : time.day)
        fields.member("hour", time.hour)
        fields.member("minute", time.minute)
        fields.member("second", time.second)
      }
    }

    private static func text(_ time: DateTime) -> String {
      "\(time.year)-\(two(time.month))-\(two(time.day))T\(two(time.hour)):\(two(time.minute)):\(two(time.second))"
    }

    private static func two(_ number: UInt8) -> String { number < 10 ? "0\(number)" : "\(number)" }
  }
#endif
