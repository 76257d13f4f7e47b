import BLEWire
import TestKit
import Testing

/// Bytes by BlueZ's `doc/mgmt-api.txt` and `include/net/bluetooth/mgmt.h` of Linux 6.1. In `SecurityTests`
/// the kernel accepts and sends them.
private enum Octets {
  static let device = "f8f4f3f2f1f0 02"
  static let key = "000102030405060708090a0b0c0d0e0f"
  /// Legacy, authenticated, our host as the central, 16 bytes, EDIV 0x3412, Rand 0x0807060504030201.
  static let legacyKey = "\(device) 01 01 10 1234 0102030405060708 \(key)"
  /// Secure Connections, unauthenticated.
  static let secureKey = "\(device) 02 00 10 0000 0000000000000000 \(key)"
}

private let device = DeviceAddress(bits: 0xF0F1_F2F3_F4F8, type: .random)
private let key: UInt128 = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100
private let legacyKey = ManagementLongTermKey(
  peer: device, kind: .authenticated, role: .central, keyByteCount: 16, diversifier: 0x3412,
  random: 0x0807_0605_0403_0201, key: key)
private let secureKey = ManagementLongTermKey(
  peer: device, kind: .unauthenticatedSecureConnections, role: .peripheral, keyByteCount: 16, diversifier: 0,
  random: 0, key: key)

@Suite struct ManagementSecurityCommandTests {
  private func expect<Command: ManagementCommand>(_ command: Command, _ opcode: UInt16, _ parameters: String)
  {
    let octets = [UInt8](encoding: command.parameterByteCount) { command.encodeParameters(into: &$0) }
    #expect(octets == octetsOf(parameters))
    #expect(Command.opcode.rawValue == opcode)
  }

  @Test func writesCommands() {
    expect(SetBondable(.on), 0x09, "01")
    expect(SetBondable(.off), 0x09, "00")
    expect(SetSecureConnections(.on), 0x2D, "01")
    expect(SetIOCapability(.keyboardDisplay), 0x18, "04")
    expect(PairDevice(device, .noInputNoOutput), 0x19, "\(Octets.device) 03")
    expect(CancelPairDevice(device), 0x1A, Octets.device)
    expect(UnpairDevice(device), 0x1B, "\(Octets.device) 00")
    expect(UserConfirmationReply(device), 0x1C, Octets.device)
    expect(UserConfirmationNegativeReply(device), 0x1D, Octets.device)
    expect(UserPasskeyReply(device, 999_999), 0x1E, "\(Octets.device) 3f420f00")
    expect(UserPasskeyNegativeReply(device), 0x1F, Octets.device)
  }

  @Test func writesKeys() {
    expect(LoadLongTermKeys([]), 0x13, "0000")
    expect(
      LoadLongTermKeys([legacyKey, secureKey]), 0x13, "0200 \(Octets.legacyKey) \(Octets.secureKey)")
    expect(LoadIdentityResolvingKeys([]), 0x30, "0000")
    expect(
      LoadIdentityResolvingKeys([ManagementDeviceKey(peer: device, key: key)]), 0x30,
      "0100 \(Octets.device) \(Octets.key)")
  }

  @Test func showsNoKey() {
    var text = ""
    dump(LoadLongTermKeys([legacyKey]), to: &text)
    dump(LoadIdentityResolvingKeys([ManagementDeviceKey(peer: device, key: key)]), to: &text)
    print(legacyKey, ManagementDeviceKey(peer: device, key: key), to: &text)
    #expect(!text.contains("\(key)"))
    #expect(text.contains("F0:F1:F2:F3:F4:F8"))
  }
}

@Suite struct ManagementSecurityEventTests {
  static let events: [(UInt16, String, ManagementSecurityEvent)] = [
    (0x0A, "01 \(Octets.legacyKey)", .longTermKey(legacyKey, .forGood)),
    (0x0A, "00 \(Octets.secureKey)", .longTermKey(secureKey, .forThisLink)),
    (
      0x18, "01 2a1b0c998877 \(Octets.device) \(Octets.key)",
      .identityKey(
        ManagementDeviceKey(peer: device, key: key),
        met: DeviceAddress(bits: 0x7788_990C_1B2A, type: .random), .forGood)
    ),
    (
      0x19, "01 \(Octets.device) 00 \(Octets.key)",
      .signingKey(ManagementDeviceKey(peer: device, key: key), of: .local, .forGood)
    ),
    (
      0x19, "00 \(Octets.device) 03 \(Octets.key)",
      .signingKey(ManagementDeviceKey(peer: device, key: key), of: .peer, .forThisLink)
    ),
    (0x0F, "\(Octets.device) 00 3f420f00", .compare(device, 999_999)),
    (0x0F, "\(Octets.device) 01 00000000", .permit(device)),
    (0x10, Octets.device, .askPasskey(device)),
    (0x17, "\(Octets.device) 3f420f00 02", .showPasskey(device, 999_999, typed: 2)),
    (0x11, "\(Octets.device) 05", .failed(device, .authenticationFailed)),
  ]

  private func event(_ code: UInt16, _ octets: [UInt8]) throws -> ManagementSecurityEvent? {
    try ManagementSecurityEvent(ManagementEventCode(rawValue: code), octets.span)
  }

  @Test(arguments: events.indices) func readsEvents(_ index: Int) throws {
    let (code, hex, expected) = Self.events[index]
    let octets = octetsOf(hex)
    #expect(try event(code, octets) == expected)
    for count in octets.indices {
      #expect(throws: WireError.truncated(.management, needed: octets.count, available: count)) {
        _ = try event(code, Array(octets[..<count]))
      }
    }
  }

  /// BR/EDR events are ignored, and so are other events.
  @Test func leavesOutWhatIsOthers() throws {
    for (code, hex, _) in Self.events where code != 0x18 {
      var octets = octetsOf(hex)
      let offset = octets[0] == 0xF8 ? 6 : 7
      octets[offset] = 0
      #expect(try event(code, octets) == nil)
    }
    #expect(try event(0x13, [6, 1]) == nil)
  }

  @Test func keepsUnknownKinds() throws {
    var octets = octetsOf("01 \(Octets.secureKey)")
    octets[8] = 9
    guard case .longTermKey(let key, _) = try event(0x0A, octets) else { throw CancellationError() }
    #expect(key.kind.rawValue == 9)
  }
}
