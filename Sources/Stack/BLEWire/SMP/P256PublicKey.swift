/// A coordinate of a point on the curve P-256: a 256-bit number.
public struct P256Coordinate: Hashable, Sendable, BitwiseCopyable {
  /// Most significant 128 bits: the first 32 digits in print, the last 16 bytes on air.
  public let high: UInt128
  public let low: UInt128

  @inlinable public init(high: UInt128, low: UInt128) {
    self.high = high
    self.low = low
  }
}

/// A Secure Connections public key. Core 5.4, Vol 3, Part H, 3.5.6.
public struct P256PublicKey: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 64

  public let x: P256Coordinate
  public let y: P256Coordinate

  @inlinable public init(x: P256Coordinate, y: P256Coordinate) {
    self.x = x
    self.y = y
  }

  /// The debug key, whose private key is published. Core 5.4, Vol 3, Part H, 2.3.5.6.1.
  public static let debug = P256PublicKey(
    x: P256Coordinate(
      high: 0x20B0_03D2_F297_BE2C_5E2C_83A7_E9F9_A5B9, low: 0xEFF4_9111_ACF4_FDDB_CC03_0148_0E35_9DE6),
    y: P256Coordinate(
      high: 0xDC80_9C49_652A_EB6D_6332_9ABF_5A52_155C, low: 0x7663_45C2_8FED_3024_741C_8ED0_1589_D28B))
}

extension Span where Element == UInt8 {
  /// Reads 32 bytes in transmission order.
  @inlinable func coordinate(at offset: Int) -> P256Coordinate {
    P256Coordinate(high: u128(at: offset + 16), low: u128(at: offset))
  }
}

extension OutputSpan where Element == UInt8 {
  @inlinable mutating func append(_ coordinate: P256Coordinate) {
    append(u128: coordinate.low)
    append(u128: coordinate.high)
  }
}
