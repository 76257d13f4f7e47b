import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// `parameters` of `log show --json`. Expected values are derived from the bytes by Core 5.4, Vol 4, Part E,
/// 7, and Vol 3, Parts A and H.
@Suite struct JSONParameterTests {
  private func line(_ packet: LoggedPacket) throws -> String {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: .json)
    try reader.read(log([packet]).span) { record in decoder.decode(record) { printer.print($0) } }
    return String(decoding: printer.octets, as: UTF8.self)
  }

  private func parameters(_ packet: LoggedPacket, of layer: String? = nil) throws -> NSDictionary {
    let object = try JSONSerialization.jsonObject(with: Data(line(packet).utf8)) as? [String: Any]
    let holder = layer.map { object?[$0] as? [String: Any] } ?? object
    return try #require(holder?["parameters"] as? NSDictionary)
  }

  private func command(_ octets: String) -> LoggedPacket {
    LoggedPacket(type: .command, direction: .hostToController, octets: octetsOf(octets))
  }

  private func event(_ octets: String) -> LoggedPacket {
    LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf(octets))
  }

  private func data(_ payload: String, channelID: UInt8) -> LoggedPacket {
    let payload = octetsOf(payload)
    return LoggedPacket(
      type: .acl, direction: .controllerToHost,
      octets: [0x40, 0x20, UInt8(payload.count + 4), 0, UInt8(payload.count), 0, channelID, 0] + payload)
  }

  private func expect(
    _ packet: LoggedPacket, of layer: String? = nil, _ expected: [String: Any],
    at location: SourceLocation = #_sourceLocation
  ) throws {
    let found = try parameters(packet, of: layer)
    #expect(found == expected as NSDictionary, sourceLocation: location)
  }

  @Test func namesNumbersWithTheirUnits() throws {
    try expect(
      event("3e13 01 00 4000 00 01b2a1000dcb70 180000 00f401 00"),
      [
        "handle": 64, "role": 0, "roleName": "Central", "peerAddressType": 1, "peerAddressTypeName": "Random",
        "peerAddress": "70:CB:0D:00:A1:B2", "connectionIntervalMs": 30, "connectionLatency": 0,
        "supervisionTimeoutMs": 5_000, "centralClockAccuracy": 0,
      ])
    try expect(
      event("3e0b 07 4000 fb004808fb009002"),
      ["handle": 64, "maxTxOctets": 251, "maxTxTimeUs": 2_120, "maxRxOctets": 251, "maxRxTimeUs": 656])
    try expect(
      command("0b20 07 01 1200 1200 01 00"),
      [
        "type": 1, "typeName": "Active", "intervalMs": 11.25, "windowMs": 11.25, "ownAddressType": 1,
        "ownAddressTypeName": "Random", "filterPolicy": 0, "filterPolicyName": "Accept all advertisement",
      ])
  }

  @Test func listsWhatComesSeveralTimes() throws {
    try expect(
      event("1309 02 4000 0100 4100 0300"),
      ["handles": [["handle": 64, "count": 1], ["handle": 65, "count": 3]]])
    let flagsAndName: [[String: Any]] = [["type": 1, "flags": 6], ["type": 9, "name": "R02"]]
    try expect(
      event("3e14 02 01 00 01b2a1000dcb70 08 020106 04 09 523032 c4"),
      [
        "reports": [
          [
            "eventType": 0, "eventTypeName": "Connectable undirected - ADV_IND", "addressType": 1,
            "addressTypeName": "Random", "address": "70:CB:0D:00:A1:B2", "data": flagsAndName, "rssi": -60,
          ] as [String: Any]
        ]
      ])
  }

  @Test func namesWhatBitsMean() throws {
    try expect(
      event("3e0c 04 00 4000 0101000000000000"),
      ["handle": 64, "features": "0000000000000101", "featuresNames": ["LE Encryption", "LE 2M PHY"]])
  }

  /// RSSI 127 is "not available".
  @Test func saysNullForUnknownPower() throws {
    let reports = try parameters(event("3e0c 02 01 00 01b2a1000dcb70 00 7f"))["reports"] as? [[String: Any]]
    #expect(reports?.first?["rssi"] is NSNull)
  }

  /// Core 5.4, Vol 4, Part E, 6.27 and 7.4.2: byte 0 has Inquiry in bit 0, byte 5 Set Event Mask in bit 6 and
  /// Reset in bit 7, byte 47 LE Extended Create Connection v2 in bit 0.
  @Test func namesSupportedCommands() throws {
    let mask =
      "01 00000000 c0" + String(repeating: "00", count: 41) + "01" + String(repeating: "00", count: 16)
    let found = try parameters(event("0e44 01 0210 00" + mask))
    #expect(
      found["commandsNames"] as? [String] == [
        "Inquiry", "Set Event Mask", "Reset", "LE Extended Create Connection v2",
      ])
  }

  /// Core 5.4, Vol 2, Part C, 3.3: page 1 has Secure Simple Pairing and Secure Connections of the host in bits 0
  /// and 3; page 2 has Ping in bit 9.
  @Test func namesFeaturesOfEachPage() throws {
    try expect(
      event("230d 00 4000 01 02 0900000000000000"),
      [
        "handle": 64, "page": 1, "maxPage": 2, "features": "0900000000000000",
        "featuresNames": ["Secure Simple Pairing (Host Support)", "Secure Connections (Host Support)"],
      ])
    try expect(
      event("230d 00 4000 02 02 0002000000000000"),
      [
        "handle": 64, "page": 2, "maxPage": 2, "features": "0002000000000000", "featuresNames": ["Ping"],
      ])
  }

  /// A headset: Bluetooth Assigned Numbers, 2.8: audio service (bit 21), major class 4, minor class 1.
  @Test func namesClassesOfDevices() throws {
    try expect(
      event("040a 060504030201 040420 01"),
      [
        "address": "01:02:03:04:05:06", "class": 0x20_04_04,
        "classNames": [
          "Major class: Audio/Video (headset, speaker, stereo, video, vcr)",
          "Minor class: Wearable Headset Device", "Audio (Speaker, Microphone, Headset)",
        ], "linkType": 1, "linkTypeName": "ACL",
      ])
  }

  /// The alternatives of an event filter: Core 5.4, Vol 4, Part E, 7.3.3.
  @Test func readsTheFilterThatItsTypeSays() throws {
    try expect(
      command("050c 08 01 02 060504030201"),
      [
        "type": 1, "typeName": "Inquiry Result", "filter": 2, "filterName": "Device with specific BD_ADDR",
        "address": "01:02:03:04:05:06",
      ])
    try expect(
      command("050c 03 02 00 02"),
      [
        "type": 2, "typeName": "Connection Setup", "filter": 0, "filterName": "Allow connections all devices",
        "autoAccept": 2, "autoAcceptName": "Auto accept without role switch",
      ])
    try expect(command("050c 01 00"), ["type": 0, "typeName": "Clear All Filters"])
  }

  /// Two lists with their own counts: Core 5.4, Vol 4, Part E, 7.4.8.
  @Test func readsListsAfterLists() throws {
    try expect(
      event("0e0c 01 0b10 00 02 02 05 01 0f00 3412"),
      [
        "numHciCommandPackets": 1,
        "supportedCodecs": [["codec": 2, "codecName": "CVSD"], ["codec": 5, "codecName": "mSBC"]],
        "vendorCodecs": [
          ["company": 15, "companyName": "Broadcom Corporation", "vendorCodecId": 0x1234] as [String: Any]
        ],
      ])
  }

  /// `doc/mgmt-api.txt`: Device Connected, and the reply to Set Powered.
  @Test func namesManagement() throws {
    func note(_ opcode: UInt16, _ octets: String) throws -> NSDictionary {
      var view = PacketView(PacketFilter(), PacketPrinter(style: .json), context: 0)
      var reader = PacketLogReader()
      try reader.read(monitorFile([(opcode, octetsOf(octets))]).span) { view.take(note: $0) }
      let object = try JSONSerialization.jsonObject(with: Data(view.octets)) as? NSDictionary
      return try #require(object?["parameters"] as? NSDictionary)
    }
    #expect(
      try note(17, "01000000 0b00 0605040302c1 02 08000000 0300 020106") == [
        "address": "C1:02:03:04:05:06", "addressType": 2, "addressTypeName": "LE Random", "flags": 8,
        "flagsNames": ["Connection Locally Initiated"], "data": [["type": 1, "flags": 6]],
      ] as NSDictionary)
    #expect(
      try note(17, "01000000 0100 0500 00 81000000") == [
        "command": 5, "commandName": "Set Powered", "status": 0, "statusName": "Success",
        "currentSettings": 0x81, "currentSettingsNames": ["Powered", "BR/EDR"],
      ] as NSDictionary)
    #expect(
      try note(17, "01000000 0100 0500 0b") == [
        "command": 5, "commandName": "Set Powered", "status": 11, "statusName": "Rejected",
      ] as NSDictionary)
    #expect(
      try note(16, "01000000 3e00 01 00000000 0000 0000 03 03 020106 020a04")["scanResponse"] as? NSArray
        == [["type": 10, "txPowerDbm": 4]] as NSArray)
  }

  @Test func namesSignalsAndKeys() throws {
    try expect(
      data("12070800 180028000000f401", channelID: 5), of: "l2cap",
      ["minIntervalMs": 30, "maxIntervalMs": 50, "peripheralLatency": 0, "timeoutMs": 5_000])
    try expect(
      data("01 04 00 2d 10 0f 0f", channelID: 6), of: "smp",
      [
        "ioCapability": 4, "ioCapabilityName": "KeyboardDisplay", "oobData": 0,
        "oobDataName": "Authentication data not present", "authenticationRequirement": 45,
        "authenticationRequirementName": "Bonding, MITM, SC, No Keypresses, CT2", "maxEncryptionKeySize": 16,
        "initiatorKeyDistribution": 15, "initiatorKeyDistributionName": "EncKey IdKey Sign LinkKey",
        "responderKeyDistribution": 15, "responderKeyDistributionName": "EncKey IdKey Sign LinkKey",
      ])
  }

  /// Unknown, superfluous and truncated bytes stay readable.
  @Test func keepsOctetsWithoutName() throws {
    try expect(command("01fc 03 a1b2c3"), ["octets": "a1b2c3"])
    try expect(
      command("0604 05 4000 13 aabb"),
      ["handle": 64, "reason": 19, "reasonName": "Remote User Terminated Connection", "octets": "aabb"])
    try expect(
      event("3e0c 02 01 00 01b2a1000dcb70 08 02"),
      [
        "reports": [
          [
            "eventType": 0, "eventTypeName": "Connectable undirected - ADV_IND", "addressType": 1,
            "addressTypeName": "Random", "address": "70:CB:0D:00:A1:B2",
            "problem": "Data length 8, 1 is left", "octets": "02",
          ] as [String: Any]
        ]
      ])
  }

  /// A failed command may return only its status, which is printed beside `parameters`.
  @Test func saysAStatusOnce() throws {
    let line = try line(event("0e04 01 0920 0c"))
    #expect(
      line.contains(
        #""status":12,"statusName":"Command Disallowed","parameters":{"numHciCommandPackets":1}}"#))
  }
}
