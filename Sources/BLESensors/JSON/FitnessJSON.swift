import BLECore
import JSONText

extension RunningSpeed: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("speedMetersPerSecond", metersPerSecond)
    line.member("cadencePerMinute", cadencePerMinute)
    line.member("strideLengthMeters", optional: strideMeters)
    line.member("totalDistanceMeters", optional: distanceMeters)
    line.member("running", isRunning)
    line.members(trailing: trailingByteCount)
  }
}

extension RunningSpeedFeatures: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("strideLengthSupported", contains(.strideLength))
    line.member("totalDistanceSupported", contains(.totalDistance))
    line.member("walkingOrRunningSupported", contains(.walkingOrRunning))
    line.member("calibrationSupported", contains(.calibration))
    line.member("multipleSensorLocationsSupported", contains(.severalLocations))
  }
}

extension CyclingSpeed: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("cumulativeWheelRevolutions", optional: wheel?.revolutions)
    line.member("lastWheelEventTime1024ths", optional: wheel?.lastEventTicks)
    line.member("cumulativeCrankRevolutions", optional: crank?.revolutions)
    line.member("lastCrankEventTime1024ths", optional: crank?.lastEventTicks)
    line.members(trailing: trailingByteCount)
  }
}

extension CyclingSpeedFeatures: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("wheelRevolutionsSupported", contains(.wheel))
    line.member("crankRevolutionsSupported", contains(.crank))
    line.member("multipleSensorLocationsSupported", contains(.severalLocations))
  }
}

extension SensorLocation: SensorValueJSON {
  private static let names = [
    "other", "topOfShoe", "inShoe", "hip", "frontWheel", "leftCrank", "rightCrank", "leftPedal", "rightPedal",
    "frontHub", "rearDropout", "chainstay", "rearWheel", "rearHub", "chest", "spider", "chainRing",
  ]

  var jsonName: String { name(rawValue, in: Self.names) }

  func writeMembers(into line: inout JSONLine) {
    line.member("sensorLocationCode", rawValue)
    line.member("sensorLocation", jsonName)
  }
}

extension SensorControlPoint: SensorValueJSON {
  private static let results = ["reserved", "success", "opcodeNotSupported", "invalidParameter", "failed"]

  func writeMembers(into line: inout JSONLine) {
    switch self {
    case .setCumulativeValue(let value):
      line.member("command", "setCumulativeValue" as String)
      line.member("cumulativeValue", value)
    case .startCalibration: line.member("command", "startCalibration" as String)
    case .updateLocation(let location):
      line.member("command", "updateSensorLocation" as String)
      location.writeMembers(into: &line)
    case .requestLocations: line.member("command", "requestSupportedSensorLocations" as String)
    case .response(let requestOpcode, let result, let locations):
      line.member("requestOpcode", requestOpcode)
      line.member("result", name(result, in: Self.results))
      if !locations.isEmpty {
        line.member("sensorLocations") { line in
          for location in locations { line.value(location.jsonName) }
        }
      }
    }
  }
}

extension OximeterReading {
  /// - Parameter prefix: `fast`, `slow` or nothing.
  fileprivate func writeMembers(_ prefix: String, into line: inout JSONLine) {
    line.member(prefix.isEmpty ? "spo2Percent" : prefix + "Spo2Percent", spO2)
    line.member(prefix.isEmpty ? "pulseRateBpm" : prefix + "PulseRateBpm", pulseRate)
  }
}

extension OximeterSpotCheck: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    reading.writeMembers("", into: &line)
    if let timestamp {
      line.key("timestamp")
      line.value(timestamp)
    }
    if let measurementStatus { line.member("measurementStatus", measurementStatus) }
    if let deviceStatus { line.member("deviceAndSensorStatus", deviceStatus) }
    if let pulseAmplitudeIndex { line.member("pulseAmplitudeIndexPercent", pulseAmplitudeIndex) }
    if isClockNotSet { line.member("deviceClockNotSet", true) }
    line.members(trailing: trailingByteCount)
  }
}

extension OximeterContinuous: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    normal.writeMembers("", into: &line)
    fast?.writeMembers("fast", into: &line)
    slow?.writeMembers("slow", into: &line)
    if let measurementStatus { line.member("measurementStatus", measurementStatus) }
    if let deviceStatus { line.member("deviceAndSensorStatus", deviceStatus) }
    if let pulseAmplitudeIndex { line.member("pulseAmplitudeIndexPercent", pulseAmplitudeIndex) }
    line.members(trailing: trailingByteCount)
  }
}

extension OximeterFeatures: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("supportedFeatures", supported)
    if let measurementStatus { line.member("measurementStatusSupport", measurementStatus) }
    if let deviceStatus { line.member("deviceAndSensorStatusSupport", deviceStatus) }
    line.members(trailing: trailingByteCount)
  }
}

extension JSONLine {
  /// The number, or the name of what it is instead.
  fileprivate mutating func member(_ name: String, _ number: IEEE11073ShortFloat) {
    key(name)
    if let number = number.value { value(number) } else { value(number.special?.jsonName ?? "nan") }
  }
}
