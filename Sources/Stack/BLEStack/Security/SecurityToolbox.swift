public import BLEWire

/// The functions that compute the values and keys of a pairing. Core 5.4, Vol 3, Part H, 2.2.
///
/// Numbers are in the byte order in which the specification prints them, most significant first.
public enum SecurityToolbox {
  /// Computes the hash part of a resolvable private address from its random part (prand). Both parts have 24
  /// bits. Core 5.4, Vol 3, Part H, 2.2.2.
  public static func ah(_ key: UInt128, _ prand: UInt32) -> UInt32 {
    UInt32(truncatingIfNeeded: AES128(key: key).encrypt(UInt128(prand & 0xFF_FFFF)) & 0xFF_FFFF)
  }

  /// The addresses and feature PDUs that a legacy confirm value covers.
  public struct LegacyContext: Hashable, Sendable {
    /// The Pairing Request as sent on air: a number of seven bytes, with the code as the least significant
    /// byte. `response` is the Pairing Response in the same format.
    public var request: UInt64
    public var response: UInt64
    public var initiator: DeviceAddress
    public var responder: DeviceAddress

    public init(request: UInt64, response: UInt64, initiator: DeviceAddress, responder: DeviceAddress) {
      self.request = request
      self.response = response
      self.initiator = initiator
      self.responder = responder
    }
  }

  /// Returns the confirm value of a legacy pairing. Core 5.4, Vol 3, Part H, 2.2.3.
  public static func c1(_ key: UInt128, _ random: UInt128, _ context: LegacyContext) -> UInt128 {
    let cipher = AES128(key: key)
    let types = UInt128(context.responder.type.rawValue) << 8 | UInt128(context.initiator.type.rawValue)
    let p1 = UInt128(context.response) << 72 | UInt128(context.request) << 16 | types
    let p2 = UInt128(context.initiator.bits) << 48 | UInt128(context.responder.bits)
    return cipher.encrypt(cipher.encrypt(random ^ p1) ^ p2)
  }

  /// Returns the short-term key of a legacy pairing. Core 5.4, Vol 3, Part H, 2.2.4.
  ///
  /// - Parameters:
  ///   - key: the temporary key.
  ///   - responderRandom: its low half becomes the high half of the input.
  ///   - initiatorRandom: its low half becomes the low half of the input.
  public static func s1(_ key: UInt128, _ responderRandom: UInt128, _ initiatorRandom: UInt128) -> UInt128 {
    let low = UInt128(UInt64.max)
    return AES128(key: key).encrypt((responderRandom & low) << 64 | initiatorRandom & low)
  }

  /// Returns the confirm value of Secure Connections. Core 5.4, Vol 3, Part H, 2.2.6.
  public static func f4(_ u: P256Coordinate, _ v: P256Coordinate, _ x: UInt128, _ z: UInt8) -> UInt128 {
    AESCMAC.code(key: x, capacity: 65) {
      $0.append(BE: u)
      $0.append(BE: v)
      $0.append(z)
    }
  }

  /// Returns the MacKey and long-term key of Secure Connections. Core 5.4, Vol 3, Part H, 2.2.7.
  public static func f5(
    _ w: P256Coordinate, _ n1: UInt128, _ n2: UInt128, _ a1: DeviceAddress, _ a2: DeviceAddress
  ) -> (macKey: UInt128, longTermKey: UInt128) {
    let salt: UInt128 = 0x6C88_8391_AAF5_A538_6037_0BDB_5A60_83BE
    let key = AESCMAC.code(key: salt, capacity: 32) { $0.append(BE: w) }
    func derived(_ counter: UInt8) -> UInt128 {
      AESCMAC.code(key: key, capacity: 53) {
        $0.append(counter)
        $0.append(u32BE: 0x6274_6C65)  // "btle"
        $0.append(BE: n1)
        $0.append(BE: n2)
        $0.append(BE: a1)
        $0.append(BE: a2)
        $0.append(u16BE: 256)  // bits of the key
      }
    }
    return (derived(0), derived(1))
  }

