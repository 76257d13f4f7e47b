import BLEWire

/// AES-128 encryption. The Security Manager needs only this cipher, and no decryption.
///
/// FIPS 197. Blocks and keys are numbers whose most significant byte is the first in print; Bluetooth sends
/// the least significant byte first. The S-box lookups depend on the key: acceptable for the few blocks of a
/// host, but not protected against timing attacks by another program on the same processor.
public struct AES128: Sendable {
  public static let blockByteCount = 16

  /// Eleven round keys of four columns each.
  private let schedule: [UInt32]

  public init(key: UInt128) {
    var words: [UInt32] = (0..<4).map { UInt32(truncatingIfNeeded: key >> (96 - 32 * $0)) }
    var constant: UInt8 = 1
    for index in 4..<44 {
      var word = words[index - 1]
      if index.isMultiple(of: 4) {
        word = Self.substituted(word << 8 | word >> 24) ^ UInt32(constant) << 24
        constant = Self.doubled(constant)
      }
      words.append(words[index - 4] ^ word)
    }
    schedule = words
  }

  /// Encrypts a block: function e of Core 5.4, Vol 3, Part H, 2.2.1.
  public func encrypt(_ block: UInt128) -> UInt128 {
    let (schedule, mixed) = (schedule.span, Self.mixed.span)
    var a = UInt32(truncatingIfNeeded: block >> 96) ^ schedule[0]
    var b = UInt32(truncatingIfNeeded: block >> 64) ^ schedule[1]
    var c = UInt32(truncatingIfNeeded: block >> 32) ^ schedule[2]
    var d = UInt32(truncatingIfNeeded: block) ^ schedule[3]
    for round in 1..<10 {
      let w = Self.column(a, b, c, d, mixed) ^ schedule[4 * round]
      let x = Self.column(b, c, d, a, mixed) ^ schedule[4 * round + 1]
      let y = Self.column(c, d, a, b, mixed) ^ schedule[4 * round + 2]
      let z = Self.column(d, a, b, c, mixed) ^ schedule[4 * round + 3]
      (a, b, c, d) = (w, x, y, z)
    }
    let box = Self.box.span
    let w = Self.lastColumn(a, b, c, d, box) ^ schedule[40]
    let x = Self.lastColumn(b, c, d, a, box) ^ schedule[41]
    let y = Self.lastColumn(c, d, a, b, box) ^ schedule[42]
    let z = Self.lastColumn(d, a, b, c, box) ^ schedule[43]
    return UInt128(w) << 96 | UInt128(x) << 64 | UInt128(y) << 32 | UInt128(z)
  }

  // MARK: Steps of a round

  /// Applies SubBytes, ShiftRows and MixColumns to one column. Row r comes from the column r places ahead.
  /// FIPS 197, 5.1.1 to 5.1.3.
  @inline(__always)
  private static func column(
    _ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: UInt32, _ mixed: Span<UInt32>
  ) -> UInt32 {
    let (first, second) = (mixed[Int(a >> 24)], mixed[Int(b >> 16 & 0xFF)])
    let (third, fourth) = (mixed[Int(c >> 8 & 0xFF)], mixed[Int(d & 0xFF)])
    return first ^ (second >> 8 | second << 24) ^ (third >> 16 | third << 16) ^ (fourth >> 24 | fourth << 8)
  }

  /// Applies SubBytes and ShiftRows to one column of the last round, which has no MixColumns.
  @inline(__always)
  private static func lastColumn(
    _ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: UInt32, _ box: Span<UInt8>
  ) -> UInt32 {
    UInt32(box[Int(a >> 24)]) << 24 | UInt32(box[Int(b >> 16 & 0xFF)]) << 16
      | UInt32(box[Int(c >> 8 & 0xFF)]) << 8 | UInt32(box[Int(d & 0xFF)])
  }

  /// Contribution of a byte in the first row to its column, after SubBytes and MixColumns: 2, 1, 1 and 3
  /// times the value. FIPS 197, 5.1.3.
  private static let mixed: [UInt32] = box.map { octet in
    let double = doubled(octet)
    return UInt32(double) << 24 | UInt32(octet) << 16 | UInt32(octet) << 8 | UInt32(double ^ octet)
  }

  private static func substituted(_ word: UInt32) -> UInt32 {
    var result: UInt32 = 0
    for shift in [24, 16, 8, 0] as [UInt32] { result = result << 8 | UInt32(box[Int(word >> shift & 0xFF)]) }
    return result
  }

  /// Multiplies a byte by x in GF(2⁸). FIPS 197, 4.2.1.
  private static func doubled(_ octet: UInt8) -> UInt8 { octet << 1 ^ (octet & 0x80 == 0 ? 0 : 0x1B) }

  /// The S-box: the inverse in GF(2⁸), then the affine map. FIPS 197, 5.1.1.
  ///
  /// `power` runs through all nonzero values as powers of 3, `inverse` through the powers of 1/3.
  private static let box: [UInt8] = {
    var box = [UInt8](repeating: 0x63, count: 256)
    var (power, inverse): (UInt8, UInt8) = (1, 1)
    repeat {
      power ^= doubled(power)
      inverse ^= inverse << 1
      inverse ^= inverse << 2
      inverse ^= inverse << 4
      if inverse & 0x80 != 0 { inverse ^= 0x09 }
      var value = inverse
      for turn in 1...4 as ClosedRange<UInt8> { value ^= inverse << turn | inverse >> (8 - turn) }
      box[Int(power)] = value ^ 0x63
    } while power != 1
    return box
  }()
}

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

  /// Multiplies a block by x in GF(2¹²⁸), to derive the subkeys. RFC 4493, 2.3.
  private static func doubled(_ block: UInt128) -> UInt128 { block << 1 ^ (block >> 127 == 0 ? 0 : 0x87) }
}
