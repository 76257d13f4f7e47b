/// What an emulated ring does wrong with its replies.
public struct RingReplyFaults: Hashable, Sendable {
  /// Each so-many-th frame or message goes out with a wrong checksum.
  public var wrongChecksumEvery: Int?
  /// All replies come so late.
  public var delay = Duration.zero
  /// Each answer comes after a reply of another command, which nobody sent.
  public var foreignReplies = false
  /// A log stops after so many frames, a message in its middle.
  public var logFrameLimit: Int?
  /// A notification that nobody asked for comes after each frame of a log.
  public var unaskedFrames = false
  /// Each frame of a log comes twice.
  public var repeatedFrames = false

  public init() {}

  /// An answer's frames as they go out.
  func spoiled(_ answer: [[UInt8]]) -> [[UInt8]] {
    let isLog = answer.count > 1
    var frames = isLog ? Array(answer.prefix(logFrameLimit ?? answer.count)) : answer
    if isLog, repeatedFrames { frames = frames.flatMap { [$0, $0] } }
    if isLog, unaskedFrames {
      // evt-live-activity-3055 of the vectors.
      let told = ringFrame([0x73, 0x12, 0x00, 0x0B, 0xEF, 0x02, 0x22, 0x09, 0x00, 0x07, 0xCF])
      frames = frames.flatMap { [$0, told] }
    }
    // A phone name's, which is asked for only by writing one.
    return foreignReplies ? [ringFrame([0x04])] + frames : frames
  }

  /// - Parameter number: of the frame or message among all replies, from 1.
  func damaged(_ octets: [UInt8], number: Int) -> [UInt8] {
    guard let every = wrongChecksumEvery, number.isMultiple(of: every) else { return octets }
    var octets = octets
    octets[octets.count - 1] ^= 0xFF
    return octets
  }
}
