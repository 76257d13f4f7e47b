import BLESensors
import BLEWire
package import JSONText

extension BatteryLevel: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("batteryLevelPercent", percent, .words("battery"))
  }
}

extension BatteryPowerState: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("present", name(present, in: ["unknown", "notSupported", "notPresent", "present"]))
    fields.member(
      "discharging", name(discharging, in: ["unknown", "notSupported", "notDischarging", "discharging"]))
    fields.member("charging", name(charging, in: ["unknown", "notChargeable", "notCharging", "charging"]))
    fields.member("level", name(level, in: ["unknown", "notSupported", "good", "criticallyLow"]))
  }
}

extension BatteryLevelStatus: SensorValueFields {
  private static let externalPower = ["no", "yes", "unknown"]
  private static let chargeStates = ["unknown", "charging", "dischargingActive", "dischargingInactive"]
  private static let chargeLevels = ["unknown", "good", "low", "critical"]

  package func describe(into fields: inout FieldList) {
    fields.member("batteryPresent", (powerState.isBatteryPresent ? "present" : "notPresent"))
    fields.member("wiredExternalPower", name(powerState.wiredExternalPower, in: Self.externalPower))
    fields.member("wirelessExternalPower", name(powerState.wirelessExternalPower, in: Self.externalPower))
    fields.member("chargeState", name(powerState.chargeState, in: Self.chargeStates))
    fields.member("chargeLevel", name(powerState.chargeLevel, in: Self.chargeLevels))
    fields.member("chargingTypeCode", powerState.chargingType)
    fields.member("chargingFaultBits", powerState.chargingFaults)
    if let identifier { fields.member("identifier", identifier) }
    if let level { fields.member("batteryLevelPercent", level) }
    if let additionalStatus {
      fields.member("serviceRequired", name(additionalStatus & 3, in: ["no", "yes", "unknown"]))
      fields.member("batteryFault", additionalStatus & 4 != 0)
    }
    fields.members(trailing: trailingByteCount)
  }
}

extension SystemID: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member(
      "organizationallyUniqueIdentifier", digits(UInt64(organizationallyUniqueIdentifier), byteCount: 3))
    fields.member("manufacturerIdentifier", digits(manufacturerIdentifier, byteCount: 5))
    if let address { fields.member("bluetoothAddress", address.description) }
  }

  private func digits(_ number: UInt64, byteCount: Int) -> String {
    (0..<byteCount).reversed().map { hexadecimal(UInt8(truncatingIfNeeded: number >> UInt64(8 * $0))) }
      .joined()
      .uppercased()
  }
}

extension PnPID: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    func digits(_ number: UInt16) -> String { PacketText.hex(UInt64(number), digits: 4) }
    fields.member("vendorIdSource", vendorSource, .hidden)
    fields.member(
      "vendorId", vendor, .none,
      words: "Vendor \(digits(vendor)) product \(digits(product)) version \(digits(version))")
    fields.member("productId", product, .hidden)
    fields.member("productVersion", version, .hidden)
  }
}

extension DeviceInformationText: SensorValueFields {
  package func describe(into fields: inout FieldList) { fields.member("text", text) }
}

extension RegulatoryCertification: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("certifications") { fields in
      for entry in entries {
        fields.object { fields in
          fields.member("authority", entry.authority)
          fields.member("structureType", entry.structureType)
          fields.member("data", hex: entry.data.span)
        }
      }
    }
  }
}
