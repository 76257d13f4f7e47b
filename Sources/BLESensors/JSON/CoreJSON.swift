import BLECore
import JSONText

extension CoreBodyTemperature: SensorValueJSON {
  private static let qualities = [
    "invalid", "poor", "fair", "good", "excellent", "reserved", "reserved", "notAvailable",
  ]
  private static let heartRateStates = [
    "notSupported", "supportedNotReceiving", "supportedReceiving", "notAvailable",
  ]

  func writeMembers(into line: inout JSONLine) {
    line.member("coreTemperature\(unit.keySuffix)", optional: coreTemperature)
    line.member("skinTemperature\(unit.keySuffix)", optional: skinTemperature)
    line.member("coreReserved", optional: coreReserved)
    line.member("quality", optional: quality.map { name($0.level, in: Self.qualities) })
    line.member("heartRateState", optional: quality.map { name($0.heartRateState, in: Self.heartRateStates) })
    line.member("heartRateBpm", optional: heartRate)
    line.member("heatStrainIndex", optional: heatStrainIndexTenths.map { Double($0) / 10 })
    line.member("unit", unit.jsonName)
    line.members(trailing: trailingByteCount)
  }
}

extension CoreAdvertisement: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("companyId", Self.company)
    line.member("version", version)
    line.member("statusCode", status)
    line.member("coreTemperatureCelsius", Double(coreThousandths) / 1_000)
  }
}

extension CoreRequest: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("command", command)
    switch self {
    case .addANTMonitor(let device), .removeANTMonitor(let device): line.members(device)
    case .addMonitor(let address), .removeMonitor(let address): line.member("address", address.description)
    case .antMonitor(let index), .monitor(let index), .scannedANT(let index), .scannedName(let index),
      .scannedAddress(let index), .pairedMonitor(let index):
      line.member("index", index)
    case .scanANT(let scan), .scan(let scan): line.member("pairStrongest", scan == .scanAndPair)
    case .setExternalHeartRate(let rate): line.member("heartRateBpm", optional: rate)
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

extension CoreResponse: SensorValueJSON {
  private static let results = ["reserved", "success", "opcodeNotSupported", "invalidParameter", "failed"]
  private static let antStates = ["closed", "searching", "synchronized"]
  private static let states = ["disconnected", "connected"]

  func writeMembers(into line: inout JSONLine) {
    line.member("requestOpcode", requestOpcode)
    line.member("result", name(result, in: Self.results))
    switch content {
    case .nothing: break
    case .count(let count): line.member("count", count)
    case .antMonitor(let device, let state):
      line.members(device)
      line.member("heartRateMonitorState", name(state, in: Self.antStates))
    case .scannedANT(let device): line.members(device)
    case .monitor(let state, let monitor):
      line.member("heartRateMonitorState", name(state, in: Self.states))
      line.member("name", monitor.text)
    case .name(let monitor): line.member("name", monitor.text)
    case .address(let address): line.member("address", address.description)
    case .pairedMonitor(let state, let address):
      line.member("heartRateMonitorState", name(state, in: Self.states))
      line.member("address", address.description)
    }
  }
}

extension JSONLine {
  fileprivate mutating func members(_ device: CoreANTDevice) {
    member("antDeviceNumber", device.number)
    member("transmissionType", device.transmissionType)
  }
}
