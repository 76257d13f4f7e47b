import BLECore
import JSONText

extension IEEE11073Special {
  var jsonName: String {
    switch self {
    case .nan: "nan"
    case .notAtThisResolution: "nres"
    case .positiveInfinity: "positiveInfinity"
    case .negativeInfinity: "negativeInfinity"
    case .reserved: "reserved"
    }
  }
}

extension TemperatureMeasurement.Unit {
  var jsonName: String { self == .celsius ? "celsius" : "fahrenheit" }
  /// At the end of a key.
  var keySuffix: String { self == .celsius ? "Celsius" : "Fahrenheit" }
}

extension TemperatureMeasurement: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    if let value = temperature.value { line.member("temperature\(unit.keySuffix)", value) }
    if let special = temperature.special { line.member("temperatureSpecial", special.jsonName) }
    line.member("unit", unit.jsonName)
    line.key("timestamp")
    if let timestamp { line.value(timestamp) } else { line.null() }
    line.member("temperatureTypeCode", optional: type?.rawValue)
    if let type { line.member("temperatureType", type.jsonName) }
    line.members(trailing: trailingByteCount)
  }
}

extension TemperatureType: SensorValueJSON {
  private static let names = [
    "reserved", "armpit", "body", "ear", "finger", "gastroIntestinalTract", "mouth", "rectum", "toe",
    "tympanum",
  ]

  var jsonName: String { name(rawValue, in: Self.names) }

  func writeMembers(into line: inout JSONLine) {
    line.member("temperatureTypeCode", rawValue)
    line.member("temperatureType", jsonName)
  }
}

extension MeasurementInterval: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) { line.member("measurementIntervalSeconds", seconds) }
}

extension MeasurementIntervalRange: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("lowerInclusiveSeconds", lowerSeconds)
    line.member("upperInclusiveSeconds", upperSeconds)
  }
}

extension JSONLine {
  /// `2024-02-29T23:59:58`; what is not a complete date, its parts, unknown ones as `null`.
  mutating func value(_ time: DateTime) {
    guard !time.isComplete else { return value(Self.text(time)) }
    object { line in
      line.member("year", optional: time.year == 0 ? nil : time.year)
      line.member("month", optional: time.month == 0 ? nil : time.month)
      line.member("day", optional: time.day == 0 ? nil : time.day)
      line.member("hour", time.hour)
      line.member("minute", time.minute)
      line.member("second", time.second)
    }
  }

  private static func text(_ time: DateTime) -> String {
    "\(time.year)-\(two(time.month))-\(two(time.day))T\(two(time.hour)):\(two(time.minute)):\(two(time.second))"
  }

  private static func two(_ number: UInt8) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
