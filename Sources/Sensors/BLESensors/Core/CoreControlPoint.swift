public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Numbers that identify an ANT+ heart-rate monitor for pairing.
public struct CoreANTDevice: Hashable, Sendable, BitwiseCopyable {
  public let number: UInt16
  public let transmissionType: UInt8

  public init(number: UInt16, transmissionType: UInt8) {
    self.number = number
    self.transmissionType = transmissionType
  }
}

/// Kind of search for heart-rate monitors.
public enum CoreScan: UInt8, Hashable, Sendable, BitwiseCopyable {
  case scanOnly = 0xFF
  /// Searches, and pairs with the monitor that has the strongest signal.
  case scanAndPair = 0xFE
}

/// Request to a CORE sensor, mostly about its heart-rate monitors.
///
/// CoreTemp BLE Service Specification 2.2, 3.2. Send one request at a time. The response is a `CoreResponse`
/// in an indication.
public enum CoreRequest: CharacteristicValue, BitwiseCopyable {
  case clearANTMonitors
  case addANTMonitor(CoreANTDevice)
  case removeANTMonitor(CoreANTDevice)
  case countANTMonitors
  case antMonitor(index: UInt8)
  case addMonitor(DeviceAddress)
  case removeMonitor(DeviceAddress)
  case countMonitors
  case monitor(index: UInt8)
  case scanANT(CoreScan)
  case countScannedANT
  case scannedANT(index: UInt8)
  case scan(CoreScan)
  case countScanned
  case scannedName(index: UInt8)
  case scannedAddress(index: UInt8)
  case clearMonitors
  case pairedMonitor(index: UInt8)
  /// Sets the heart rate from another source, in beats per minute; `nil` turns it off. If the rate does not
  /// change for 15 s, the quality decreases.
  case setExternalHeartRate(UInt8?)

  public var opcode: UInt8 {
    switch self {
    case .clearANTMonitors: 0x01
    case .addANTMonitor: 0x02
    case .removeANTMonitor: 0x03
    case .countANTMonitors: 0x04
    case .antMonitor: 0x05
    case .addMonitor: 0x06
    case .removeMonitor: 0x07
    case .countMonitors: 0x08
    case .monitor: 0x09
    case .scanANT: 0x0A
    case .countScannedANT: 0x0B
    case .scannedANT: 0x0C
    case .scan: 0x0D
    case .countScanned: 0x0E
    case .scannedName: 0x0F
    case .scannedAddress: 0x10
    case .clearMonitors: 0x11
    case .pairedMonitor: 0x12
    case .setExternalHeartRate: 0x13
    }
  }

  /// Decodes a request.
  ///
  /// - Throws: `truncated`; `unexpectedOpcode` for an unassigned opcode; `invalidValue` for an unknown kind
  ///   of scan.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .coreTemperature)
    let opcode = try reader.u8()
    self =
      switch opcode {
      case 0x01: .clearANTMonitors
      case 0x02: .addANTMonitor(try reader.antDevice())
      case 0x03: .removeANTMonitor(try reader.antDevice())
      case 0x04: .countANTMonitors
      case 0x05: .antMonitor(index: try reader.u8())
      case 0x06: .addMonitor(try reader.address())
      case 0x07: .removeMonitor(try reader.address())
      case 0x08: .countMonitors
      case 0x09: .monitor(index: try reader.u8())
      case 0x0A: .scanANT(try reader.scan())
      case 0x0B: .countScannedANT
      case 0x0C: .scannedANT(index: try reader.u8())
      case 0x0D: .scan(try reader.scan())
      case 0x0E: .countScanned
      case 0x0F: .scannedName(index: try reader.u8())
      case 0x10: .scannedAddress(index: try reader.u8())
      case 0x11: .clearMonitors
      case 0x12: .pairedMonitor(index: try reader.u8())
      case 0x13: .setExternalHeartRate(reader.left == 0 ? nil : try reader.u8())
      default: throw WireError(.coreTemperature, offset: 0, .unexpectedOpcode(opcode))
      }
  }

  public var encodedByteCount: Int {
    switch self {
    case .addANTMonitor, .removeANTMonitor: 4
    case .addMonitor, .removeMonitor: 7
    case .antMonitor, .monitor, .scanANT, .scannedANT, .scan, .scannedName, .scannedAddress, .pairedMonitor: 2
    case .setExternalHeartRate(let rate): rate == nil ? 1 : 2
    case .clearANTMonitors, .countANTMonitors, .countMonitors, .countScannedANT, .countScanned,
      .clearMonitors:
      1
    }
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(opcode)
    switch self {
    case .addANTMonitor(let device), .removeANTMonitor(let device):
      output.append(u16: device.number)
      output.append(device.transmissionType)
    case .addMonitor(let address), .removeMonitor(let address): output.append(address)
    case .scanANT(let scan), .scan(let scan): output.append(scan.rawValue)
    case .antMonitor(let index), .monitor(let index), .scannedANT(let index), .scannedName(let index),
      .scannedAddress(let index), .pairedMonitor(let index):
      output.append(index)
    case .setExternalHeartRate(let rate): if let rate { output.append(rate) }
    case .clearANTMonitors, .countANTMonitors, .countMonitors, .countScannedANT, .countScanned,
      .clearMonitors:
      break
    }
  }
}

