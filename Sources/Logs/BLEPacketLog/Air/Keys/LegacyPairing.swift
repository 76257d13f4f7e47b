import BLEStack
import BLEWire

/// Follows a pairing, and finds the short-term key of a legacy pairing.
///
/// The confirm value shows whether a temporary key is correct, and there are only a million passkeys. Core
/// 5.4, Vol 3, Part H, 2.3.5.
struct LegacyPairing {
  /// Result of the pairing.
  enum Outcome: Hashable {
    /// There was no pairing, or the pairing has not ended.
    case none
    /// The pairing used LE Secure Connections, whose key cannot be derived from a capture.
    case secureConnections
    /// The temporary key is not among the keys that were tried.
    case unknownTemporaryKey
    case shortTermKey
  }

  private(set) var outcome = Outcome.none
  private(set) var shortTermKey: UInt128?
  /// The passkey that matched; 0 for Just Works.
  private(set) var passkey: UInt128?

  private var request: UInt64?
  private var response: UInt64?
  private var confirm: (central: UInt128?, peripheral: UInt128?)
  private var random: (central: UInt128?, peripheral: UInt128?)
  private var longTermKey: (central: UInt128?, peripheral: UInt128?)

  /// Handles a PDU of the Security Manager.
  ///
  /// - Parameters:
  ///   - pdu: the PDU, starting with its code.
  ///   - isFromCentral: whether the central sent it.
  ///   - link: addresses of both sides; `nil` if the log does not contain the start of the connection.
  ///   - keyring: receives the keys that the devices distribute.
  ///   - searches: number of passkey searches that are still allowed.
  mutating func take(
    _ pdu: Span<UInt8>, isFromCentral: Bool, link: (central: DeviceAddress, peripheral: DeviceAddress)?,
    keyring: inout AirKeyring, searches: inout Int
  ) {
    guard !pdu.isEmpty else { return }
    switch (pdu[0], pdu.count) {
    case (0x01, 7):
      self = LegacyPairing()
      request = Self.number(pdu)
    case (0x02, 7):
      response = Self.number(pdu)
      if let request, let response, request >> 24 & response >> 24 & 0x08 != 0 {
        outcome = .secureConnections
      }
    case (0x03, 17):
      if isFromCentral { confirm.central = pdu.u128(at: 1) } else { confirm.peripheral = pdu.u128(at: 1) }
    case (0x04, 17):
      if isFromCentral {
        random.central = pdu.u128(at: 1)
      } else {
        random.peripheral = pdu.u128(at: 1)
        if let link { findKey(link.central, link.peripheral, keyring.temporaryKeys, &searches) }
      }
    case (0x06, 17):
      if isFromCentral {
        longTermKey.central = pdu.u128(at: 1)
      } else {
        longTermKey.peripheral = pdu.u128(at: 1)
      }
    case (0x07, 11):
      guard let key = isFromCentral ? longTermKey.central : longTermKey.peripheral else { return }
      keyring.learn(key, random: pdu.u64(at: 3), diversifier: pdu.u16(at: 1))
    default: break
    }
  }

  private static func number(_ pdu: Span<UInt8>) -> UInt64 {
    UInt64(pdu.u32(at: 0)) | UInt64(pdu.u24(at: 4)) << 32
  }

  private mutating func findKey(
    _ central: DeviceAddress, _ peripheral: DeviceAddress, _ given: [UInt128], _ searches: inout Int
  ) {
    guard outcome != .secureConnections, let request, let response, let mine = random.central,
      let theirs = random.peripheral
    else { return }
    let context = SecurityToolbox.LegacyContext(
      request: request, response: response, initiator: central, responder: peripheral)
    let proof: (random: UInt128, confirm: UInt128)
    if let confirm = confirm.central {
      proof = (mine, confirm)
    } else if let confirm = confirm.peripheral {
      proof = (theirs, confirm)
    } else {
      return
    }
    func confirms(_ key: UInt128) -> Bool { SecurityToolbox.c1(key, proof.random, context) == proof.confirm }
    var found = ([0] + given).first(where: confirms)
    if found == nil, searches > 0 {
      searches -= 1
      found = (1...999_999).lazy.map { UInt128($0) }.first(where: confirms)
    }
    guard let found else {
      outcome = .unknownTemporaryKey
      return
    }
    // The key has the smaller of both maximum key sizes; its most significant bytes become 0. Core 5.4, Vol
    // 3, Part H, 2.3.4.
    let byteCount = min(max(min(request >> 32 & 0xFF, response >> 32 & 0xFF), 7), 16)
    let mask = byteCount == 16 ? UInt128.max : (1 << UInt128(8 * byteCount)) - 1
    shortTermKey = SecurityToolbox.s1(found, theirs, mine) & mask
    passkey = found
    outcome = .shortTermKey
  }
}
