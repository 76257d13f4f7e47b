public import BLEWire

/// Puts the L2CAP frames of one direction of one link together from ACL fragments.
///
/// A frame that arrives in one fragment is lent on in place, without a copy. Core 5.4, Vol 3, Part A, 7.2.
public struct L2CAPRecombiner: ~Copyable {
  /// The longest frame that is put together: a whole L2CAP basic frame of 65,535 octets of payload.
  public static let maximumByteCount = L2CAPFrame.headerByteCount + 65_535

  private let maximumPayloadByteCount: Int
  /// The rest of a frame that is longer than that is still to come.
  private var isSkipping = false
  /// The frame under way; empty between frames.
  private var frame: [UInt8] = []
  /// Octets that `frame` will have, once its header is known.
  private var expectedByteCount = 0
  /// Frames that were given up: a new start inside one, a continuation without a start, too much data, too long.
  public private(set) var droppedFrames = 0

  /// - Parameter maximumPayloadByteCount: octets of the longest frame that is kept; what announces more is skipped.
  public init(maximumPayloadByteCount: Int = 65_535) {
    self.maximumPayloadByteCount = maximumPayloadByteCount
  }

  /// Takes the next fragment and lends the frame to `body` when it completes one.
  ///
  /// - Throws: `invalidValue` for a continuation without a start, `lengthMismatch` for more octets than
  ///   the frame's header announced, or where it announced more than is kept. The frame under way is dropped and
  ///   counted; the next start goes on.
  public mutating func receive(
    _ packet: borrowing ACLPacket, _ body: (borrowing L2CAPFrame) -> Void
  ) throws(WireError) {
    if packet.boundary == .continuation {
      if isSkipping { return }
      guard !frame.isEmpty else {
        droppedFrames += 1
        throw WireError(.acl, offset: 0, .invalidValue(UInt32(packet.boundary.rawValue)))
      }
      append(packet.data)
    } else {
      isSkipping = false
      if !frame.isEmpty { drop() }
      if packet.data.count >= L2CAPFrame.headerByteCount,
        packet.data.count == L2CAPFrame.headerByteCount + Int(packet.data.u16(at: 0)),
        Int(packet.data.u16(at: 0)) <= maximumPayloadByteCount
      {
        body(try L2CAPFrame(validating: packet.data))
        return
      }
      append(packet.data)
    }
    try refuseOversized()
    try finish(body)
  }

  /// Takes a fragment of which the end is not known, as a log has it whose writer cut the record, and lends what is known of
  /// its frame to `body`: the first bytes, header included. The rest of the frame is skipped.
  public mutating func receiveCut(_ packet: borrowing ACLPacket, _ body: (Span<UInt8>) -> Void) {
    if packet.boundary == .continuation {
      guard !frame.isEmpty else {
        isSkipping = true
        return
      }
      frame.append(copying: packet.data)
      body(frame.span)
    } else {
      if !frame.isEmpty { drop() }
      body(packet.data)
    }
    drop()
    isSkipping = true
  }

  private mutating func refuseOversized() throws(WireError) {
    let claimed = expectedByteCount - L2CAPFrame.headerByteCount
    guard claimed > maximumPayloadByteCount, frame.count >= L2CAPFrame.headerByteCount else { return }
    isSkipping = true
    drop()
    throw WireError(
      .l2cap, offset: 0, .lengthMismatch(claimed: claimed, available: maximumPayloadByteCount))
  }

  /// Forgets the frame under way, without counting it: the link is gone.
  public mutating func reset() {
    isSkipping = false
    clear()
  }

  private mutating func clear() {
    frame.removeAll(keepingCapacity: true)
    expectedByteCount = 0
  }

  private mutating func append(_ data: Span<UInt8>) {
    frame.append(copying: data)
    if expectedByteCount == 0, frame.count >= 2 {
      expectedByteCount = L2CAPFrame.headerByteCount + Int(frame.span.u16(at: 0))
    }
  }

  private mutating func drop() {
    droppedFrames += 1
    clear()
  }

  private mutating func finish(
    _ body: (borrowing L2CAPFrame) -> Void
  ) throws(WireError) {
    guard expectedByteCount > 0, frame.count >= expectedByteCount else { return }
    guard frame.count == expectedByteCount else {
      let error = WireError(
        .l2cap, offset: 0, .lengthMismatch(claimed: expectedByteCount, available: frame.count))
      drop()
      throw error
    }
    body(try L2CAPFrame(validating: frame.span))
    clear()
  }
}
