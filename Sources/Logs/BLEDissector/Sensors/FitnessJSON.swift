import BLESensors
import BLEWire
package import JSONText

extension RunningSpeed: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("speedMetersPerSecond", metersPerSecond)
    fields.member("cadencePerMinute", cadencePerMinute)
    fields.member("strideLengthMeters", strideMeters)
    fields.member("totalDistanceMeters", distanceMeters)
    fields.member("running", isRunning)
    fields.members(trailing: trailingByteCount)
  }
}

extension RunningSpeedFeatures: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("strideLengthSupported", contains(.strideLength))
    fields.member("totalDistanceSupported", contains(.totalDistance))
    fields.member("walkingOrRunningSupported", contains(.walkingOrRunning))
    fields.member("calibrationSupported", contains(.calibration))
    fields.member("multipleSensorLocationsSupported", contains(.severalLocations))
  }
}

extension CyclingSpeed: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("cumulativeWheelRevolutions", wheel?.revolutions)
    fields.member("lastWheelEventTime1024ths", wheel?.lastEventTicks)
    fields.member("cumulativeCrankRevolutions", crank?.revolutions)
    fields.member("lastCrankEventTime1024ths", crank?.lastEventTicks)
    fields.members(trailing: trailingByteCount)
  }
}

extension CyclingSpeedFeatures: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("wheelRevolutionsSupported", contains(.wheel))
    fields.member("crankRevolutionsSupported", contains(.crank))
    fields.member("multipleSensorLocationsSupported", contains(.severalLocations))
  }
}

extension SensorLocation: SensorValueFields {
  private static let names = [
    "other", "topOfShoe", "inShoe", "hip", "frontWheel", "leftCrank", "rightCrank", "leftPedal", "rightPedal",
    "frontHub", "rearDropout", "chainstay", "rearWheel", "rearHub", "chest", "spider", "chainRing",
  ]

  var jsonName: String { name(rawValue, in: Self.names) }

  package func describe(into fields: inout FieldList) {
    fields.member("sensorLocationCode", rawValue, .hidden)
    fields.member("sensorLocation", jsonName)
  }
}

extension SensorControlPoint: SensorValueFields {
  private static let results = ["reserved", "success", "opcodeNotSupported", "invalidParameter", "failed"]

  package func describe(into fields: inout FieldList) {
    switch self {
    case .setCumulativeValue(let value):
      fields.member("command", "setCumulativeValue")
      fields.member("cumulativeValue", value)
    case .startCalibration: fields.member("command", "startCalibration")
    case .updateLocation(let location):
      fields.member("command", "updateSensorLocation")
      location.describe(into: &fields)
    case .requestLocations: fields.member("command", "requestSupportedSensorLocations")
    case .response(let requestOpcode, let result, let locations):
      fields.member("requestOpcode", requestOpcode)
      fields.member("result", name(result, in: Self.results))
      if !locations.isEmpty {
        fields.member("sensorLocations") { fields in
          for location in locations { fields.value(location.jsonName) }
        }
      }
    }
  }
}

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
