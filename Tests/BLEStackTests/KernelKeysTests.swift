import BLEWire
import Testing

import BLEStack

/// The kernel's keys in the debugfs format of Linux 6.1.
@Suite struct KernelKeysTests {
  private static let longTerm = """
    f0:f1:f2:f3:f4:f8 (type 1) 0 0x03 16 0000 0000000000000000 faf95501ec909cf87abda848afbf9240
    00:aa:01:01:00:01 (type 0) 1 0x01 16 3412 0807060504030201 000102030405060708090a0b0c0d0e0f
    00:aa:01:01:00:01 (type 0) 1 0x02 7 0001 0000000000000002 00010203040506000000000000000000
    c1:02:03:04:05:06 (type 1) 0 0x00 16 0000 0000000000000000 000102030405060708090a0b0c0d0e0f

    """
  private static let identity = """
    f0:f1:f2:f3:f4:f8 (type 1) 0102030405060708090a0b0c0d0e0f10 00:00:00:00:00:00

    """
  private static let bumble = DeviceAddress(bits: 0xF0F1_F2F3_F4F8, type: .random)
  private static let other = DeviceAddress(bits: 0x00AA_0101_0001, type: .public)

  /// A short-term key cannot be loaded again.
  @Test func readsWhatTheKernelShows() {
    let keys = KernelKeys(longTerm: Self.longTerm, identity: Self.identity)
    #expect(keys.longTerm.count == 3)
    #expect(
      keys.longTerm.first
        == ManagementLongTermKey(
          peer: Self.bumble, kind: .unauthenticatedSecureConnections, role: .peripheral, keyByteCount: 16,
          diversifier: 0, random: 0, key: 0x4092_bfaf_48a8_bd7a_f89c_90ec_0155_f9fa))
    #expect(keys.longTerm.dropFirst().map(\.role) == [.central, .peripheral])
    #expect(keys.longTerm.dropFirst().map(\.kind) == [.authenticated, .authenticated])
    #expect(keys.longTerm.dropFirst().map(\.diversifier) == [0x3412, 1])
    #expect(keys.longTerm.dropFirst().map(\.random) == [0x0807_0605_0403_0201, 2])
    #expect(keys.longTerm.last?.keyByteCount == 7)
    #expect(
      keys.identity == [
        ManagementDeviceKey(peer: Self.bumble, key: 0x100f_0e0d_0c0b_0a09_0807_0605_0403_0201)
      ])
  }

  @Test func leavesOthersWhereABondIsAdded() {
    var keys = KernelKeys(longTerm: Self.longTerm, identity: Self.identity)
    let others = keys.longTerm.dropFirst()
    var bond = Bond(
      isAuthenticated: true, isSecureConnections: true, keyByteCount: 16, isBonded: true,
      peerKey: LongTermKey(key: 1), localKey: LongTermKey(key: 1))
    bond.peerIdentity = DeviceIdentity(resolvingKey: 2, address: Self.bumble)
    keys.add(StoredBond(device: Self.bumble, local: Self.other, bond: bond))
    #expect(keys.longTerm.dropLast() == others)
    #expect(keys.longTerm.last?.kind == .authenticatedSecureConnections)
    #expect(keys.longTerm.last?.key == 1)
    #expect(keys.identity == [ManagementDeviceKey(peer: Self.bumble, key: 2)])
  }

  /// A legacy pairing may leave a key for each role.
  @Test func givesBothKeysOfALegacyPairing() {
    var keys = KernelKeys()
    let bond = Bond(
      isAuthenticated: false, isSecureConnections: false, keyByteCount: 7, isBonded: true,
      peerKey: LongTermKey(key: 1, diversifier: 2, random: 3),
      localKey: LongTermKey(key: 4, diversifier: 5, random: 6))
    keys.add(StoredBond(device: Self.bumble, local: Self.other, bond: bond))
    #expect(keys.longTerm.map(\.role) == [.central, .peripheral])
    #expect(keys.longTerm.map(\.key) == [1, 4])
    #expect(keys.longTerm.map(\.kind) == [.unauthenticated, .unauthenticated])
    #expect(keys.identity == [])
  }
}
