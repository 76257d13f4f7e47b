import BLEWire
import TestKit
import Testing

/// Bytes that Linux 6.1 sent and accepted on its control channel, with their meaning from BlueZ's
/// `doc/mgmt-api.txt`.
private enum Octets {
  /// Read Controller Information of a powered LE adapter: supported settings 0x0001be1b, current 0x00000201.
  static let information =
    "0153005e0000 0d ffff 1bbe0100 01020000 000000" + String(repeating: "00", count: 260)
  /// Device Found: 70:CB:0D:00:A1:B2, LE public, −55 dBm, flags 0, flags and name.
  static let found = "b2a1000dcb70 01 c9 00000000 0d00 020106 09095230325f41314232"
}

@Suite struct ManagementPacketTests {
  private func packet(_ hex: String) throws -> (UInt16, UInt16, [UInt8]) {
    let octets = octetsOf(hex)
    let packet = try ManagementPacket(validating: octets.span)
    return (packet.code, packet.index, array(packet.parameters))
  }

  @Test func readsAPacket() throws {
    let (code, index, parameters) = try packet("1300 0700 0200 0601")
    #expect(code == ManagementEventCode.discovering.rawValue)
    #expect(index == 7)
    #expect(parameters == [6, 1])
  }

  @Test func givesTheSameOctetsBack() throws {
    let octets = octetsOf("0100 0000 0400 2300 00 06")
    let packet = try ManagementPacket(validating: octets.span)
    #expect([UInt8](encoding: octets.count) { packet.encode(into: &$0) } == octets)
  }

  @Test func refusesWhatIsCut() {
    let octets = octetsOf("1300 0000 0200 0601")
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.self) { _ = try ManagementPacket(validating: cut.span).code }
    }
    let long = octetsOf("1300 0000 0200 0601 00")
    #expect(throws: WireError(.management, offset: 4, .lengthMismatch(claimed: 2, available: 3))) {
      _ = try ManagementPacket(validating: long.span).code
    }
  }
}

@Suite struct AdvertisingFeaturesTests {
  /// From Linux 6.1 with btvirt's controller, compared with `btmgmt advinfo`: at most three instances of 251
  /// bytes.
  private func free(_ hex: String) throws -> UInt8? {
    let octets = octetsOf(hex)
    return try AdvertisingFeatures(validating: octets.span).free
  }

  @Test func findsTheLeastNumberThatIsFree() throws {
    #expect(try free("fff30100 fb fb 03 00") == 1)
    #expect(try free("fff30100 fb fb 03 01 01") == 2)
    #expect(try free("fff30100 fb fb 03 02 0301") == 2)
    #expect(try free("fff30100 fb fb 03 03 010203") == nil)
    #expect(try free("fff30100 fb fb 00 00") == nil)
  }

  @Test func refusesWhatIsCut() {
    let octets = octetsOf("fff30100 fb fb 03 02 0102")
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.self) { _ = try AdvertisingFeatures(validating: cut.span).count }
    }
  }
}

@Suite struct ManagementCommandTests {
  private func expect<Command: ManagementCommand>(_ command: Command, _ opcode: UInt16, _ parameters: String)
  {
    let octets = [UInt8](encoding: command.parameterByteCount) {
      command.encodeParameters(into: &$0)
    }
    #expect(octets == octetsOf(parameters))
    #expect(Command.opcode.rawValue == opcode)
  }

  /// The kernel accepted each of them.
  @Test func writesCommands() {
    let ring = DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public)
    let timing = LinkParameterRange(
      minimumInterval: 6, maximumInterval: 7, latency: 0, supervisionTimeout: 42)
    expect(ReadControllerInformation(), 0x04, "")
    expect(StartDiscovery(), 0x23, "06")
    expect(StopDiscovery(), 0x24, "06")
    expect(GetConnectionInformation(ring), 0x31, "b2a1000dcb70 01")
    expect(ReadAdvertisingFeatures(), 0x3D, "")
    expect(RemoveAdvertising(2), 0x3F, "02")
    // Instance, flags, duration, timeout, minimum and maximum interval, power.
    expect(
      AddExtendedAdvertisingParameters(1, form: .legacy, interval: .fast), 0x54,
      "01 01400000 0000 0000 30000000 60000000 00")
    expect(
      AddExtendedAdvertisingParameters(1, form: .extended, interval: .fast), 0x54,
      "01 81400000 0000 0000 30000000 60000000 00")
    expect(
      AddExtendedAdvertisingData(1, [2, 1, 6], scanResponse: [2, 9, 0x52]), 0x55, "01 03 03 020106 020952")
    expect(
      LoadConnectionParameters([.init(ring, timing)]), 0x35, "0100 b2a1000dcb70 01 0600 0700 0000 2a00")
    expect(
      LoadConnectionParameters([.init(ring, timing), .init(ring.with(type: .random), timing)]), 0x35,
      "0200 b2a1000dcb70 01 0600 0700 0000 2a00 b2a1000dcb70 02 0600 0700 0000 2a00")
    expect(LoadConnectionParameters([]), 0x35, "0000")
  }
}

