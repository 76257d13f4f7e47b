/// Faults in an emulated ring's replies.
public struct RingReplyFaults: Hashable, Sendable {
  /// Every n-th frame or message has a wrong checksum.
  public var wrongChecksumEvery: Int?
  /// Delay of all replies.
  public var delay = Duration.zero
  /// Each answer is preceded by the reply to a command that was not sent.
  public var foreignReplies = false
  /// Number of frames after which a log stops, in the middle of a message.
  public var logFrameLimit: Int?
  /// Each frame of a log is followed by an unsolicited notification.
  public var unaskedFrames = false
  /// Each frame of a log is sent twice.
  public var repeatedFrames = false

  public init() {}

  /// Returns the frames of an answer with the faults applied.
  func spoiled(_ answer: [[UInt8]]) -> [[UInt8]] {
    let isLog = answer.count > 1
    var frames = isLog ? Array(answer.prefix(logFrameLimit ?? answer.count)) : answer
    if isLog, repeatedFrames { frames = frames.flatMap { [$0, $0] } }
    if isLog, unaskedFrames {
      // evt-live-activity-3055 of the test vectors.
      let told = ringFrame([0x73, 0x12, 0x00, 0x0B, 0xEF, 0x02, 0x22, 0x09, 0x00, 0x07, 0xCF])
      frames = frames.flatMap { [$0, told] }
    }
    // The reply to the command that sets a phone name. A real ring sends it only after that command.
    return foreignReplies ? [ringFrame([0x04])] + frames : frames
  }

  /// Damages a frame or message if it is due.
  ///
  /// - Parameter number: number of the frame or message among all replies, from 1.
  func damaged(_ octets: [UInt8], number: Int) -> [UInt8] {
    guard let every = wrongChecksumEvery, number.isMultiple(of: every) else { return octets }
    var octets = octets
    octets[octets.count - 1] ^= 0xFF
    return octets
  }
}
