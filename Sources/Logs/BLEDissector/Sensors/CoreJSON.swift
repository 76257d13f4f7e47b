import BLESensors
import BLEWire
package import JSONText

extension CoreBodyTemperature: SensorValueFields {
  private static let qualities = [
    "invalid", "poor", "fair", "good", "excellent", "reserved", "reserved", "notAvailable",
  ]
  private static let heartRateStates = [
    "notSupported", "supportedNotReceiving", "supportedReceiving", "notAvailable",
  ]

  package func describe(into fields: inout FieldList) {
    fields.member("coreTemperature\(unit.keySuffix)", coreTemperature)
    fields.member("skinTemperature\(unit.keySuffix)", skinTemperature)
    fields.member("coreReserved", coreReserved)
    fields.member("quality", quality.map { name($0.level, in: Self.qualities) })
    fields.member("heartRateState", quality.map { name($0.heartRateState, in: Self.heartRateStates) })
    fields.member("heartRateBpm", heartRate)
    fields.member("heatStrainIndex", heatStrainIndexTenths.map { Double($0) / 10 })
    fields.member("unit", unit.jsonName)
    fields.members(trailing: trailingByteCount)
  }
}

extension CoreAdvertisement: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("companyId", Self.company)
    fields.member("version", version)
    fields.member("statusCode", status)
    fields.member("coreTemperatureCelsius", Double(coreThousandths) / 1_000)
  }
}

extension CoreRequest: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("command", command)
    switch self {
    case .addANTMonitor(let device), .removeANTMonitor(let device): fields.members(device)
    case .addMonitor(let address), .removeMonitor(let address): fields.member("address", address.description)
    case .antMonitor(let index), .monitor(let index), .scannedANT(let index), .scannedName(let index),
      .scannedAddress(let index), .pairedMonitor(let index):
      fields.member("index", index)
    case .scanANT(let scan), .scan(let scan): fields.member("pairStrongest", scan == .scanAndPair)
    case .setExternalHeartRate(let rate): fields.member("heartRateBpm", rate)
    case .clearANTMonitors, .countANTMonitors, .countMonitors, .countScannedANT, .countScanned,
      .clearMonitors:
      break
    }
  }

  private var command: String {
    switch self {
    case .clearANTMonitors: "clearAntHeartRateMonitors"
    case .addANTMonitor: "addAntHeartRateMonitor"
    case .removeANTMonitor: "removeAntHeartRateMonitor"
    case .countANTMonitors: "countAntHeartRateMonitors"
    case .antMonitor: "getAntHeartRateMonitor"
    case .addMonitor: "addBleHeartRateMonitor"
    case .removeMonitor: "removeBleHeartRateMonitor"
    case .countMonitors: "countBleHeartRateMonitors"
    case .monitor: "getBleHeartRateMonitor"
    case .scanANT: "scanAntHeartRateMonitors"
    case .countScannedANT: "countScannedAntHeartRateMonitors"
    case .scannedANT: "getScannedAntHeartRateMonitor"
    case .scan: "scanBleHeartRateMonitors"
    case .countScanned: "countScannedBleHeartRateMonitors"
    case .scannedName: "getScannedBleHeartRateMonitorName"
    case .scannedAddress: "getScannedBleHeartRateMonitorAddress"
    case .clearMonitors: "clearBleHeartRateMonitors"
    case .pairedMonitor: "getPairedBleHeartRateMonitor"
    case .setExternalHeartRate: "setExternalHeartRate"
    }
  }
}

extension CoreResponse: SensorValueFields {
  private static let results = ["reserved", "success", "opcodeNotSupported", "invalidParameter", "failed"]
  private static let antStates = ["closed", "searching", "synchronized"]
  private static let states = ["disconnected", "connected"]

  package func describe(into fields: inout FieldList) {
    fields.member("requestOpcode", requestOpcode)
    fields.member("result", name(result, in: Self.results))
    switch content {
    case .nothing: break
    case .count(let count): fields.member("count", count)
    case .antMonitor(let device, let state):
      fields.members(device)
      fields.member("heartRateMonitorState", name(state, in: Self.antStates))
    case .scannedANT(let device): fields.members(device)
    case .monitor(let state, let monitor):
      fields.member("heartRateMonitorState", name(state, in: Self.states))
      fields.member("name", monitor.text)
    case .name(let monitor): fields.member("name", monitor.text)
    case .address(let address): fields.member("address", address.description)
    case .pairedMonitor(let state, let address):
      fields.member("heartRateMonitorState", name(state, in: Self.states))
      fields.member("address", address.description)
    }
  }
}

extension FieldList {
  fileprivate mutating func members(_ device: CoreANTDevice) {
    member("antDeviceNumber", device.number)
    member("transmissionType", device.transmissionType)
  }
}
