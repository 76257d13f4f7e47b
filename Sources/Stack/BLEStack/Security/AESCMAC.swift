import BLEWire

/// AES-CMAC with a 128-bit key: computes the authentication code of a message. RFC 4493; Core 5.4, Vol 3,
/// Part H, 2.2.5.
public struct AESCMAC: Sendable {
  private let cipher: AES128

  public init(key: UInt128) { cipher = AES128(key: key) }

  /// Returns the authentication code, whose most significant byte is the first in print.
  public func code(_ message: Span<UInt8>) -> UInt128 {
    // The last block is complete, or padded with a one bit and zeros. For an empty message it is padding
    // only.
    let lastStart = message.isEmpty ? 0 : (message.count - 1) / 16 * 16
    var state: UInt128 = 0
    var offset = 0
    while offset < lastStart {
      state = cipher.encrypt(state ^ Self.block(message, offset, 16))
      offset += 16
    }
    let byteCount = message.count - lastStart
    let subkey = Self.doubled(cipher.encrypt(0))
    var last = Self.block(message, lastStart, byteCount)
    if byteCount == 16 {
      last ^= subkey
    } else {
      last ^= (1 as UInt128) << UInt128(127 - 8 * byteCount) ^ Self.doubled(subkey)
    }
    return cipher.encrypt(state ^ last)
  }

  /// Returns the authentication code of a message of at most `capacity` bytes that `write` produces.
  package static func code(
    key: UInt128, capacity: Int, _ write: (inout OutputSpan<UInt8>) -> Void
  ) -> UInt128 {
    let message = [UInt8](encoding: capacity, write)
    return AESCMAC(key: key).code(message.span)
  }

  /// Returns the bytes from `offset` on as the most significant bytes of a block.
  private static func block(_ message: Span<UInt8>, _ offset: Int, _ byteCount: Int) -> UInt128 {
    var block: UInt128 = 0
    for index in 0..<byteCount { block |= UInt128(message[offset + index]) << UInt128(120 - 8 * index) }
    return block
  }

  /// Multiplication by x in GF(2¹²⁸), which derives the subkeys. RFC 4493, 2.3.
  private static func doubled(_ block: UInt128) -> UInt128 { block << 1 ^ (block >> 127 == 0 ? 0 : 0x87) }
}
