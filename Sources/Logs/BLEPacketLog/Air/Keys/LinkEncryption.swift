import BLEWire

/// Encryption state of a followed connection. Core 5.4, Vol 6, Part B, 5.1.3.
struct LinkEncryption {
  /// Maximum number of packet counters to try after missed packets.
  static let window = Limit(
    1_024, "consecutive encrypted packets that an air log may miss on a link", by: .file,
    whenFull: "later packets stay encrypted", counted: "`encrypted` of `log stats`")
  /// Maximum number of packets on which all keys are tried.
  static let trials = Limit(
    4, "packets of a link on which all keys are tried", by: .file, whenFull: "the link stays encrypted",
    counted: "`encryption` of `log stats`")
  /// Number of failures after which only few counters are tried, because the packets are probably encrypted
  /// with another key.
  private static let enoughFailures = 16
  private static let shortWindow: UInt64 = 16
  /// Number of counters to try for the first packets, because packets may have been missed. Each counter
  /// costs an attempt with each key.
  private static let keyWindow: UInt64 = 32

  var start: EncryptionStart?
  var isOn = false
  /// Whether the translated log contains the encryption change.
  var isTold = false
  var wasOn = false
  var cipher: AirCipher?
  private var failures = 0
  private var keyTrials = 0
  private var hadKeys = false
  var isBySniffer = false
  /// The place of the integrity checks in packets that another program decrypted; `nil` until a packet shows
  /// it.
  var openForm: OpenForm?
  /// Whether packets are encrypted although the log does not contain the start of encryption.
  var isStartNotSeen = false

  enum OpenForm: Hashable { case withoutCheck, withCheck }

  /// Whether packets of the link may be unreadable.
  var isClosed: Bool { isStartNotSeen || wasOn && cipher == nil && !isBySniffer }

  /// Handles LL_ENC_REQ, which starts or restarts encryption.
  mutating func begin(_ start: EncryptionStart) {
    let openForm = openForm
    self = LinkEncryption(start: start, isTold: isTold, wasOn: wasOn)
    self.openForm = openForm
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

  /// Decrypts a packet that is not a retransmission.
  ///
  /// - Parameters:
  ///   - counter: the lowest possible packet counter.
  ///   - keys: returns all keys to try.
  /// - Returns: the packet's counter, or `nil` if no key matches.
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

  /// Counts a packet on which all keys were tried, in both directions.
  mutating func countTrial() { if cipher == nil { keyTrials += 1 } }
}

/// State of a packet's payload: plaintext, decrypted, or encrypted.
enum Opening: Hashable {
  /// The payload was never encrypted.
  case clear
  /// The program that wrote the file decrypted the payload, which has this many bytes before the check.
  case open(byteCount: Int)
  /// This program decrypted the payload, with this packet counter.
  case deciphered(counter: UInt64)
  case encrypted
}

extension AirConnection {
  /// Classifies a packet with a payload, and decrypts it if necessary and possible.
  ///
  /// - Parameters:
  ///   - isOpen: the file marks the packet as decrypted.
  ///   - isTold: the file contains the direction.
  ///   - output: receives the decrypted payload.
  /// - Returns: whether `output` was set.
  func open(
    _ header: UInt8, _ payload: Span<UInt8>, _ packet: inout AirPacket, isOpen: Bool, isTold: Bool,
    sequence: AirSide.Sequence, keyring: AirKeyring, into output: inout [UInt8]
  ) -> Bool {
    let side = packet.direction == .fromCentral ? central : peripheral
    let opening =
      packet.isRetransmission
      ? repeated(side.opening, header, payload, packet, isOpen, into: &output)
      : opening(
        header, payload, &packet, isOpen: isOpen, isTold: isTold, sequence: sequence, keyring: keyring,
        into: &output)
    if !packet.isRetransmission {
      changeSide(isCentral: packet.direction == .fromCentral) { $0.note(opening, header, payload) }
    }
    switch opening {
    case .clear: return false
    case .encrypted:
      packet.protection = .encrypted
      return false
    case .deciphered: break
    case .open(let byteCount):
      if isOpen || encryption.openForm != nil { encryption.isBySniffer = true }
      encryption.isOn = true
      encryption.wasOn = true
      output.removeAll(keepingCapacity: true)
      output.append(copying: payload.extracting(first: byteCount))
    }
    packet.protection = .decrypted
    return true
  }

