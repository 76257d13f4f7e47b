/// An attribute type or service identifier. A 16-bit UUID equals its 128-bit form.
///
/// Core 5.4, Vol 3, Part B, 2.5.1.
public struct BluetoothUUID: Hashable, Sendable, BitwiseCopyable {
  /// Most significant 64 bits: the first 16 digits in print, the last 8 bytes on air.
  public let high: UInt64
  /// Least significant 64 bits: the last 16 digits in print, the first 8 bytes on air.
  public let low: UInt64

  @inlinable public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Creates a UUID assigned by the SIG: `0000xxxx-0000-1000-8000-00805f9b34fb`.
  @inlinable public init(_ short: UInt16) { self.init(short32: UInt32(short)) }

  /// Creates a UUID assigned by the SIG, in the rarely used 32-bit form.
  @inlinable public init(short32: UInt32) {
    self.init(high: UInt64(short32) << 32 | 0x0000_1000, low: 0x8000_0080_5F9B_34FB)
  }

  /// The 16-bit form; `nil` if it does not exist.
  @inlinable public var short: UInt16? {
    guard low == 0x8000_0080_5F9B_34FB, high & 0xFFFF_FFFF == 0x1000, high >> 48 == 0 else {
      return nil
    }
    return UInt16(truncatingIfNeeded: high >> 32)
  }

  /// Returns byte `index` of the 128-bit form in transmission order (little-endian).
  @inlinable public func octet(_ index: Int) -> UInt8 {
    UInt8(truncatingIfNeeded: index < 8 ? low >> (8 * UInt64(index)) : high >> (8 * UInt64(index - 8)))
  }

  /// Size on air in bytes: 2 if the 16-bit form exists, otherwise 16.
  @inlinable public var byteCount: Int { short == nil ? 16 : 2 }
}

#if !NO_ALLOCATIONS
  extension BluetoothUUID: CustomStringConvertible {
    /// Parses `180d`, `0000180d` or `0000180d-0000-1000-8000-00805f9b34fb`, in upper or lower case. The short
    /// forms may begin with `0x`.
    public init?(_ text: some StringProtocol) {
      var digits = String(text.lowercased())
      if digits.hasPrefix("0x"), digits.utf8.count <= 10 { digits.removeFirst(2) }
      guard
        digits.utf8.allSatisfy({
          UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0
            || UInt8(ascii: "a")...UInt8(ascii: "f") ~= $0 || $0 == UInt8(ascii: "-")
        })
      else { return nil }
      switch digits.utf8.count {
      case 4, 8:
        guard let short = UInt32(digits, radix: 16) else { return nil }
        self.init(short32: short)
      case 36:
        let groups = digits.split(separator: "-", omittingEmptySubsequences: false)
        let joined = groups.joined()
        guard groups.map({ $0.utf8.count }) == [8, 4, 4, 4, 12],
          let high = UInt64(joined.prefix(16), radix: 16),
          let low = UInt64(joined.suffix(16), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
      default: return nil
      }
    }

    /// The full form in lower case, `0000180d-0000-1000-8000-00805f9b34fb`.
    public var description: String {
      let digits = (0..<16).reversed().map { hexadecimal(octet($0)) }.joined()
      var text = ""
      for (index, digit) in digits.enumerated() {
        if index == 8 || index == 12 || index == 16 || index == 20 { text.append("-") }
        text.append(digit)
      }
      return text
    }
  }
#endif
