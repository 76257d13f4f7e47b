/// Type of a device address.
///
/// Core 5.4, Vol 6, Part B, 1.3. The raw value is the address type in HCI commands and events. The kernel's
/// L2CAP sockets count from 1 instead (`BDADDR_LE_PUBLIC`).
public enum AddressType: UInt8, Hashable, Sendable, BitwiseCopyable {
  /// An IEEE 802 EUI-48 assigned by the manufacturer.
  case `public` = 0
  /// Any random address: static, resolvable private or non-resolvable private.
  case random = 1

  /// `public` or `random`, as on the command line and in JSON.
  public var name: StaticString {
    switch self {
    case .public: "public"
    case .random: "random"
    }
  }
}

/// A 48-bit device address with its type; `AA:BB:CC:DD:EE:FF` in print, little-endian on air.
public struct DeviceAddress: Hashable, Sendable, BitwiseCopyable {
  /// The address as a number. The first printed byte is the most significant of 48 bits.
  public let bits: UInt64
  public let type: AddressType

  /// Creates an address.
  ///
  /// - Parameters:
  ///   - bits: the address in its low 48 bits; higher bits are ignored.
  ///   - type: public or random.
  @inlinable public init(bits: UInt64, type: AddressType) {
    self.bits = bits & 0xFFFF_FFFF_FFFF
    self.type = type
  }

  /// `00:00:00:00:00:00`, the kernel's `BDADDR_ANY`.
  public static let any = DeviceAddress(bits: 0, type: .public)

  /// Returns byte `index` in transmission order: byte 0 is the least significant.
  @inlinable public func octet(_ index: Int) -> UInt8 {
    UInt8(truncatingIfNeeded: bits >> (8 * UInt64(index)))
  }

  /// Returns the same 48-bit address with another address type.
  @inlinable public func with(type: AddressType) -> DeviceAddress {
    DeviceAddress(bits: bits, type: type)
  }
}

#if !NO_ALLOCATIONS
  extension DeviceAddress: CustomStringConvertible {
    /// Parses `AA:BB:CC:DD:EE:FF`, in upper or lower case.
    ///
    /// - Returns: `nil` unless the text consists of six colon-separated bytes of two hexadecimal digits.
    public init?(_ text: some StringProtocol, type: AddressType = .public) {
      let parts = text.split(separator: ":", omittingEmptySubsequences: false)
      guard parts.count == 6 else { return nil }
      var bits: UInt64 = 0
      for part in parts {
        guard part.utf8.count == 2, part.first?.isHexDigit == true,
          let octet = UInt8(part, radix: 16)
        else { return nil }
        bits = bits << 8 | UInt64(octet)
      }
      self.init(bits: bits, type: type)
    }

    public var description: String {
      (0..<6).reversed().map { hexadecimal(octet($0)).uppercased() }.joined(separator: ":")
    }
  }

  /// Returns a byte as two lower-case hexadecimal digits.
  package func hexadecimal(_ octet: UInt8) -> String {
    let digits = String(octet, radix: 16)
    return octet < 16 ? "0" + digits : digits
  }
#endif
