import BLECore
import BLEPacketLog
import BLEWire

/// How far the encryption of a connection is followed. Core 5.4, Vol 6, Part B, 5.1.3.
struct LinkEncryption {
  /// Counters that are tried for a packet after which others were missed.
  static let window = Limit(
    1_024, "encrypted packets in a row that a log of the air may miss on a link", by: .file,
    whenFull: "what comes after stays encrypted", counted: "`encrypted` of `log stats`")
  /// Tries of all keys.
  static let trials = Limit(
    4, "packets of a link that all keys are tried on", by: .file, whenFull: "the link stays encrypted",
    counted: "`encryption` of `log stats`")
  /// Where packets are encrypted with something else, nearly nothing is tried any more.
  private static let enoughFailures = 16
  private static let shortWindow: UInt64 = 16
  /// The first packets may be missed, but each costs a try of each key.
  private static let keyWindow: UInt64 = 32

  var start: EncryptionStart?
  var isOn = false
  /// The translated log was told so.
  var isTold = false
  var wasOn = false
  var cipher: AirCipher?
  private var failures = 0
  private var keyTrials = 0
  private var hadKeys = false
  var isBySniffer = false
  /// Packets were encrypted though nothing was seen that begins it.
  var isStartNotSeen = false

  /// Whether what is said on the link may not be known.
  var isClosed: Bool { isStartNotSeen || wasOn && cipher == nil && !isBySniffer }

  /// LL_ENC_REQ: from here on everything is anew.
  mutating func begin(_ start: EncryptionStart) {
    self = LinkEncryption(start: start, isTold: isTold, wasOn: wasOn)
  }

  init(start: EncryptionStart? = nil, isTold: Bool = false, wasOn: Bool = false) {
    self.start = start
    self.isTold = isTold
    self.wasOn = wasOn
  }

  func outcome(_ pairing: LegacyPairing) -> AirLinkReport.Encryption {
    if cipher != nil { return .decrypted }
    if isBySniffer { return .bySniffer }
    if isStartNotSeen || wasOn && start?.isAnswered != true { return .startNotSeen }
    guard wasOn else { return .none }
    if hadKeys { return .wrongKey }
    return pairing.outcome == .secureConnections ? .noKeyOfSecureConnections : .noKey
  }

  /// Decrypts a packet that was not sent before.
  ///
  /// - Parameters:
  ///   - counter: the least that the packet can have.
  ///   - keys: all that may be the link's.
  /// - Returns: the packet's counter, or `nil` where no key fits.
  mutating func decrypt(
    _ payload: Span<UInt8>, header: UInt8, isFromCentral: Bool, counter: UInt64,
    keys: (EncryptionStart) -> [UInt128],
    into output: inout [UInt8]
  ) -> UInt64? {
    guard payload.count > AirCipher.checkByteCount else { return nil }
    if let cipher {
      let window = failures < Self.enoughFailures ? UInt64(Self.window.count) : Self.shortWindow
      for counter in counter...(counter + window)
      where cipher.decrypt(
        payload, header: header, counter: counter, isFromCentral: isFromCentral, into: &output)
      {
        failures = 0
        return counter
      }
      failures += 1
      return nil
    }
    guard let start, start.isAnswered, keyTrials < Self.trials.count else { return nil }
    for key in keys(start) {
      hadKeys = true
      let cipher = start.cipher(key)
      for counter in counter...(counter + Self.keyWindow)
      where cipher.decrypt(
        payload, header: header, counter: counter, isFromCentral: isFromCentral, into: &output)
      {
        self.cipher = cipher
        return counter
      }
    }
    return nil
  }

  /// All keys were tried on a packet, either way round.
  mutating func countTrial() { if cipher == nil { keyTrials += 1 } }
}

extension AirConnection {
  /// Whether a packet is readable as it is.
  private enum Cover { case clear, encrypted }

