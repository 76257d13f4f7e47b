import BLEWire
import Physiology

/// Orders the frames of one stream by the sensor's clock. Decides whether a frame is next, is a repetition,
/// or belongs to another stream.
///
/// A sensor may send a frame twice, and two sensors may send through one attribute at the same time. If both
/// were recorded in one table, its times would go back. However, times also go back if the clock was set or
/// the sensor restarted; the stream then continues on another clock. A single frame cannot distinguish these
/// cases, so up to three frames are held until later frames do.
struct FrameOrder: Sendable {
  /// Properties of a frame that determine its order.
  struct Frame: Sendable {
    /// Time of the frame's last sample on the sensor's clock, in nanoseconds; 0 if unknown.
    var device: UInt64
    /// Minimum duration of the frame's samples on the sensor's clock, in nanoseconds; 0 if unknown.
    var duration: UInt64
    /// Kernel timestamp, in nanoseconds since the Unix epoch.
    var timestamp: Int64
    /// Number of the link that delivered the frame. Later links have higher numbers.
    var link: Int
    /// Digest of the frame's bytes.
    var digest: UInt64
  }

  enum Verdict: Hashable, Sendable {
    /// The frame follows the previous frame, on the same link or another link.
    case next(isSameLink: Bool)
    /// The frame is the first after the sensor's clock was reset or replaced.
    case begins
    /// The frame was received before.
    case repeated
    /// The frame belongs before frames that have already been received.
    case late
    /// The frame belongs to another stream.
    case foreign
    /// Later frames must decide about the frame.
    case held
  }

  /// Decision about the held frames. They arrived before the frame that caused the decision.
  enum HeldFrames: Hashable, Sendable {
    case stay
    /// The held frames are the first frames after the sensor's clock was reset or replaced.
    case begin
    case late
    case foreign
  }

  /// Sensor clock that a sequence of frames follows.
  private struct Line: Sendable {
    var device: UInt64
    /// Minimum difference between the kernel's clock and the sensor's clock, in nanoseconds.
    var offset: Int64
    var frames = 1

    init(_ frame: Frame) { (device, offset) = (frame.device, Self.offset(frame)) }

    static func offset(_ frame: Frame) -> Int64 { frame.timestamp &- Int64(bitPattern: frame.device) }

    mutating func take(_ frame: Frame) {
      let offset = Self.offset(frame)
      // Clocks drift by less than 0.1 %.
      let drift = Int64(clamping: (frame.device &- device) / 1_000)
      self.offset = offset < self.offset ? offset : min(offset, self.offset &+ drift)
      device = frame.device
      frames += 1
    }

    /// Returns whether a frame arrived too early to follow this clock.
    func isEarly(_ frame: Frame) -> Bool { Self.offset(frame) &- offset < -FrameOrder.tolerance }
    func isLate(_ frame: Frame) -> Bool { Self.offset(frame) &- offset > FrameOrder.longestDelay }
    func fits(_ frame: Frame) -> Bool { !isEarly(frame) && !isLate(frame) }
  }

  /// Maximum deviation of a frame from a clock, in nanoseconds. A larger deviation means that a clock was
  /// set.
  private static let tolerance: Int64 = 2_000_000_000
  /// Maximum delay of a frame, in nanoseconds. A frame with a longer delay follows another clock.
  private static let longestDelay: Int64 = 10_000_000_000
  /// Number of frames that prove a new clock, if no frame follows the old clock in the meantime.
  static let heldLimit = 3
  /// Number of recent frames that are remembered to recognise repetitions.
  private static let recentLimit = 256
  /// Number of remembered clocks of other streams.
  private static let otherLimit = 4

  private var line: Line?
  private var link = 0
  private var candidate: Line?
  private var candidateIsLate = false
  private var others: [Line] = []
  private var recent: [(device: UInt64, digest: UInt64)] = []
  private var place = 0

  /// Processes the next frame, in the order of arrival.
  ///
  /// - Returns: the decision about the frame, and about the held frames.
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

  /// Ends the stream and decides about the held frames.
  mutating func finish() -> HeldFrames { settle(asOther: false) }

  /// Returns whether a frame continues the stream.
  private func follows(_ frame: Frame, _ line: Line) -> Bool {
    guard frame.device > line.device else { return false }
    let elapsed = frame.device - line.device
    // One sensor cannot measure the samples of two streams at the same time.
    guard elapsed >= frame.duration else { return false }
    // A short step continues the stream, even if the kernel's clock was set.
    return elapsed < UInt64(Self.tolerance) || !line.isEarly(frame)
  }

  private mutating func begin(_ frame: Frame) -> Verdict {
    let isFirst = line == nil
    line = Line(frame)
    link = max(link, frame.link)
    note(frame)
    return isFirst ? .next(isSameLink: true) : .begins
  }

  /// Handles a frame that does not follow the stream's clock or order.
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

