/// Samples of one day at equal intervals from the ring's midnight.
///
/// Section 3, 0x15 (beats per minute), 0x37 (0 to 100), 0x39 (milliseconds), 0x7A (unknown).
public struct RingDayLog: Hashable, Sendable {
  /// The day, as the ring echoes it from the request.
  public enum Day: Hashable, Sendable, BitwiseCopyable {
    /// Heart rate: seconds since 1970 by the ring's clock read as UTC. The request's value selects the day
    /// and is echoed unchanged, including the time of day.
    case timestamp(UInt32)
    /// The day for all other logs.
    case daysAgo(UInt8)
  }

  public let kind: RingLogKind
  /// Number of frames as announced, including the header.
  public let frameCount: Int
  public let intervalMinutes: Int
  /// The requested day as echoed; `nil` if the frame with the echo is missing.
  public let day: Day?
  /// One byte per slot, 0 for none. Slots after the current time, and those of missing frames, are 0 or
  /// stale.
  public let samples: [UInt8]
  /// Numbers of missing frames; empty if the log is complete.
  public let missingFrames: [Int]

  public var isComplete: Bool { missingFrames.isEmpty }

  /// Slots that have a sample.
  public var entries: [Entry] {
    samples.indices.filter { samples[$0] != 0 }.map { Entry(slot: $0, value: samples[$0]) }
  }

  public struct Entry: Hashable, Sendable, BitwiseCopyable {
    public let slot: Int
    public let value: UInt8

    public init(slot: Int, value: UInt8) {
      self.slot = slot
      self.value = value
    }
  }
}

/// Assembles a day's log from its frames, which may arrive in any order and repeatedly.
///
/// Frame 0 is a header: byte 2 is the number of frames, including itself, and byte 3 the interval in minutes.
/// Frame 1 begins with the echo of the request (four bytes little-endian for the heart rate, else one); each
/// other frame has 13 samples. An incomplete log stays open: the caller's timer ends the wait, and `finish`
/// returns the part received. Feed it every frame of the channel; it ignores those of other logs.
public struct RingDayLogAssembler: Sendable {
  static let frameSampleByteCount = 13
  /// Maximum number of frames. Byte 1 is the frame number; 0xFF means that there is no log.
  static let maximumFrameCount = 0xFF

  public let kind: RingLogKind
  public private(set) var counters = RingLogCounters()
  /// Whether the frame with the highest number was received. If `isOpen` is also true, frames were lost and
  /// waiting is useless.
  public var hasLastFrame: Bool { header.map { received[$0.frameCount - 1] } ?? false }
  /// Whether the log has begun and is incomplete.
  public var isOpen: Bool { !isFinished && received.contains(true) }

  private let asked: RingDayLog.Day?
  private var header: Header?
  private var day: RingDayLog.Day?
  private var isFinished = false
  /// Whether each frame was received, by frame number.
  private var received = [Bool](repeating: false, count: maximumFrameCount)
  /// Samples of all frames: 13 bytes per frame, starting with frame 1.
  private var octets = [UInt8](repeating: 0, count: (maximumFrameCount - 1) * frameSampleByteCount)

  private struct Header: Hashable {
    let frameCount: Int
    let intervalMinutes: Int
  }

  /// - Parameters:
  ///   - kind: any but `activity`, whose log has another form.
  ///   - day: the requested day, to detect the echo of another request; `nil` accepts the first.
  public init(_ kind: RingLogKind, day: RingDayLog.Day? = nil) {
    precondition(kind != .activity, "the activity log has records, not slots")
    self.kind = kind
    asked = day
  }

  public mutating func receive(_ frame: borrowing RingFrame) -> RingLogStep<RingDayLog> {
    let step = step(frame)
    return counters.counting(step)
  }

  /// Stops waiting. Returns the incomplete log; `nil` if not even a header was received or the log was
  /// complete.
  public mutating func finish() -> RingDayLog? {
    guard isOpen else { return nil }
    isFinished = true
    return log()
  }

  private mutating func step(_ frame: borrowing RingFrame) -> RingLogStep<RingDayLog> {
    if let opening: RingLogStep<RingDayLog> = frame.opening(ofLog: kind.rawValue, isFinished: &isFinished) {
      return opening
    }
    switch frame.bytes[1] {
    case 0: return take(header: frame.bytes)
    default: return take(samples: frame.bytes)
    }
  }

  private mutating func take(header bytes: Span<UInt8>) -> RingLogStep<RingDayLog> {
    let header = Header(frameCount: Int(bytes[2]), intervalMinutes: Int(bytes[3]))
    guard 2..<Self.maximumFrameCount ~= header.frameCount else { return .rejected(.frameCount(bytes[2])) }
    guard header.intervalMinutes > 0 else { return .rejected(.interval(bytes[3])) }
    if self.header == header { return .repeated }
    if self.header != nil { restart() }
    self.header = header
    received[0] = true
    for index in header.frameCount..<Self.maximumFrameCount where received[index] {
      received[index] = false
      counters.rejected += 1
    }
    return progress()
  }

  private mutating func take(samples bytes: Span<UInt8>) -> RingLogStep<RingDayLog> {
    let index = Int(bytes[1])
    if let header, index >= header.frameCount {
      return .rejected(.index(bytes[1], count: header.frameCount))
    }
    if index == 1 {
      let echo = echo(bytes)
      if let expected = asked ?? day, expected != echo { return .rejected(.otherDay(echo)) }
      day = echo
    }
    let start = (index - 1) * Self.frameSampleByteCount
    var differs = false
    for offset in 0..<Self.frameSampleByteCount {
      if octets[start + offset] != bytes[2 + offset] { differs = true }
      octets[start + offset] = bytes[2 + offset]
    }
    guard received[index] else {
      received[index] = true
      return progress()
    }
    guard differs else { return .repeated }
    counters.changed += 1
    return .incomplete
  }

  private func echo(_ bytes: Span<UInt8>) -> RingDayLog.Day {
    guard kind == .heartRate else { return .daysAgo(bytes[2]) }
    var timestamp: UInt32 = 0
    for index in 0..<4 { timestamp |= UInt32(bytes[2 + index]) << (8 * UInt32(index)) }
    return .timestamp(timestamp)
  }

  /// Starts over after a different header: the ring began another log, and the frames so far belong to the
  /// previous one.
  private mutating func restart() {
    counters.restarted += 1
    day = nil
    for index in received.indices { received[index] = false }
    for index in octets.indices { octets[index] = 0 }
  }

  private mutating func progress() -> RingLogStep<RingDayLog> {
    guard let header, !received[0..<header.frameCount].contains(false), let log = log() else {
      return .incomplete
    }
    isFinished = true
    return .complete(log)
  }

  private func log() -> RingDayLog? {
    guard let header else { return nil }
    let echoByteCount = kind == .heartRate ? 4 : 1
    let end = (header.frameCount - 1) * Self.frameSampleByteCount
    // The last frame has more samples than a day has slots.
    let count = min(1440 / header.intervalMinutes, end - echoByteCount)
    return RingDayLog(
      kind: kind, frameCount: header.frameCount, intervalMinutes: header.intervalMinutes, day: day,
      samples: Array(octets[echoByteCount..<echoByteCount + count]),
      missingFrames: (0..<header.frameCount).filter { !received[$0] })
  }
}
