/// Type of a random address, from its two most significant bits. Core 5.4, Vol 6, Part B, 1.3.2.
public enum RandomAddressKind: UInt8, Hashable, Sendable, BitwiseCopyable {
  case nonResolvablePrivate = 0b00
  case resolvablePrivate = 0b01
  case reserved = 0b10
  case `static` = 0b11

  /// Determines the type of a random address. Returns `nil` for a public address.
  public init?(_ address: DeviceAddress) {
    guard address.type == .random else { return nil }
    // `init(rawValue:)` never fails: every value of the two bits has a case.
    self.init(rawValue: UInt8(address.bits >> 46))
  }
}

extension DeviceAddress {
  private static let randomPart: UInt64 = 1 << 46 - 1

  /// Whether this can be an identity address: a public address other than 00:00:00:00:00:00 and
  /// FF:FF:FF:FF:FF:FF, or a static address whose random part is neither all zeros nor all ones. Core 5.4,
  /// Vol 6, Part B, 1.3.1 and 1.3.2.1.
  public var isValidIdentity: Bool {
    switch RandomAddressKind(self) {
    case nil: bits != 0 && bits != 0xFFFF_FFFF_FFFF
    case .static: bits & Self.randomPart != 0 && bits & Self.randomPart != Self.randomPart
    case .nonResolvablePrivate, .resolvablePrivate, .reserved: false
    }
  }

  /// Creates a static address, which a device keeps until power-off. Core 5.4, Vol 6, Part B, 1.3.2.1.
  ///
  /// - Parameter randomBits: the low 46 bits are used.
  /// - Returns: `nil` if the low 46 bits are all zeros or all ones, which is not allowed.
  public static func randomStatic(_ randomBits: UInt64) -> DeviceAddress? {
    random(.static, randomBits)
  }

  /// Creates a non-resolvable private address. Core 5.4, Vol 6, Part B, 1.3.2.2.
  ///
  /// - Parameters:
  ///   - randomBits: the low 46 bits are used.
  ///   - own: the device's public address; the result must differ from it.
  /// - Returns: `nil` if the low 46 bits are all zeros or all ones, or if the address equals `own`.
  public static func nonResolvablePrivate(
    _ randomBits: UInt64, differingFrom own: DeviceAddress = .any
  ) -> DeviceAddress? {
    guard let address = random(.nonResolvablePrivate, randomBits), address.bits != own.bits else {
      return nil
    }
    return address
  }

  private static func random(_ kind: RandomAddressKind, _ randomBits: UInt64) -> DeviceAddress? {
    let part = randomBits & randomPart
    guard part != 0, part != randomPart else { return nil }
    return DeviceAddress(bits: UInt64(kind.rawValue) << 46 | part, type: .random)
  }
}