  /// Tells what a packet that has a payload says, decrypted where it must and can be.
  ///
  /// - Parameters:
  ///   - isOpen: somebody has decrypted it.
  ///   - isTold: the file says who sent it.
  ///   - output: gets what was encrypted.
  /// - Returns: whether `output` has it.
  func open(
    _ header: UInt8, _ payload: Span<UInt8>, _ packet: inout AirPacket, isOpen: Bool, isTold: Bool,
    sequence: AirSide.Sequence, keyring: AirKeyring, into output: inout [UInt8]
  ) -> Bool {
    if isOpen {
      encryption.isBySniffer = true
      encryption.isOn = true
      encryption.wasOn = true
      packet.protection = .decrypted
      output.removeAll(keepingCapacity: true)
      output.append(copying: Self.withoutCheck(payload, header))
      return true
    }
    guard cover(header, payload) == .encrypted else { return false }
    packet.protection = .encrypted
    if packet.isRetransmission { return false }
    let sides =
      isTold
      ? [packet.direction == .fromCentral]
      : [packet.direction == .fromCentral, packet.direction != .fromCentral]
    for isFromCentral in sides {
      let expected = isFromCentral ? central.counter : peripheral.counter
      let found = encryption.decrypt(
        payload, header: header, isFromCentral: isFromCentral, counter: expected,
        keys: { keyring.candidates(for: $0, shortTerm: pairing.shortTermKey) }, into: &output)
      guard let found else { continue }
      packet.direction = isFromCentral ? .fromCentral : .fromPeripheral
      if !isTold { guess.learn(header, isFromCentral: isFromCentral) }
      let skipped = Int(found - expected)
      changeSide(isCentral: isFromCentral) { side in
        side.counter = found + 1
        side.countMissed(max(0, skipped - (sequence == .afterGap ? 1 : 0)))
        if skipped > 0 { side.isFrameBroken = true }
      }
      packet.protection = .decrypted
      return true
    }
    encryption.countTrial()
    return false
  }

  private func cover(_ header: UInt8, _ payload: Span<UInt8>) -> Cover {
    let opcode = header & 0x03 == 0x03 ? ControlOpcode(rawValue: payload[0]) : nil
    if encryption.isOn {
      switch (opcode, payload.count) {
      // What an encrypted link is left with, and entered again.
      case (.encryptionRequest, 23), (_, ...AirCipher.checkByteCount): return .clear
      default: return .encrypted
      }
    }
    if encryption.start?.isAnswered == true {
      switch (opcode, payload.count) {
      case (.startEncryptionRequest, 1), (.terminate, 2), (.reject, 2), (.rejectExtended, 3),
        (.encryptionResponse, 13),
        (.encryptionRequest, 23):
        return .clear
      default:
        turnOn()
        return .encrypted
      }
    }
    guard !Self.isPlausible(header, payload) else { return .clear }
    encryption.isStartNotSeen = true
    return .encrypted
  }

  /// Whether a packet of an encrypted link is in clear without doubt, and not what is left of a damaged one.
  func isReadable(_ header: UInt8, _ payload: Span<UInt8>) -> Bool {
    guard encryption.isOn || encryption.start?.isAnswered == true, !payload.isEmpty else { return false }
    switch header & 0x03 {
    case 0x03: return payload[0] < 0x20 && ControlOpcode.isPlausible(payload)
    case 0x02:
      return payload.count > L2CAPFrame.headerByteCount && (4...6).contains(payload.u16(at: 2))
        && payload.count == L2CAPFrame.headerByteCount + Int(payload.u16(at: 0))
    default: return false
    }
  }

  func turnOn() {
    guard !encryption.isOn else { return }
    encryption.isOn = true
    encryption.wasOn = true
    central.counter = 0
    peripheral.counter = 0
  }

  /// Whether a packet may be in clear: of a control PDU its length tells, of a frame its header.
  private static func isPlausible(_ header: UInt8, _ payload: Span<UInt8>) -> Bool {
    switch header & 0x03 {
    case 0x03: return ControlOpcode.isPlausible(payload)
    case 0x02:
      guard payload.count >= L2CAPFrame.headerByteCount else {
        return payload.count < AirCipher.checkByteCount
      }
      return payload.count - L2CAPFrame.headerByteCount <= Int(payload.u16(at: 0)) && payload.u16(at: 2) != 0
    default: return true
    }
  }

  /// A sniffer that decrypts may leave the check where it was.
  @_lifetime(copy payload)
  private static func withoutCheck(_ payload: Span<UInt8>, _ header: UInt8) -> Span<UInt8> {
    let rest = payload.count - AirCipher.checkByteCount
    guard rest > 0 else { return payload }
    let shorter = payload.extracting(first: rest)
    return !isPlausible(header, payload) && isPlausible(header, shorter) ? shorter : payload
  }
}