@Suite struct ManagementEventTests {
  @Test(arguments: [
    ("2300 00 06", 0x23, ManagementStatus.success, "06"), ("2300 0a 06", 0x23, .busy, "06"),
    ("2400 0b 06", 0x24, .rejected, "06"), ("0400 11", 0x04, .invalidIndex, ""),
    ("3500 00", 0x35, .success, ""),
  ])
  func readsReplies(_ hex: String, _ opcode: UInt16, _ status: ManagementStatus, _ parameters: String) throws
  {
    let octets = octetsOf(hex)
    let reply = try ManagementReply(validating: octets.span)
    let (code, found, rest) = (reply.opcode.rawValue, reply.status, array(reply.parameters))
    #expect(code == opcode)
    #expect(found == status)
    #expect(rest == octetsOf(parameters))
    for count in 0..<3 {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.truncated(.management, needed: 3, available: count)) {
        _ = try ManagementReply(validating: cut.span).status
      }
    }
  }

  @Test func namesStatuses() {
    #expect(ManagementStatus.busy.name.description == "Busy")
    #expect(ManagementStatus(rawValue: 0xEE).name.description == "other")
  }

  @Test func readsSettings() throws {
    let octets = octetsOf(Octets.information)
    let settings = try ControllerSettings(informationReply: octets.span)
    #expect(settings.isPowered)
    #expect(settings.isLowEnergy)
    var off = octets
    (off[13], off[14]) = (0x10, 0x00)
    let other = try ControllerSettings(informationReply: off.span)
    #expect(!other.isPowered)
    #expect(!other.isLowEnergy)
    let cut = Array(octets[..<16])
    #expect(throws: WireError.truncated(.management, needed: 17, available: 16)) {
      _ = try ControllerSettings(informationReply: cut.span)
    }
  }

  @Test func readsAConnectionsSignal() throws {
    var octets = octetsOf("b2a1000dcb7001 c9 00 00")
    #expect(try ConnectionInformation(validating: octets.span).rssi == -55)
    octets[7] = 0x7F
    #expect(try ConnectionInformation(validating: octets.span).rssi == nil)
    octets.removeLast()
    #expect(throws: WireError.truncated(.management, needed: 10, available: 9)) {
      _ = try ConnectionInformation(validating: octets.span)
    }
  }

  @Test func readsDiscovering() throws {
    let (on, off, cut) = (octetsOf("06 01"), octetsOf("07 00"), octetsOf("06"))
    #expect(try Discovering(validating: on.span).isOn)
    let event = try Discovering(validating: off.span)
    #expect(!event.isOn)
    #expect(event.addressTypes == 7)
    #expect(throws: WireError.self) { _ = try Discovering(validating: cut.span) }
  }

  private struct Found: Equatable {
    var isLowEnergy: Bool
    var address: DeviceAddress
    var rssi: Int8?
    var isConnectable: Bool
    var isScanResponse: Bool
    var data: [UInt8]
  }

  private func found(_ octets: [UInt8]) throws -> Found {
    let event = try DeviceFound(validating: octets.span)
    return Found(
      isLowEnergy: event.isLowEnergy, address: event.report.address, rssi: event.report.rssi,
      isConnectable: event.report.properties.isConnectable,
      isScanResponse: event.report.properties.isScanResponse, data: array(event.report.data))
  }

  @Test func readsADeviceFound() throws {
    let event = try found(octetsOf(Octets.found))
    #expect(
      event
        == Found(
          isLowEnergy: true, address: DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public), rssi: -55,
          isConnectable: true, isScanResponse: false, data: octetsOf("020106 09095230325f41314232")))
  }

  /// Flag bits: 2 is "not connectable", 5 is a scan response alone.
  @Test func readsFlagsAndTypes() throws {
    var octets = octetsOf(Octets.found)
    octets[6] = 2
    octets[7] = 0x7F
    octets[8] = 0x04
    let silent = try found(octets)
    #expect(silent.address.type == .random)
    #expect(silent.rssi == nil)
    #expect(!silent.isConnectable)
    octets[8] = 0x20
    #expect(try found(octets).isScanResponse)
    for type: UInt8 in [0, 3] {
      octets[6] = type
      #expect(try !found(octets).isLowEnergy)
    }
  }

  @Test func refusesACutDeviceFound() {
    let octets = octetsOf(Octets.found)
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.self) { _ = try DeviceFound(validating: cut.span).isLowEnergy }
    }
    let long = octets + [0]
    #expect(throws: WireError(.management, offset: 12, .lengthMismatch(claimed: 13, available: 14))) {
      _ = try DeviceFound(validating: long.span).isLowEnergy
    }
  }
}
