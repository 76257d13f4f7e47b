import BLEWire

/// Reassembles messages of the big data channel from notifications of any size.
///
/// The first byte of a message, 0xBC, can also begin a continuation. It therefore does not start a message
/// while another message is open. If notifications were lost, the next message is mistaken for the rest of
/// the open message, and only the checksum reveals the error. For this case, the reassembler remembers the
/// positions of possible message starts, and continues at the next position if the checksum is wrong.
///
/// A complete message in one notification between the pieces of another message is recognised. Some rings
/// also send frames of the raw stream here, which are passed on unchanged. An incomplete message stays open,
/// so call `abandon` after a second or two without notifications.
public struct RingBigDataReassembler: Sendable {
  /// Maximum size of a payload in bytes: ten times the longest observed payload.
  public static let defaultMaximumPayloadByteCount = 16_384
  /// Maximum number of remembered positions in an open message where another message may begin.
  static let maximumCandidateCount = 16
  /// Maximum size of a notification in bytes: ATT_MTU 517 minus three.
  static let maximumNotificationByteCount = 514

  public enum Event: Hashable, Sendable {
    case message(RingBigData)
    /// Frame of the raw stream.
    case raw(RingRawSample)
    case failed(RingBigDataError)
  }

  public struct Counters: Hashable, Sendable, BitwiseCopyable {
    public fileprivate(set) var messages = 0
    public fileprivate(set) var rawFrames = 0
    public fileprivate(set) var wrongChecksums = 0
    public fileprivate(set) var tooLong = 0
    public fileprivate(set) var interrupted = 0
    /// Number of errors caused by bytes after a message, or by notifications that do not begin a message.
    public fileprivate(set) var strays = 0
  }

  public let maximumPayloadByteCount: Int
  public private(set) var counters = Counters()
  public var isOpen: Bool { !buffer.isEmpty }

  /// Bytes of the open message's notifications, from the first byte of the message.
  private var buffer: [UInt8] = []
  /// Positions in `buffer` at which another message may begin, ascending.
  private var candidates: [Int] = []

  public init(maximumPayloadByteCount: Int = defaultMaximumPayloadByteCount) {
    precondition(0...Int(UInt16.max) ~= maximumPayloadByteCount, "the length field has 16 bits")
    self.maximumPayloadByteCount = maximumPayloadByteCount
    buffer.reserveCapacity(
      RingBigData.headerByteCount + maximumPayloadByteCount + Self.maximumNotificationByteCount)
    candidates.reserveCapacity(Self.maximumCandidateCount)
  }

  /// Processes the next notification.
  ///
  /// - Parameters:
  ///   - notification: received value.
  ///   - body: called for each message that this notification completes, for each frame of the raw stream,
  ///     and for each error.
  public mutating func receive(_ notification: Span<UInt8>, _ body: (Event) -> Void) {
    if let sample = rawSample(notification) {
      counters.rawFrames += 1
      return body(.raw(sample))
    }
    let beginsMessage = !notification.isEmpty && notification[0] == RingBigData.opcode
    if buffer.isEmpty {
      guard beginsMessage else {
        return fail(.notBigData(octet: notification.isEmpty ? nil : notification[0]), body)
      }
    } else if beginsMessage {
      if let message = try? RingBigData(parsing: notification), message.isChecksumValid {
        counters.messages += 1
        return body(.message(message))
      }
      if candidates.count < Self.maximumCandidateCount { candidates.append(buffer.count) }
    }
    buffer.append(copying: notification)
    drain(body)
  }

  /// Drops the open message. The next value begins another message.
  public mutating func abandon(_ body: (Event) -> Void) {
    guard isOpen else { return }
    fail(interruption(after: buffer.count), body)
    clear()
  }

  private func rawSample(_ notification: Span<UInt8>) -> RingRawSample? {
    guard notification.count == RingFrame.byteCount, notification[0] == RingCommand.rawStreamOpcode else {
      return nil
    }
    return try? RingRawSample(decoding: notification)
  }

  /// Extracts messages from the buffer until more bytes are needed.
  private mutating func drain(_ body: (Event) -> Void) {
    while buffer.count >= RingBigData.headerByteCount {
      let payloadByteCount = Int(buffer.span.u16(at: 2))
      guard payloadByteCount <= maximumPayloadByteCount else {
        fail(.tooLong(id: buffer[1], byteCount: payloadByteCount), body)
        resume(at: nextCandidate(from: 1) ?? buffer.count)
        continue
      }
      let end = RingBigData.headerByteCount + payloadByteCount
      guard buffer.count >= end else { return }
      let octets = buffer
      guard let message = try? RingBigData(parsing: octets.span.extracting(..<end)) else {
        preconditionFailure("its length and first octet were checked")
      }
      if message.isChecksumValid {
        counters.messages += 1
        body(.message(message))
        skipExcess(after: end, body)
      } else if let candidate = nextCandidate(from: 1) {
        fail(interruption(after: candidate), body)
        resume(at: candidate)
      } else {
        fail(.checksum(message), body)
        clear()
      }
    }
  }

  /// Skips to the next message in the notification. The meaning of other bytes after a message is unknown.
  private mutating func skipExcess(after end: Int, _ body: (Event) -> Void) {
    guard buffer.count > end, buffer[end] != RingBigData.opcode else { return resume(at: end) }
    let next = nextCandidate(from: end) ?? buffer.count
    fail(.excess(byteCount: next - end), body)
    resume(at: next)
  }

  /// Returns the next position where a message may begin: the received bytes there have a known ID and a
  /// possible length.
  private func nextCandidate(from offset: Int) -> Int? {
    candidates.first { candidate in
      guard candidate >= offset else { return false }
      let rest = buffer.count - candidate
      if rest >= 2, !RingBigDataID.isKnown(buffer[candidate + 1]) { return false }
      return rest < 4 || Int(buffer.span.u16(at: candidate + 2)) <= maximumPayloadByteCount
    }
  }

  private func interruption(after byteCount: Int) -> RingBigDataError {
    let expected = buffer.count >= 4 ? RingBigData.headerByteCount + Int(buffer.span.u16(at: 2)) : nil
    return .interrupted(id: buffer.count > 1 ? buffer[1] : nil, received: byteCount, expected: expected)
  }

  private mutating func resume(at offset: Int) {
    buffer.removeFirst(offset)
    candidates.removeAll { $0 <= offset }
    for index in candidates.indices { candidates[index] -= offset }
  }

  private mutating func clear() { resume(at: buffer.count) }

  private mutating func fail(_ error: RingBigDataError, _ body: (Event) -> Void) {
    switch error {
    case .checksum: counters.wrongChecksums += 1
    case .tooLong: counters.tooLong += 1
    case .interrupted: counters.interrupted += 1
    case .excess, .notBigData, .length: counters.strays += 1
    }
    body(.failed(error))
  }
}
