/// The samples of one day at equal intervals from the ring's midnight on.
///
/// Section 3, 0x15 (beats per minute), 0x37 (0 … 100), 0x39 (milliseconds), 0x7A (unknown).
public struct RingDayLog: Hashable, Sendable {
  /// What the ring echoed of the request.
  public enum Day: Hashable, Sendable, BitwiseCopyable {
    /// Heart rate: seconds since 1970 by the ring's clock read as UTC. It selects the day, and comes back as
    /// it was sent, time of day included.
    case timestamp(UInt32)
    /// All others.
    case daysAgo(UInt8)
  }

  public let kind: RingLogKind
  /// As announced, the header included.
  public let frameCount: Int
  public let intervalMinutes: Int
  /// `nil` where the frame that has it is missing.
  public let day: Day?
  /// One octet a slot, 0 for none. Slots after now, and of missing frames, are 0 or stale.
  public let samples: [UInt8]
  /// Frames that did not come; empty where the log is complete.
  public let missingFrames: [Int]

  public var isComplete: Bool { missingFrames.isEmpty }

  /// The slots that hold a sample.
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

/// Puts a day's log together from its frames, in whatever order and however often they come.
///
/// Frame 0 is a header: octet 2 is the number of frames, itself included, octet 3 the interval in minutes.
/// Frame 1 begins with the echo of the request (four octets little-endian for the heart rate, else one), all
/// others are 13 samples. A log that stops half-way stays open: the caller's timer ends the wait, and
/// `finish` gives what there is. Feed it every frame of the channel; it leaves alone what is not its own.
public struct RingDayLogAssembler: Sendable {
  static let frameSampleByteCount = 13
  /// Octet 1 counts frames, and 0xFF says that there are none.
  static let maximumFrameCount = 0xFF

  public let kind: RingLogKind
  public private(set) var counters = RingLogCounters()
  /// Whether the frame with the highest number is there. With `isOpen`, some were lost: nothing is left to
  /// wait for.
  public var hasLastFrame: Bool { header.map { received[$0.frameCount - 1] } ?? false }
  /// Whether something of a log came, and something is still missing.
  public var isOpen: Bool { !isFinished && received.contains(true) }

  private let asked: RingDayLog.Day?
  private var header: Header?
  private var day: RingDayLog.Day?
  private var isFinished = false
  /// By frame number.
  private var received = [Bool](repeating: false, count: maximumFrameCount)
  /// 13 octets a frame, from frame 1 on.
  private var octets = [UInt8](repeating: 0, count: (maximumFrameCount - 1) * frameSampleByteCount)

  private struct Header: Hashable {
    let frameCount: Int
    let intervalMinutes: Int
  }

  /// - Parameters:
  ///   - kind: not `activity`, whose log is of another form.
  ///   - day: what was asked for, to tell the echo of another request; `nil` takes the first that comes.
  public init(_ kind: RingLogKind, day: RingDayLog.Day? = nil) {
    precondition(kind != .activity, "the activity log has records, not slots")
    self.kind = kind
    asked = day
  }

  public mutating func receive(_ frame: borrowing RingFrame) -> RingLogStep<RingDayLog> {
    let step = step(frame)
    return counters.counting(step)
  }

  /// Gives up waiting: the log as far as it came, `nil` where not even a header did or it was complete.
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

  /// Another header: the ring began another log, and the frames so far are of the one before.
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
    // The last frame has room for more samples than a day has slots.
    let count = min(1440 / header.intervalMinutes, end - echoByteCount)
    return RingDayLog(
      kind: kind, frameCount: header.frameCount, intervalMinutes: header.intervalMinutes, day: day,
      samples: Array(octets[echoByteCount..<echoByteCount + count]),
      missingFrames: (0..<header.frameCount).filter { !received[$0] })
  }
}