  /// Decides about the held frames.
  ///
  /// - Parameter asOther: whether the held frames belong to another stream.
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

/// Converts the sample times of frames from the sensor's clock to the kernel's clock.
///
/// The kernel timestamps a frame on arrival; the frame contains the time of its last sample. A `ClockFit`, as
/// for a ring's ticks, relates the two clocks. It uses only the frames so far, so later frames do not change
/// earlier rows. If the fit moves, the interval between samples changes by at most a tenth, which keeps times
/// in order from frame to frame.
///
/// All times include the constant delay from the sensor to the kernel, which cannot be measured here. The
/// samples of a frame without a sensor time are placed before its timestamp at the nominal rate.
struct FrameTimes: Sendable {
  /// Unit of the fit's indices, in nanoseconds on the sensor's clock. Frames may arrive at any interval.
  private static let step: UInt64 = 1_000_000
  /// Maximum deviation from the fit, in nanoseconds. A larger deviation means that a clock was set.
  private static let tolerance = 2e9
  /// Maximum relative change of the interval between samples.
  private static let stretch = 0.1
  /// Limit of timestamps and intervals: 146 years in nanoseconds. Larger values are ignored, so that no
  /// difference overflows.
  private static let limit: UInt64 = 1 << 62

  private var fit: ClockFit?
  /// Time on the sensor's clock at the start of the fit.
  private var origin: UInt64 = 0
  /// Latest sample: its time on the sensor's clock and its converted time.
  private var last: (device: UInt64, time: Int64)?

  /// Latest time of a row so far, in nanoseconds since the Unix epoch.
  private var latest: Int64?

  /// Converts the sample times of one frame.
  struct Placed: Sendable {
    fileprivate let end: Int64
    fileprivate let device: UInt64
    /// Nanoseconds on the kernel's clock per nanosecond on the sensor's clock.
    fileprivate let pace: Double

    /// Returns the measurement time of a sample, in nanoseconds since the Unix epoch.
    ///
    /// - Parameter device: time of the sample on the sensor's clock.
    func time(_ device: UInt64) -> Int64 {
      let before = min(self.device - min(device, self.device), FrameTimes.limit)
      return end &- Int64((Double(before) * pace).rounded())
    }
  }

  /// Starts a new fit with the next frame. Call this after a restart of the sensor's clock.
  mutating func restart() { (fit, last) = (nil, nil) }

  /// Places the next frame.
  ///
  /// - Parameters:
  ///   - stamp: kernel timestamp of the frame.
  ///   - device: time of the frame's last sample on the sensor's clock, in nanoseconds.
  ///   - duration: duration of the samples on the sensor's clock, in nanoseconds.
  mutating func place(_ stamp: ReceiveTime, device: UInt64, duration: UInt64 = 0) -> Placed {
    let ideal = fitted(stamp.nanoseconds, device)
    defer { latest = last?.time }
    guard let last, device > last.device, device - last.device < Self.limit else {
      self.last = (device, ideal)
      // If the frame is on another clock, compress it to fit after the earlier rows, unless the kernel's
      // clock was set back.
      var pace = 1.0
      if let latest, ideal > latest, duration > 0 {
        pace = min(1, Double(ideal &- latest) / Double(duration))
      }
      return Placed(end: ideal, device: device, pace: pace)
    }
    let elapsed = Double(device - last.device)
    let wanted = Double(ideal &- last.time) / elapsed
    let pace = min(max(wanted, 1 - Self.stretch), 1 + Self.stretch)
    let end = last.time &+ Int64((elapsed * pace).rounded())
    self.last = (device, end)
    return Placed(end: end, device: device, pace: pace)
  }

  /// Converts a sample's time by the fit of all frames so far.
  private mutating func fitted(_ stamp: Int64, _ device: UInt64) -> Int64 {
    guard stamp.magnitude < Self.limit else {
      (fit, last) = (nil, nil)
      return stamp
    }
    guard let period = fit?.period, device >= origin, (device - origin) / Self.step < UInt64(Int32.max) else {
      return begin(stamp, device)
    }
    let index = Int((device - origin) / Self.step)
    let rest = Double((device - origin) % Self.step) / Double(Self.step)
    let stampOfTick = stamp &- Int64((rest * period).rounded())
    guard let late = fit?.lateness(of: stampOfTick, at: index), abs(late) < Self.tolerance else {
      return begin(stamp, device)
    }
    fit?.take(stampOfTick, at: index)
    return (fit?.time(of: index) ?? stampOfTick) &+ Int64((rest * (fit?.period ?? period)).rounded())
  }

  /// Starts a new fit, and returns the time of the first frame.
  private mutating func begin(_ stamp: Int64, _ device: UInt64) -> Int64 {
    origin = device
    // Quartz clocks are accurate to 100 ppm or better, so the nominal rate is a good initial value.
    fit = ClockFit(index: 0, time: stamp, period: Double(Self.step), isKnown: true)
    last = nil
    return stamp
  }
}