  /// Returns the check value of Secure Connections. Core 5.4, Vol 3, Part H, 2.2.8.
  ///
  /// - Parameters:
  ///   - w: the MacKey.
  ///   - n1: random number of the side that sends the check.
  ///   - n2: random number of the other side.
  ///   - r: the passkey or out-of-band value; 0 for other methods.
  ///   - capability: AuthReq, OOB flag and IO capability, 24 bits in that order.
  ///   - a1: address of the side that sends the check.
  ///   - a2: address of the other side.
  public static func f6(
    _ w: UInt128, _ n1: UInt128, _ n2: UInt128, _ r: UInt128, capability: UInt32, _ a1: DeviceAddress,
    _ a2: DeviceAddress
  ) -> UInt128 {
    AESCMAC.code(key: w, capacity: 65) {
      $0.append(BE: n1)
      $0.append(BE: n2)
      $0.append(BE: r)
      $0.append(UInt8(truncatingIfNeeded: capability >> 16))
      $0.append(u16BE: UInt16(truncatingIfNeeded: capability))
      $0.append(BE: a1)
      $0.append(BE: a2)
    }
  }

  /// Returns the value for numeric comparison. Both sides show its last six decimal digits. Core 5.4, Vol 3,
  /// Part H, 2.2.9.
  public static func g2(_ u: P256Coordinate, _ v: P256Coordinate, _ x: UInt128, _ y: UInt128) -> UInt32 {
    UInt32(
      truncatingIfNeeded: AESCMAC.code(key: x, capacity: 80) {
        $0.append(BE: u)
        $0.append(BE: v)
        $0.append(BE: y)
      })
  }

  /// Converts a key to another type of key. Core 5.4, Vol 3, Part H, 2.2.10.
  public static func h6(_ w: UInt128, keyID: UInt32) -> UInt128 {
    AESCMAC.code(key: w, capacity: 4) { $0.append(u32BE: keyID) }
  }

  /// Converts a key to another type of key, with a salt. Core 5.4, Vol 3, Part H, 2.2.11.
  public static func h7(salt: UInt128, _ w: UInt128) -> UInt128 {
    AESCMAC.code(key: salt, capacity: 16) { $0.append(BE: w) }
  }

  /// Direction in which a key is converted for the other transport: a BR/EDR link key from a long-term key,
  /// or vice versa.
  ///
  /// Core 5.4, Vol 3, Part H, 2.4.2.4 and 2.4.2.5.
  public enum Conversion: Hashable, Sendable {
    case toLinkKey, toLongTermKey
  }

  /// Converts a key for the other transport.
  ///
  /// - Parameters:
  ///   - key: the key to convert.
  ///   - conversion: direction of the conversion.
  ///   - usesH7: whether both sides set CT2.
  public static func converted(_ key: UInt128, _ conversion: Conversion, usesH7: Bool) -> UInt128 {
    let (number, last): (UInt32, UInt32) =
      switch conversion {
      case .toLinkKey: (0x746D_7031, 0x6C65_6272)  // "tmp1", "lebr"
      case .toLongTermKey: (0x746D_7032, 0x6272_6C65)  // "tmp2", "brle"
      }
    let intermediate = usesH7 ? h7(salt: UInt128(number), key) : h6(key, keyID: number)
    return h6(intermediate, keyID: last)
  }

  /// Returns the signature of an ATT PDU: the upper half of the authentication code over PDU and counter in
  /// reversed byte order.
  ///
  /// Core 5.4, Vol 3, Part H, 2.4.5.
  public static func signature(of pdu: Span<UInt8>, counter: UInt32, key: UInt128) -> UInt64 {
    let code = AESCMAC.code(key: key, capacity: pdu.count + 4) {
      $0.append(u32BE: counter)
      for index in pdu.indices.reversed() { $0.append(pdu[index]) }
    }
    return UInt64(truncatingIfNeeded: code >> 64)
  }
}

extension OutputSpan where Element == UInt8 {
  fileprivate mutating func append(BE value: UInt128) {
    append(u64BE: UInt64(truncatingIfNeeded: value >> 64))
    append(u64BE: UInt64(truncatingIfNeeded: value))
  }

  fileprivate mutating func append(BE coordinate: P256Coordinate) {
    append(BE: coordinate.high)
    append(BE: coordinate.low)
  }

  /// Appends the address type byte, then the address. Core 5.4, Vol 3, Part H, 2.2.7.
  fileprivate mutating func append(BE address: DeviceAddress) {
    append(address.type.rawValue)
    for index in (0..<6).reversed() { append(address.octet(index)) }
  }
}
