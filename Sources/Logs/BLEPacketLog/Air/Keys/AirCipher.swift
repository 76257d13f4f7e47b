import BLEStack
import BLEWire

/// The encryption of one link: AES-CCM with a check of four octets. Core 5.4, Vol 6, Part E, 2.
struct AirCipher {
  static let checkByteCount = 4

  private let cipher: AES128
  private let vector: UInt64

  /// - Parameters:
  ///   - key: of the session, its most significant octet first.
  ///   - vector: IV, as the number whose least significant octet is sent first.
  init(sessionKey key: UInt128, vector: UInt64) {
    cipher = AES128(key: key)
    self.vector = vector
  }

  /// The session of a long-term key. Core 5.4, Vol 6, Part B, 5.1.3.1.
  init(longTermKey: UInt128, diversifier: UInt128, vector: UInt64) {
    self.init(sessionKey: AES128(key: longTermKey).encrypt(diversifier), vector: vector)
  }

  /// Decrypts a payload whose last four octets are its check.
  ///
  /// - Parameters:
  ///   - payload: longer than the check.
  ///   - header: the first octet of the PDU.
  ///   - counter: of the packets of that direction.
  ///   - isFromCentral: the direction.
  ///   - output: gets what was encrypted, where the check holds.
  /// - Returns: whether it holds.
  func decrypt(
    _ payload: Span<UInt8>, header: UInt8, counter: UInt64, isFromCentral: Bool, into output: inout [UInt8]
  ) -> Bool {
    let byteCount = payload.count - Self.checkByteCount
    guard byteCount > 0 else { return false }
    output.removeAll(keepingCapacity: true)
    let nonce = nonce(counter, isFromCentral: isFromCentral)
    var code = cipher.encrypt(0x49 << 120 | nonce << 16 | UInt128(byteCount))
    // Sequence numbers and More Data change when a packet is sent again.
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

  /// Counter of 39 bits and direction, then the vector, each with its least significant octet first: 13 octets.
  private func nonce(_ counter: UInt64, isFromCentral: Bool) -> UInt128 {
    let first = counter & 0x7F_FFFF_FFFF | (isFromCentral ? 1 << 39 : 0)
    return UInt128(first.byteSwapped >> 24) << 64 | UInt128(vector.byteSwapped)
  }
}

/// What both sides of a link say before it is encrypted. Core 5.4, Vol 6, Part B, 2.4.2.4 and 2.4.2.5.
struct EncryptionStart: Hashable {
  let random: UInt64
  let diversifier: UInt16
  private let centralKeyDiversifier: UInt64
  private let centralVector: UInt32
  private var peripheralKeyDiversifier: UInt64 = 0
  private var peripheralVector: UInt32 = 0
  private(set) var isAnswered = false

  /// - Parameter request: LL_ENC_REQ from its opcode on.
  init?(request: Span<UInt8>) {
    guard request.count == 23 else { return nil }
    random = request.u64(at: 1)
    diversifier = request.u16(at: 9)
    centralKeyDiversifier = request.u64(at: 11)
    centralVector = request.u32(at: 19)
  }

  /// - Parameter response: LL_ENC_RSP from its opcode on.
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