/// Response of a CORE sensor to a request.
///
/// CoreTemp BLE Service Specification 2.2, 3.2.
public struct CoreResponse: CharacteristicValue, BitwiseCopyable {
  /// First byte of the indication. No request has this opcode.
  public static let opcode: UInt8 = 0x80

  /// Content of a response. The form depends on the request's opcode.
  public enum Content: Hashable, Sendable, BitwiseCopyable {
    case nothing
    case count(UInt8)
    /// `state`: 0 closed, 1 searching, 2 synchronized.
    case antMonitor(CoreANTDevice, state: UInt8)
    case scannedANT(CoreANTDevice)
    /// `state`: 0 disconnected, 1 connected.
    case monitor(state: UInt8, name: Name)
    case name(Name)
    case address(DeviceAddress)
    /// `state`: 0 disconnected, 1 connected.
    case pairedMonitor(state: UInt8, DeviceAddress)
  }

  /// Name in UTF-8. It may be truncated within a character.
  public struct Name: Sendable, BitwiseCopyable {
    /// Maximum number of bytes in a name, limited by an indication of 20 bytes.
    public static let capacity = 17

    private var storage = InlineArray<17, UInt8>(repeating: 0)
    public private(set) var count = 0

    /// Copies a name.
    ///
    /// - Parameter octets: name in UTF-8; truncated to `capacity`.
    public init(_ octets: Span<UInt8>) {
      count = min(octets.count, Self.capacity)
      for index in 0..<count { storage[index] = octets[index] }
    }

    public var octets: [UInt8] { (0..<count).map { storage[$0] } }
    public var text: String { String(decoding: octets, as: UTF8.self) }
  }

  public let requestOpcode: UInt8
  /// Result of the request: 1 success, 2 opcode not supported, 3 invalid parameter, 4 failed.
  public let result: UInt8
  public let content: Content

  public init(to requestOpcode: UInt8, result: UInt8, content: Content = .nothing) {
    self.requestOpcode = requestOpcode
    self.result = result
    self.content = content
  }

  /// Decodes a response.
  ///
  /// - Throws: `truncated`; `unexpectedOpcode` for a value that is not a response.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .coreTemperature)
    let opcode = try reader.u8()
    guard opcode == Self.opcode else {
      throw WireError(.coreTemperature, offset: 0, .unexpectedOpcode(opcode))
    }
    requestOpcode = try reader.u8()
    result = try reader.u8()
    content =
      switch result == 1 ? requestOpcode : 0 {
      case 0x04, 0x08, 0x0B, 0x0E: .count(try reader.u8())
      case 0x05: .antMonitor(try reader.antDevice(), state: try reader.u8())
      case 0x09: .monitor(state: try reader.u8(), name: Name(value.extracting(reader.offset...)))
      case 0x0C: .scannedANT(try reader.antDevice())
      case 0x0F: .name(Name(value.extracting(reader.offset...)))
      case 0x10: .address(try reader.address())
      case 0x12: .pairedMonitor(state: try reader.u8(), try reader.address())
      default: .nothing
      }
  }

  public var encodedByteCount: Int {
    switch content {
    case .nothing: 3
    case .count: 4
    case .antMonitor: 7
    case .scannedANT: 6
    case .monitor(_, let name): 4 + name.count
    case .name(let name): 3 + name.count
    case .address: 9
    case .pairedMonitor: 10
    }
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(Self.opcode)
    output.append(requestOpcode)
    output.append(result)
    switch content {
    case .nothing: break
    case .count(let count): output.append(count)
    case .antMonitor(let device, let state):
      output.append(u16: device.number)
      output.append(device.transmissionType)
      output.append(state)
    case .scannedANT(let device):
      output.append(u16: device.number)
      output.append(device.transmissionType)
    case .monitor(let state, let name):
      output.append(state)
      for octet in name.octets { output.append(octet) }
    case .name(let name): for octet in name.octets { output.append(octet) }
    case .address(let address): output.append(address)
    case .pairedMonitor(let state, let address):
      output.append(state)
      output.append(address)
    }
  }
}

extension CoreResponse.Name: Hashable {
  public static func == (a: Self, b: Self) -> Bool { a.octets == b.octets }
  public func hash(into hasher: inout Hasher) { hasher.combine(octets) }
}

extension FieldReader {
  fileprivate mutating func antDevice() throws(WireError) -> CoreANTDevice {
    CoreANTDevice(number: try u16(), transmissionType: try u8())
  }

  /// Reads an address. The specification does not state the address type, so random is assumed: straps have
  /// random static addresses.
  fileprivate mutating func address() throws(WireError) -> DeviceAddress {
    bytes.address(at: try take(6), type: .random)
  }

  fileprivate mutating func scan() throws(WireError) -> CoreScan {
    let code = try u8()
    guard let scan = CoreScan(rawValue: code) else {
      throw WireError(layer, offset: offset - 1, .invalidValue(UInt32(code)))
    }
    return scan
  }
}

#if !hasFeature(Embedded)
  extension CoreRequest: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("command", command)
      switch self {
      case .addANTMonitor(let device), .removeANTMonitor(let device): fields.members(device)
      case .addMonitor(let address), .removeMonitor(let address):
        fields.member("address", address.description)
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
#endif
