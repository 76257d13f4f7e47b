public import BLEWire

/// Reassembles the L2CAP frames of one direction of one link from ACL fragments.
///
/// A frame that arrives in one fragment is lent in place, without a copy. Core 5.4, Vol 3, Part A, 7.2.
public struct L2CAPRecombiner: ~Copyable {
  /// Size of the longest frame: an L2CAP basic frame with 65,535 bytes of payload.
  public static let maximumByteCount = L2CAPFrame.headerByteCount + 65_535

  private let maximumPayloadByteCount: Int
  /// Whether the rest of a frame that is too long is being skipped.
  private var isSkipping = false
  /// Data of the incomplete frame; empty between frames.
  private var frame: [UInt8] = []
  /// Size of the complete frame in bytes, known once the header has arrived.
  private var expectedByteCount = 0
  /// Number of dropped frames: interrupted by a new start, continued without a start, or too long.
  public private(set) var droppedFrames = 0

  /// Creates a recombiner.
  ///
  /// - Parameter maximumPayloadByteCount: longest payload to keep, in bytes. Longer frames are skipped.
  public init(maximumPayloadByteCount: Int = 65_535) {
    self.maximumPayloadByteCount = maximumPayloadByteCount
  }

  /// Processes the next fragment, and lends the frame to `body` if it is now complete.
  ///
  /// - Throws: `invalidValue` for a continuation without a start; `lengthMismatch` if the frame has more
  ///   bytes than its header announced, or the header announced more than the limit. The incomplete frame is
  ///   dropped and counted; the next start is accepted.
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

  /// Processes a truncated fragment, as in a log with truncated records. Lends the available part of its
  /// frame, including the header, to `body`, and skips the rest of the frame.
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

  /// Drops the incomplete frame without counting it. Call it when the link has ended.
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
