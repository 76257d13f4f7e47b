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
            "problem": "Data length 8, 1 are left", "octets": "02",
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
