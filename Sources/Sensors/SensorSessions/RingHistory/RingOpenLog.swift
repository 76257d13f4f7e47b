import BLEWire
import ColmiRing

/// Log of a ring, assembled frame by frame from a recording, without timeouts or retries.
struct RingOpenLog: Sendable {
  enum Log: Sendable {
    case day(RingDayLog)
    case activity(RingActivityLog)
  }

  enum Step: Sendable {
    case taken
    /// The log is complete, or no more of it can follow.
    case ended(Log)
    /// The frame contradicts the log so far.
    case rejected
    /// The frame belongs to another log of the same kind. The end of this log was not recorded.
    case ofAnother
  }

  /// Maximum pause inside a log. A ring sends a whole log within a second. A frame after a longer pause
  /// begins another log.
  static let silence = Duration.seconds(10)

  let kind: RingLogKind
  /// Day that the host requested, for logs in which the ring does not echo the day.
  let asked: RingDayLog.Day?
  /// Time of the first frame.
  let start: ReceiveTime
  private(set) var latest: ReceiveTime
  private(set) var frameCount = 0
  /// Position of the latest frame in the log; 0 for the header.
  private var place = -1
  private var octets: [UInt8] = []
  private var days: RingDayLogAssembler?
  private var records = RingActivityLogAssembler()

  init(_ kind: RingLogKind, asked: RingDayLog.Day?, at time: ReceiveTime) {
    (self.kind, self.asked, start, latest) = (kind, asked, time, time)
    days = kind == .activity ? nil : RingDayLogAssembler(kind)
  }

  mutating func receive(_ frame: borrowing RingFrame, at time: ReceiveTime) -> Step {
    let bytes = frame.bytes
    let came = bytes.indices.map { bytes[$0] }
    if came == octets { return .taken }
    let place = Self.place(of: bytes, kind)
    if frameCount > 0, place <= self.place || !isNear(time) { return .ofAnother }
    let step = assemble(frame)
    switch step {
    case .taken, .ended:
      (self.place, octets, latest) = (place, came, time)
      frameCount += 1
    case .rejected, .ofAnother: break
    }
    return step
  }

  /// Returns the received part of the log; `nil` if the header is missing.
  mutating func finish() -> Log? {
    days == nil ? records.finish().map { .activity($0) } : days?.finish().map { .day($0) }
  }

  private mutating func assemble(_ frame: borrowing RingFrame) -> Step {
    guard days != nil else {
      let step = records.receive(frame)
      guard records.isOpen, records.hasLastRecord, let log = records.finish() else {
        return Self.step(step) { .activity($0) }
      }
      return .ended(.activity(log))
    }
    let step = days?.receive(frame) ?? .foreign
    guard days?.isOpen == true, days?.hasLastFrame == true, let log = days?.finish() else {
      return Self.step(step) { .day($0) }
    }
    return .ended(.day(log))
  }

  private static func step<Log>(_ step: RingLogStep<Log>, _ log: (Log) -> RingOpenLog.Log) -> Step {
    switch step {
    case .incomplete, .repeated: .taken
    case .complete(let whole): .ended(log(whole))
    case .rejected(.otherDay), .rejected(.recordCount): .ofAnother
    case .rejected, .foreign, .noData, .refused: .rejected
    }
  }

  /// Returns the position of a frame in its log. A ring sends the frames in order.
  private static func place(of bytes: Span<UInt8>, _ kind: RingLogKind) -> Int {
    guard kind == .activity else { return Int(bytes[1]) }
    return bytes[1] == 0xF0 ? 0 : Int(bytes[5]) + 1
  }

  private func isNear(_ time: ReceiveTime) -> Bool { time.isNear(latest, within: Self.silence) }
}

extension ReceiveTime {
  /// Returns whether two times are at most `duration` apart. Times in a log can have any value, so overflow
  /// is handled.
  func isNear(_ other: ReceiveTime, within duration: Duration) -> Bool {
    let (difference, overflow) = nanoseconds.subtractingReportingOverflow(other.nanoseconds)
    return !overflow && difference.magnitude <= UInt64(duration / .nanoseconds(1))
  }
}
