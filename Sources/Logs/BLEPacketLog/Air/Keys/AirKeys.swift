import BLEStack
import BLEWire

/// A key of 16 bytes from the user: a long-term key, or the temporary key of an out-of-band pairing.
public struct AirKey: Hashable, Sendable {
  let value: UInt128

  /// Parses 32 hexadecimal digits. A leading `0x`, and colons, spaces and hyphens between bytes, are ignored.
  public init?(_ text: String) {
    var digits = text[...]
    if digits.hasPrefix("0x") || digits.hasPrefix("0X") { digits = digits.dropFirst(2) }
    var value: UInt128 = 0
    var count = 0
    for character in digits where !": -".contains(character) {
      guard character.isASCII, let digit = character.hexDigitValue, count < 32 else { return nil }
      value = value << 4 | UInt128(digit)
      count += 1
    }
    guard count == 32 else { return nil }
    self.value = value
  }

  /// The key in both byte orders, because programs print keys in either order.
  var orders: [UInt128] { value == value.byteSwapped ? [value] : [value, value.byteSwapped] }
}

/// Long-term keys from the user and from the log.
struct AirKeyring {
  /// Maximum number of keys learned from a log.
  static let learnt = Limit(
    256, "keys learnt from an air log", by: .file, whenFull: "the oldest is dropped",
    counted: "`keysForgotten` of `log stats`")

  /// Identifier of a key in LL_ENC_REQ.
  private struct Name: Hashable {
    var random: UInt64
    var diversifier: UInt16
  }

  private let given: [UInt128]
  private var named: [(name: Name, key: UInt128)] = []
  private(set) var forgotten = 0
  private(set) var learntCount = 0

  init(_ given: [AirKey]) { self.given = given.flatMap(\.orders) }

  /// Whether the user passed a key.
  var isGiven: Bool { !given.isEmpty }

  /// Temporary keys to try in addition to passkeys.
  var temporaryKeys: [UInt128] { given }

  mutating func learn(_ key: UInt128, random: UInt64, diversifier: UInt16) {
    let name = Name(random: random, diversifier: diversifier)
    named.removeAll { $0.name == name }
    if named.count == Self.learnt.count {
      named.removeFirst()
      forgotten += 1
    }
    named.append((name, key))
    learntCount += 1
  }

  /// Returns the keys to try for a link, the likeliest key first.
  ///
  /// - Parameter shortTerm: short-term key of a pairing on the link.
  func candidates(for start: EncryptionStart, shortTerm: UInt128?) -> [UInt128] {
    let name = Name(random: start.random, diversifier: start.diversifier)
    return (shortTerm.map { [$0] } ?? []) + named.filter { $0.name == name }.map(\.key) + given
      + named.filter { $0.name != name }.reversed().map(\.key)
  }
}

/// Encryption of one link: AES-CCM with a message integrity check of four bytes. Core 5.4, Vol 6, Part E, 2.
struct AirCipher {
  static let checkByteCount = 4

  private let cipher: AES128
  private let vector: UInt64

  /// Creates a cipher from a session key.
  ///
  /// - Parameters:
  ///   - key: session key, most significant byte first.
  ///   - vector: IV, as a number whose least significant byte is sent first.
  init(sessionKey key: UInt128, vector: UInt64) {
    cipher = AES128(key: key)
    self.vector = vector
  }

  /// Derives the session key from a long-term key. Core 5.4, Vol 6, Part B, 5.1.3.1.
  init(longTermKey: UInt128, diversifier: UInt128, vector: UInt64) {
    self.init(sessionKey: AES128(key: longTermKey).encrypt(diversifier), vector: vector)
  }

  /// Decrypts a payload that ends with the integrity check.
  ///
  /// - Parameters:
  ///   - payload: the encrypted payload; must be longer than the check.
  ///   - header: first byte of the PDU.
  ///   - counter: packet counter of the direction.
  ///   - isFromCentral: direction of the packet.
  ///   - output: receives the decrypted payload if the check is valid.
  /// - Returns: whether the check is valid.
  func decrypt(
    _ payload: Span<UInt8>, header: UInt8, counter: UInt64, isFromCentral: Bool, into output: inout [UInt8]
  ) -> Bool {
    let byteCount = payload.count - Self.checkByteCount
    guard byteCount > 0 else { return false }
    output.removeAll(keepingCapacity: true)
    let nonce = nonce(counter, isFromCentral: isFromCentral)
    var code = cipher.encrypt(0x49 << 120 | nonce << 16 | UInt128(byteCount))
    // Sequence numbers and More Data are masked, because they change in a retransmission.
    code = cipher.encrypt(code ^ (0x0001 << 112 | UInt128(header & 0xE3) << 104))
    var start = 0
    var index: UInt128 = 1
    while start < byteCount {
      let end = min(start + 16, byteCount)
      let key = cipher.encrypt(0x01 << 120 | nonce << 16 | index)
      var block: UInt128 = 0
      for offset in start..<end {
        let shift = UInt128(120 - 8 * (offset - start))
        let octet = payload[offset] ^ UInt8(truncatingIfNeeded: key >> shift)
        block |= UInt128(octet) << shift
        output.append(octet)
      }
      code = cipher.encrypt(code ^ block)
      start = end
      index += 1
    }
    let check = UInt32(truncatingIfNeeded: (code ^ cipher.encrypt(0x01 << 120 | nonce << 16)) >> 96)
    return check.byteSwapped == payload.u32(at: byteCount)
  }

  /// Makes the nonce of 13 bytes: a 39-bit counter with the direction, then the vector, each with the least
  /// significant byte first.
  private func nonce(_ counter: UInt64, isFromCentral: Bool) -> UInt128 {
    let first = counter & 0x7F_FFFF_FFFF | (isFromCentral ? 1 << 39 : 0)
    return UInt128(first.byteSwapped >> 24) << 64 | UInt128(vector.byteSwapped)
  }
}

/// Values that both sides exchange before encryption starts. Core 5.4, Vol 6, Part B, 2.4.2.4 and 2.4.2.5.
struct EncryptionStart: Hashable {
  let random: UInt64
  let diversifier: UInt16
  private let centralKeyDiversifier: UInt64
  private let centralVector: UInt32
  private var peripheralKeyDiversifier: UInt64 = 0
  private var peripheralVector: UInt32 = 0
  private(set) var isAnswered = false

  /// Reads a request; `nil` if its length is wrong.
  ///
  /// - Parameter request: LL_ENC_REQ, starting with its opcode.
  init?(request: Span<UInt8>) {
    guard request.count == 23 else { return nil }
    random = request.u64(at: 1)
    diversifier = request.u16(at: 9)
    centralKeyDiversifier = request.u64(at: 11)
    centralVector = request.u32(at: 19)
  }

  /// Adds the values of the response.
  ///
  /// - Parameter response: LL_ENC_RSP, starting with its opcode.
  mutating func take(response: Span<UInt8>) {
    guard response.count == 13 else { return }
    peripheralKeyDiversifier = response.u64(at: 1)
    peripheralVector = response.u32(at: 9)
    isAnswered = true
  }

  func cipher(_ longTermKey: UInt128) -> AirCipher {
    AirCipher(
      longTermKey: longTermKey,
      diversifier: UInt128(peripheralKeyDiversifier) << 64 | UInt128(centralKeyDiversifier),
      vector: UInt64(peripheralVector) << 32 | UInt64(centralVector))
  }
}
