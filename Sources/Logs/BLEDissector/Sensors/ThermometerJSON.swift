import BLESensors
import BLEWire
package import JSONText

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
  /// Suffix of keys for temperatures in this unit.
  var keySuffix: String { self == .celsius ? "Celsius" : "Fahrenheit" }
}

extension TemperatureMeasurement: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    if let value = temperature.value { fields.member("temperature\(unit.keySuffix)", value, words: words) }
    if let special = temperature.special {
      fields.member("temperatureSpecial", special.jsonName, .words("temperature"), words: "none")
    }
    fields.member("unit", unit.jsonName, .hidden)
    if let timestamp { fields.member("timestamp", timestamp) } else { fields.nullMember("timestamp") }
    fields.member("temperatureTypeCode", type?.rawValue, .hidden)
    if let type { fields.member("temperatureType", type.jsonName) }
    fields.members(trailing: trailingByteCount)
  }

  /// The temperature with all digits, which indicate the precision.
  private var words: String {
    let unit = unit == .celsius ? "°C" : "°F"
    let (mantissa, exponent) = (temperature.mantissa, temperature.exponent)
    guard (-6...0).contains(exponent) else { return "\(mantissa)e\(exponent) \(unit)" }
    return "\(PacketText.decimal(Int64(mantissa), places: -Int(exponent))) \(unit)"
  }
}

extension TemperatureType: SensorValueFields {
  private static let names = [
    "reserved", "armpit", "body", "ear", "finger", "gastroIntestinalTract", "mouth", "rectum", "toe",
    "tympanum",
  ]

  var jsonName: String { name(rawValue, in: Self.names) }

  package func describe(into fields: inout FieldList) {
    fields.member("temperatureTypeCode", rawValue, .hidden)
    fields.member("temperatureType", jsonName)
  }
}

extension MeasurementInterval: SensorValueFields {
  package func describe(into fields: inout FieldList) { fields.member("measurementIntervalSeconds", seconds) }
}

extension MeasurementIntervalRange: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("lowerInclusiveSeconds", lowerSeconds)
    fields.member("upperInclusiveSeconds", upperSeconds)
  }
}

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
