import BLESensors
import BLEWire
package import JSONText

extension HeartRateMeasurement: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("heartRateBpm", beatsPerMinute, words: "\(beatsPerMinute) beats/min\(contactWords)")
    fields.member("heartRateIs16Bit", flags.contains(.rateIs16Bit), .hidden)
    fields.member("sensorContact", contactName, .hidden)
    fields.member("energyExpendedKilojoules", energyExpendedKilojoules)
    // Round to the nearest millisecond.
    let milliseconds = rrIntervals.indices.map { "\((Int(rrIntervals[$0]) * 1_000 + 512) / 1_024)" }
    fields.member(
      "rrIntervals1024ths", milliseconds.isEmpty ? .hidden : .ofName,
      words: milliseconds.joined(separator: ", ") + " ms"
    ) { fields in
      for index in rrIntervals.indices { fields.value(rrIntervals[index]) }
    }
    fields.members(trailing: trailingByteCount)
  }

  private var contactWords: String {
    switch contact {
    case .notSupported: ""
    case .notDetected: ", no contact"
    case .detected: ", contact"
    }
  }

  private var contactName: String {
    switch contact {
    case .notSupported: "notSupported"
    case .notDetected: "notDetected"
    case .detected: "detected"
    }
  }
}

extension BodySensorLocation: SensorValueFields {
  private static let names = ["other", "chest", "wrist", "finger", "hand", "earLobe", "foot"]

  package func describe(into fields: inout FieldList) {
    let name = name(rawValue, in: Self.names)
    fields.member("bodySensorLocationCode", rawValue, .hidden)
    fields.member(
      "bodySensorLocation", name, .words("location"),
      words: name == "reserved" ? "reserved (\(rawValue))" : Field.words(of: name))
  }
}

extension HeartRateCommand: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("command", (self == .resetEnergyExpended ? "resetEnergyExpended" : "reserved"))
    if self != .resetEnergyExpended { fields.member("commandCode", rawValue) }
  }
}
