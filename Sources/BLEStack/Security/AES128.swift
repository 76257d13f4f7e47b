/// AES-128 in one direction: all of the Security Manager is built on it, and nothing in it decrypts.
///
/// FIPS 197. Blocks and keys are numbers whose most significant octet is the first in print; on air Bluetooth sends the
/// least significant first. Look-ups in the S-box depend on the key: fit for a host's few blocks, not to hide a key
/// from another program on the same processor.
public struct AES128: Sendable {
  public static let blockByteCount = 16

  /// Eleven round keys of four columns.
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

  /// e of Core 5.4, Vol 3, Part H, 2.2.1.
  public func encrypt(_ block: UInt128) -> UInt128 {
    var state = block ^ roundKey(0)
    for round in 1...10 {
      let shifted = Self.shiftedAndSubstituted(state)
      state = (round == 10 ? shifted : Self.mixed(shifted)) ^ roundKey(round)
    }
    return state
  }

  private func roundKey(_ round: Int) -> UInt128 {
    var key: UInt128 = 0
    for column in 0..<4 { key = key << 32 | UInt128(schedule[4 * round + column]) }
    return key
  }

  // MARK: Steps of a round

  private static func octet(_ state: UInt128, _ index: Int) -> UInt8 {
    UInt8(truncatingIfNeeded: state >> UInt128(120 - 8 * index))
  }

  /// SubBytes and ShiftRows: row r of column c comes from column c + r. FIPS 197, 5.1.1 and 5.1.2.
  private static func shiftedAndSubstituted(_ state: UInt128) -> UInt128 {
    var result: UInt128 = 0
    for index in 0..<16 {
      let source = (index + 4 * (index % 4)) % 16
      result = result << 8 | UInt128(box[Int(octet(state, source))])
    }
    return result
  }

  /// MixColumns. FIPS 197, 5.1.3.
  private static func mixed(_ state: UInt128) -> UInt128 {
    var result: UInt128 = 0
    for column in 0..<4 {
      for row in 0..<4 {
        let a = octet(state, 4 * column + row)
        let b = octet(state, 4 * column + (row + 1) % 4)
        let c = octet(state, 4 * column + (row + 2) % 4)
        let d = octet(state, 4 * column + (row + 3) % 4)
        result = result << 8 | UInt128(doubled(a) ^ doubled(b) ^ b ^ c ^ d)
      }
    }
    return result
  }

  private static func substituted(_ word: UInt32) -> UInt32 {
    var result: UInt32 = 0
    for shift in [24, 16, 8, 0] as [UInt32] { result = result << 8 | UInt32(box[Int(word >> shift & 0xFF)]) }
    return result
  }

  /// Times x in GF(2⁸). FIPS 197, 4.2.1.
  private static func doubled(_ octet: UInt8) -> UInt8 { octet << 1 ^ (octet & 0x80 == 0 ? 0 : 0x1B) }

  /// The inverse in GF(2⁸), then the affine map. FIPS 197, 5.1.1.
  ///
  /// `power` goes through all numbers but 0 as powers of 3, `inverse` through those of 1/3.
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
