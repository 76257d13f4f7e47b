import BLEWire
import TestKit
import Testing

/// Bytes that google/bumble 0.0.236 encodes for the same parameters, without the H4 type.
@Suite struct AdvertisingCommandTests {
  private static let data = octetsOf("020106 03031118 0508")
  private let set = AdvertisingSetHandle(rawValue: 3)

  private func packet<Command: HCICommand>(_ command: Command) -> [UInt8] {
    let parameters = [UInt8](encoding: 255) { command.encodeParameters(into: &$0) }
    return [UInt8](encoding: HCICommandPacket.maximumByteCount) {
      HCICommandPacket(opcode: Command.opcode, parameters: parameters.span).encode(into: &$0)
    }
  }

  @Test func writesLegacyParameters() {
    #expect(
      packet(LESetAdvertisingParameters(kind: .connectable, interval: .fast, ownType: .random))
        == octetsOf("06200f 3000 6000 00 01 00 000000000000 07 00"))
    #expect(
      packet(LESetAdvertisingParameters(kind: .nonConnectable, interval: .slow))
        == octetsOf("06200f 4006 8007 03 00 00 000000000000 07 00"))
  }

  /// Always 31 bytes, however few are used.
  @Test func writesLegacyData() {
    let octets = "20 09 020106030311180508" + String(repeating: "00", count: 22)
    #expect(packet(LESetAdvertisingData(Self.data)) == octetsOf("0820" + octets))
    #expect(packet(LESetScanResponseData(Self.data)) == octetsOf("0920" + octets))
    let full = [UInt8](repeating: 0xAA, count: 31)
    #expect(packet(LESetAdvertisingData(full)) == octetsOf("0820 20 1f") + full)
  }

  @Test func switchesLegacyAdvertising() {
    #expect(packet(LESetAdvertisingEnable(.on)) == octetsOf("0a2001 01"))
    #expect(packet(LESetAdvertisingEnable(.off)) == octetsOf("0a2001 00"))
  }

  typealias Form = LESetExtendedAdvertisingParameters.Form

  @Test(
    arguments: [
      (.legacy, .connectable, "1300"), (.legacy, .scannable, "1200"), (.legacy, .nonConnectable, "1000"),
      (.extended, .connectable, "0100"), (.extended, .scannable, "0200"),
      (.extended, .nonConnectable, "0000"),
    ] as [(Form, AdvertisingKind, String)])
  func writesParametersOfASet(_ form: Form, _ kind: AdvertisingKind, _ properties: String) {
    let command = LESetExtendedAdvertisingParameters(
      set, form: form, kind: kind, interval: .fast, ownType: .random)
    #expect(
      packet(command)
        == octetsOf("362019 03 \(properties) 300000 600000 07 01 00 000000000000 00 7f 01 00 01 00 00"))
  }

  @Test func writesDataOfASet() {
    #expect(
      packet(LESetExtendedAdvertisingData(set, Self.data)) == octetsOf("37200d 03 03 01 09") + Self.data)
    #expect(
      packet(LESetExtendedScanResponseData(set, Self.data)) == octetsOf("38200d 03 03 01 09") + Self.data)
  }

  @Test func switchesSets() {
    #expect(packet(LESetExtendedAdvertisingEnable(.on, set)) == octetsOf("392006 01 01 03 0000 00"))
    #expect(packet(LESetExtendedAdvertisingEnable(.off, set)) == octetsOf("392006 00 01 03 0000 00"))
    #expect(packet(LESetExtendedAdvertisingEnable.allOff) == octetsOf("392002 00 00"))
    #expect(packet(LERemoveAdvertisingSet(set)) == octetsOf("3c2001 03"))
    #expect(packet(LEClearAdvertisingSets()) == octetsOf("3d2000"))
  }

  @Test func writesTheAddressOfASet() {
    let address = DeviceAddress(bits: 0xF0F1_F2F3_F4F5, type: .random)
    #expect(packet(LESetAdvertisingSetRandomAddress(set, address)) == octetsOf("352007 03 f5f4f3f2f1f0"))
  }

  /// 20 ms … 10.24 s. Core 5.4, Vol 4, Part E, 7.8.5.
  @Test func keepsIntervalsInTheirRange() {
    let interval = AdvertisingInterval(0...UInt16.max)
    #expect(interval.least == 0x20)
    #expect(interval.most == 0x4000)
  }

  @Test func readsTheEndOfASet() throws {
    let hex = "12 00 03 4000 07"
    let octets = octetsOf(hex)
    let end = try LEAdvertisingSetTerminated(validating: octets.span)
    #expect(end.status == .success)
    #expect(end.set == set)
    #expect(end.handle == ConnectionHandle(0x40))
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.truncated(.hciEvent, needed: octets.count, available: count)) {
        _ = try LEAdvertisingSetTerminated(validating: cut.span)
      }
    }
    let late = octetsOf("12 3c 03 0000 07")
    #expect(try LEAdvertisingSetTerminated(validating: late.span).status == HCIStatus(rawValue: 0x3C))
    let other = octetsOf("13 00 03 4000 07")
    #expect(throws: WireError(.hciEvent, offset: 0, .unexpectedOpcode(0x13))) {
      _ = try LEAdvertisingSetTerminated(validating: other.span)
    }
  }

  @Test func answersForAKey() throws {
    let handle = ConnectionHandle(0x40)
    let key: UInt128 = 0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100
    #expect(
      packet(LELongTermKeyRequestReply(handle, key: key))
        == octetsOf("1a2012 4000 000102030405060708090a0b0c0d0e0f"))
    #expect(packet(LELongTermKeyRequestNegativeReply(handle)) == octetsOf("1b2002 4000"))
    let octets = octetsOf("05 4000 0102030405060708 3412")
    let request = try LELongTermKeyRequest(validating: octets.span)
    #expect(request.handle == handle)
    #expect(request.random == 0x0807_0605_0403_0201)
    #expect(request.diversifier == 0x1234)
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.truncated(.hciEvent, needed: octets.count, available: count)) {
        _ = try LELongTermKeyRequest(validating: cut.span)
      }
    }
  }
}
