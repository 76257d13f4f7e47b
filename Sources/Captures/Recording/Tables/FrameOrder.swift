/// The order of one stream's frames by the sensor's clock: which frame is next, which came before, and which belongs to
/// another stream.
///
/// A sensor may send a frame twice, and two sensors may send at once through one attribute. Their rows in one table would let
/// times go back. A clock that was set, or a sensor that was switched on anew, is neither: the stream goes on by another
/// clock. A single frame cannot show the difference, so up to three frames are held until the next ones do.
struct FrameOrder: Sendable {
  /// A frame, as far as its order depends on it.
  struct Frame: Sendable {
    /// Time of its last sample by the sensor, in nanoseconds; 0 is unknown.
    var device: UInt64
    /// Least time of its samples by the sensor, in nanoseconds; 0 is unknown.
    var duration: UInt64
    /// Timestamp by the kernel: nanoseconds since the Unix epoch.
    var timestamp: Int64
    /// Number of the link that it came over; later links have higher ones.
    var link: Int
    /// Digest of its octets.
    var digest: UInt64
  }

  enum Verdict: Hashable, Sendable {
    /// Follows the one before, on the same link or another.
    case next(isSameLink: Bool)
    /// First frame by another clock.
    case begins
    /// Came before.
    case repeated
    /// Belongs before frames that have come.
    case late
    /// Belongs to another stream.
    case foreign
    /// The frames that follow tell.
    case held
  }

  /// What becomes of the frames that were held. They come before the frame that settled it.
  enum HeldFrames: Hashable, Sendable {
    case stay
    /// They are the first by another clock.
    case begin
    case late
    case foreign
  }

  /// A clock that frames went by.
  private struct Line: Sendable {
    var device: UInt64
    /// Least difference between the kernel's clock and the sensor's.
    var offset: Int64
    var frames = 1

    init(_ frame: Frame) { (device, offset) = (frame.device, Self.offset(frame)) }

    static func offset(_ frame: Frame) -> Int64 { frame.timestamp &- Int64(bitPattern: frame.device) }

    mutating func take(_ frame: Frame) {
      let offset = Self.offset(frame)
      // Clocks drift by less than a thousandth.
      let drift = Int64(clamping: (frame.device &- device) / 1_000)
      self.offset = offset < self.offset ? offset : min(offset, self.offset &+ drift)
      device = frame.device
      frames += 1
    }

    /// Whether a frame was sent by this clock, however late it came.
    func isEarly(_ frame: Frame) -> Bool { Self.offset(frame) &- offset < -FrameOrder.tolerance }
    func isLate(_ frame: Frame) -> Bool { Self.offset(frame) &- offset > FrameOrder.longestDelay }
    func fits(_ frame: Frame) -> Bool { !isEarly(frame) && !isLate(frame) }
  }

  /// How far off a clock may be before it was set: nanoseconds.
  private static let tolerance: Int64 = 2_000_000_000
  /// How long a frame may be under way before it is one of another clock: nanoseconds.
  private static let longestDelay: Int64 = 10_000_000_000
  /// Frames by another clock that prove it, while none comes by the old one.
  static let heldLimit = 3
  /// Frames that are known again.
  private static let recentLimit = 256
  /// Clocks of other streams that are known again.
  private static let otherLimit = 4

  private var line: Line?
  private var link = 0
  private var candidate: Line?
  private var candidateIsLate = false
  private var others: [Line] = []
  private var recent: [(device: UInt64, digest: UInt64)] = []
  private var place = 0

  /// Takes the next frame, in the order of arrival.
  mutating func take(_ frame: Frame) -> (verdict: Verdict, held: HeldFrames) {
    guard frame.device != 0 else { return (.next(isSameLink: true), .stay) }
    if let seen = recent.first(where: { $0.device == frame.device }) {
      return (seen.digest == frame.digest ? .repeated : .foreign, .stay)
    }
    guard let line else { return (begin(frame), .stay) }
    if follows(frame, line) {
      let isSameLink = frame.link == link
      self.line?.take(frame)
      link = max(link, frame.link)
      note(frame)
      return (.next(isSameLink: isSameLink), settle(asOther: true))
    }
    if let place = others.firstIndex(where: { $0.fits(frame) }) {
      others[place].take(frame)
      return (.foreign, .stay)
    }
    let isBehind = frame.device < line.device && line.fits(frame)
    if frame.link > link, !line.fits(frame) {
      let held = settle(asOther: false)
      addOther(line)
      return (begin(frame), held)
    }
    return consider(frame, isBehind: isBehind)
  }

  /// Nothing more comes.
  mutating func finish() -> HeldFrames { settle(asOther: false) }

  /// Whether a frame goes on where the stream is.
  private func follows(_ frame: Frame, _ line: Line) -> Bool {
    guard frame.device > line.device else { return false }
    let elapsed = frame.device - line.device
    // Samples of two streams cannot be measured by one sensor at once.
    guard elapsed >= frame.duration else { return false }
    // A short step is one whatever happened to the kernel's clock.
    return elapsed < UInt64(Self.tolerance) || !line.isEarly(frame)
  }

  private mutating func begin(_ frame: Frame) -> Verdict {
    let isFirst = line == nil
    line = Line(frame)
    link = max(link, frame.link)
    note(frame)
    return isFirst ? .next(isSameLink: true) : .begins
  }

  /// Takes a frame that is not by the stream's clock, or not in its order.
  private mutating func consider(_ frame: Frame, isBehind: Bool) -> (Verdict, HeldFrames) {
    if let known = candidate, frame.device > known.device, known.fits(frame) {
      candidate?.take(frame)
      note(frame)
      guard known.frames + 1 > Self.heldLimit, let line else { return (.held, .stay) }
      if !candidateIsLate { addOther(line) }
      (self.line, candidate) = (candidate, nil)
      return (.next(isSameLink: frame.link == link), .begin)
    }
    let held = settle(asOther: true)
    candidate = Line(frame)
    candidateIsLate = isBehind
    note(frame)
    return (.held, held)
  }

  /// Decides about the frames that are held.
  ///
  /// - Parameter asOther: whether the stream goes on by its own clock.
  private mutating func settle(asOther: Bool) -> HeldFrames {
    guard let candidate else { return .stay }
    self.candidate = nil
    if candidateIsLate { return .late }
    guard asOther else {
      line = candidate
      return .begin
    }
    addOther(candidate)
    return .foreign
  }

  private mutating func addOther(_ line: Line) {
    if others.count == Self.otherLimit { others.removeFirst() }
    others.append(line)
  }

  private mutating func note(_ frame: Frame) {
    if recent.count < Self.recentLimit {
      if recent.isEmpty { recent.reserveCapacity(Self.recentLimit) }
      recent.append((frame.device, frame.digest))
    } else {
      recent[place] = (frame.device, frame.digest)
      place = (place + 1) % Self.recentLimit
    }
  }
}
