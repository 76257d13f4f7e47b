import BLESensors
import BLEWire
package import JSONText

extension OximeterReading {
  /// Adds the fields of a measurement.
  ///
  /// - Parameter prefix: `fast`, `slow`, or an empty string.
  fileprivate func describe(_ prefix: String, into fields: inout FieldList) {
    fields.member(prefix.isEmpty ? "spo2Percent" : prefix + "Spo2Percent", spO2)
    fields.member(prefix.isEmpty ? "pulseRateBpm" : prefix + "PulseRateBpm", pulseRate)
  }
}

extension OximeterSpotCheck: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    reading.describe("", into: &fields)
    if let timestamp { fields.member("timestamp", timestamp) }
    if let measurementStatus { fields.member("measurementStatus", measurementStatus) }
    if let deviceStatus { fields.member("deviceAndSensorStatus", deviceStatus) }
    if let pulseAmplitudeIndex { fields.member("pulseAmplitudeIndexPercent", pulseAmplitudeIndex) }
    if isClockNotSet { fields.member("deviceClockNotSet", true) }
    fields.members(trailing: trailingByteCount)
  }
}

extension OximeterContinuous: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    normal.describe("", into: &fields)
    fast?.describe("fast", into: &fields)
    slow?.describe("slow", into: &fields)
    if let measurementStatus { fields.member("measurementStatus", measurementStatus) }
    if let deviceStatus { fields.member("deviceAndSensorStatus", deviceStatus) }
    if let pulseAmplitudeIndex { fields.member("pulseAmplitudeIndexPercent", pulseAmplitudeIndex) }
    fields.members(trailing: trailingByteCount)
  }
}

extension OximeterFeatures: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("supportedFeatures", supported)
    if let measurementStatus { fields.member("measurementStatusSupport", measurementStatus) }
    if let deviceStatus { fields.member("deviceAndSensorStatusSupport", deviceStatus) }
    fields.members(trailing: trailingByteCount)
  }
}

extension FieldList {
  /// Adds the number, or the name of a special value.
  fileprivate mutating func member(_ name: String, _ number: IEEE11073ShortFloat) {
    if let number = number.value {
      member(name, number)
    } else {
      member(name, number.special?.jsonName ?? "nan")
    }
  }
}
