import BLECore
import JSONText

extension BatteryLevel: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) { line.member("batteryLevelPercent", percent) }
}

extension BatteryPowerState: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("present", name(present, in: ["unknown", "notSupported", "notPresent", "present"]))
    line.member(
      "discharging", name(discharging, in: ["unknown", "notSupported", "notDischarging", "discharging"]))
    line.member("charging", name(charging, in: ["unknown", "notChargeable", "notCharging", "charging"]))
    line.member("level", name(level, in: ["unknown", "notSupported", "good", "criticallyLow"]))
  }
}

extension BatteryLevelStatus: SensorValueJSON {
  private static let externalPower = ["no", "yes", "unknown"]
  private static let chargeStates = ["unknown", "charging", "dischargingActive", "dischargingInactive"]
  private static let chargeLevels = ["unknown", "good", "low", "critical"]

  func writeMembers(into line: inout JSONLine) {
    line.member("batteryPresent", (powerState.isBatteryPresent ? "present" : "notPresent") as String)
    line.member("wiredExternalPower", name(powerState.wiredExternalPower, in: Self.externalPower))
    line.member("wirelessExternalPower", name(powerState.wirelessExternalPower, in: Self.externalPower))
    line.member("chargeState", name(powerState.chargeState, in: Self.chargeStates))
    line.member("chargeLevel", name(powerState.chargeLevel, in: Self.chargeLevels))
    line.member("chargingTypeCode", powerState.chargingType)
    line.member("chargingFaultBits", powerState.chargingFaults)
    if let identifier { line.member("identifier", identifier) }
    if let level { line.member("batteryLevelPercent", level) }
    if let additionalStatus {
      line.member("serviceRequired", name(additionalStatus & 3, in: ["no", "yes", "unknown"]))
      line.member("batteryFault", additionalStatus & 4 != 0)
    }
    line.members(trailing: trailingByteCount)
  }
}

extension SystemID: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member(
      "organizationallyUniqueIdentifier", digits(UInt64(organizationallyUniqueIdentifier), byteCount: 3))
    line.member("manufacturerIdentifier", digits(manufacturerIdentifier, byteCount: 5))
    if let address { line.member("bluetoothAddress", address.description) }
  }

  private func digits(_ number: UInt64, byteCount: Int) -> String {
    (0..<byteCount).reversed().map { hexadecimal(UInt8(truncatingIfNeeded: number >> UInt64(8 * $0))) }
      .joined()
      .uppercased()
  }
}

extension PnPID: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("vendorIdSource", vendorSource)
    line.member("vendorId", vendor)
    line.member("productId", product)
    line.member("productVersion", version)
  }
}

extension DeviceInformationText: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) { line.member("text", text) }
}

extension RegulatoryCertification: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("certifications") { line in
      for entry in entries {
        line.object { line in
          line.member("authority", entry.authority)
          line.member("structureType", entry.structureType)
          line.member("data", hex: entry.data.span)
        }
      }
    }
  }
}