  /// Decrypts a retransmission, which has the same packet counter as the original.
  private func repeated(
    _ former: Opening, _ header: UInt8, _ payload: Span<UInt8>, _ packet: AirPacket, _ isOpen: Bool,
    into output: inout [UInt8]
  ) -> Opening {
    switch former {
    case .deciphered(let counter):
      let isDecrypted = encryption.cipher?.decrypt(
        payload, header: header, counter: counter, isFromCentral: packet.direction == .fromCentral,
        into: &output)
      return isDecrypted == true ? former : .encrypted
    case .clear, .encrypted: return isOpen ? .open(byteCount: withoutCheck(header, payload)) : former
    case .open: return former
    }
  }

  private func opening(
    _ header: UInt8, _ payload: Span<UInt8>, _ packet: inout AirPacket, isOpen: Bool, isTold: Bool,
    sequence: AirSide.Sequence, keyring: AirKeyring, into output: inout [UInt8]
  ) -> Opening {
    let side = packet.direction == .fromCentral ? central : peripheral
    if isOpen { return .open(byteCount: withoutCheck(header, payload)) }
    guard isCovered(header, payload, side) else { return .clear }
    if let byteCount = openByteCount(header, payload, side) { return .open(byteCount: byteCount) }
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
        side.countMissed(max(0, skipped - (sequence == .afterGap ? 1 : 0)))
        if skipped > 0 { side.isFrameBroken = true }
      }
      return .deciphered(counter: found)
    }
    encryption.countTrial()
    return .encrypted
  }

  /// Returns whether a packet is encrypted: it belongs to an encrypted link, and is not one of the PDUs that
  /// are always sent unencrypted.
  private func isCovered(_ header: UInt8, _ payload: Span<UInt8>, _ side: AirSide) -> Bool {
    let opcode = header & 0x03 == 0x03 ? ControlOpcode(rawValue: payload[0]) : nil
    if encryption.isOn {
      switch (opcode, payload.count) {
      // PDUs that start, pause or resume encryption.
      case (.encryptionRequest, 23), (.startEncryptionRequest, 1), (.pauseEncryptionResponse, 1): return false
      default: return true
      }
    }
    if encryption.start?.isAnswered == true {
      switch (opcode, payload.count) {
      case (.startEncryptionRequest, 1), (.terminate, 2), (.reject, 2), (.rejectExtended, 3),
        (.encryptionResponse, 13), (.encryptionRequest, 23):
        return false
      default:
        turnOn()
        return true
      }
    }
    // An encrypted payload is longer than the check.
    if encryption.isStartNotSeen { return encryption.isBySniffer || payload.count > AirCipher.checkByteCount }
    guard !mayBeClear(header, payload, side) else { return false }
    if openByteCount(header, payload, side) == nil { encryption.isStartNotSeen = true }
    return true
  }

  /// Returns whether a packet of a possibly encrypted link is readable without decryption.
  func isReadable(_ header: UInt8, _ payload: Span<UInt8>, isFromCentral: Bool) -> Bool {
    guard encryption.isOn || encryption.start?.isAnswered == true, !payload.isEmpty else { return false }
    let side = isFromCentral ? central : peripheral
    guard payload.count > AirCipher.checkByteCount else {
      return header & 0x03 == 0x03
        ? ControlOpcode.isExact(payload) : header & 0x03 == 0x01 && payload.count <= side.frameRemainder
    }
    return openByteCount(header, payload, side) != nil
  }

  func turnOn() {
    guard !encryption.isOn else { return }
    encryption.isOn = true
    encryption.wasOn = true
    central.counter = 0
    peripheral.counter = 0
  }

  // MARK: Packets that another program decrypted

  /// Returns the number of bytes before the check, for a packet of an encrypted link that was decrypted
  /// although the file does not mark it.
  ///
  /// Encryption adds a check of four bytes, which a decrypting program may remove or leave. A complete L2CAP
  /// frame proves decryption, because only one in 50 million encrypted packets has a matching length and
  /// channel. A payload that is not longer than the check cannot be encrypted. Fragments and control PDUs are
  /// weaker evidence, and count only after another packet of the link has proved decryption.
  ///
  /// - Returns: `nil` for a packet that is encrypted.
  private func openByteCount(_ header: UInt8, _ payload: Span<UInt8>, _ side: AirSide) -> Int? {
    let (count, check) = (payload.count, AirCipher.checkByteCount)
    guard count > check else {
      encryption.openForm = .withoutCheck
      return count
    }
    switch header & 0x03 {
    case 0x03:
      // The first encrypted packet of each side always contains this PDU.
      if side.counter == 0, encryption.isOn, payload[0] == ControlOpcode.startEncryptionResponse.rawValue,
        count == 1 + check
      {
        return 1
      }
      switch encryption.openForm {
      case .withoutCheck: return ControlOpcode.isExact(payload) ? count : nil
      case .withCheck:
        return ControlOpcode.isExact(payload.extracting(first: count - check)) ? count - check : nil
      case nil: return nil
      }
    case 0x02:
      guard let frame = FrameStart(payload) else { return nil }
      switch (encryption.openForm, count - frame.byteCount) {
      case (.withCheck, ...check), (.withoutCheck, ...0): break
      case (nil, 0): encryption.openForm = .withoutCheck
      case (nil, check), (.withoutCheck, check): encryption.openForm = .withCheck
      case (nil, ..<0) where frame.isOfFixedChannel: break
      default: return nil
      }
    default:
      guard side.frameRemainder > 0, encryption.openForm != nil,
        withoutCheck(count) <= side.frameRemainder
      else { return nil }
    }
    return withoutCheck(count)
  }

  private func withoutCheck(_ count: Int) -> Int {
    encryption.openForm == .withCheck ? max(0, count - AirCipher.checkByteCount) : count
  }

  /// Returns the number of bytes before the check, for a packet that the file marks as decrypted.
  private func withoutCheck(_ header: UInt8, _ payload: Span<UInt8>) -> Int {
    let (count, check) = (payload.count, AirCipher.checkByteCount)
    guard count > check else { return count }
    switch header & 0x03 {
    case 0x03:
      if ControlOpcode.isExact(payload) { return count }
      return ControlOpcode.isExact(payload.extracting(first: count - check)) ? count - check : count
    case 0x02:
      guard let frame = FrameStart(payload) else { return count }
      if count == frame.byteCount + check { encryption.openForm = .withCheck }
      if count == frame.byteCount, encryption.openForm == nil { encryption.openForm = .withoutCheck }
    default: break
    }
    return withoutCheck(count)
  }

  /// Returns whether a packet may be unencrypted, on a link without evidence of encryption.
  private func mayBeClear(_ header: UInt8, _ payload: Span<UInt8>, _ side: AirSide) -> Bool {
    switch header & 0x03 {
    case 0x03: return ControlOpcode.isPlausible(payload)
    case 0x02:
      guard payload.count >= L2CAPFrame.headerByteCount else { return true }
      return FrameStart(payload).map { payload.count <= $0.byteCount } ?? false
    default: return true
    }
  }
}

/// The header of an L2CAP frame on a valid channel. Core 5.4, Vol 3, Part A, 2.1.
struct FrameStart {
  /// Size of the whole frame in bytes, including its header.
  let byteCount: Int
  /// Whether the channel is ATT, signalling or Security Manager and the length is plausible for the channel.
  let isOfFixedChannel: Bool

  /// Reads the header of a frame.
  ///
  /// - Returns: `nil` if `payload` is shorter than the header, or the channel is not an LE channel.
  init?(_ payload: Span<UInt8>) {
    guard payload.count >= L2CAPFrame.headerByteCount else { return nil }
    let (length, channel) = (Int(payload.u16(at: 0)), payload.u16(at: 2))
    switch channel {
    case 0x0004...0x0006: isOfFixedChannel = length <= Self.longest
    case 0x0020...0x003E, 0x0040...0x007F: isOfFixedChannel = false
    default: return nil
    }
    byteCount = L2CAPFrame.headerByteCount + length
  }

  /// Maximum plausible frame length: attribute values have at most 512 bytes.
  private static let longest = 1_024
}
