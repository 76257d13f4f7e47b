import BLECore
import JSONText

extension HeartRateMeasurement: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("heartRateBpm", beatsPerMinute)
    line.member("heartRateIs16Bit", flags.contains(.rateIs16Bit))
    line.member("sensorContact", contactName)
    line.member("energyExpendedKilojoules", optional: energyExpendedKilojoules)
    line.member("rrIntervals1024ths") { line in
      for index in rrIntervals.indices { line.value(rrIntervals[index]) }
    }
    line.members(trailing: trailingByteCount)
  }

  private var contactName: String {
    switch contact {
    case .notSupported: "notSupported"
    case .notDetected: "notDetected"
    case .detected: "detected"
    }
  }
}

extension BodySensorLocation: SensorValueJSON {
  private static let names = ["other", "chest", "wrist", "finger", "hand", "earLobe", "foot"]

  func writeMembers(into line: inout JSONLine) {
    line.member("bodySensorLocationCode", rawValue)
    line.member("bodySensorLocation", name(rawValue, in: Self.names))
  }
}

extension HeartRateCommand: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("command", (self == .resetEnergyExpended ? "resetEnergyExpended" : "reserved") as String)
    if self != .resetEnergyExpended { line.member("commandCode", rawValue) }
  }
}
