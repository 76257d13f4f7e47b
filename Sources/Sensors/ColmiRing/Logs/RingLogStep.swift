/// Result of passing a frame to a log's assembler.
public enum RingLogStep<Log: Sendable>: Sendable {
  /// The frame is part of the log, which is still incomplete.
  case incomplete
  /// The frame completed the log. Later frames are `foreign`.
  case complete(Log)
  /// The frame does not belong to the log; rings send unsolicited frames at any time.
  case foreign
  /// An identical frame was received before.
  case repeated
  /// There is no log for the day.
  case noData
  /// The ring does not know the command.
  case refused(code: UInt8)
  /// The frame contradicts the log so far, and is ignored.
  case rejected(RingLogError)
}

extension RingLogStep: Equatable where Log: Equatable {}

/// Reason for rejecting a frame of a log.
public enum RingLogError: Error, Hashable, Sendable, BitwiseCopyable {
  /// Invalid number of frames.
  case frameCount(UInt8)
  /// Invalid interval between samples, in minutes.
  case interval(UInt8)
  /// A frame or record beyond the announced number.
  case index(UInt8, count: Int)
  /// The echo of another request.
  case otherDay(RingDayLog.Day)
  /// The number of records in a record differs from that in the header or in earlier records.
  case recordCount(UInt8, announced: Int)
}

/// Event counts of an assembler.
public struct RingLogCounters: Hashable, Sendable, BitwiseCopyable {
  public internal(set) var foreign = 0
  public internal(set) var repeated = 0
  /// Frames received again with different bytes. The later ones are used, because today's log grows.
  public internal(set) var changed = 0
  public internal(set) var rejected = 0
  /// Logs abandoned because another one began.
  public internal(set) var restarted = 0

  /// Counts a result and returns it.
  mutating func counting<Log>(_ step: RingLogStep<Log>) -> RingLogStep<Log> {
    switch step {
    case .foreign: foreign += 1
    case .repeated: repeated += 1
    case .rejected: rejected += 1
    case .incomplete, .complete, .noData, .refused: break
    }
    return step
  }
}

extension RingFrame {
  /// Returns the result for a frame that ends the log before it began or does not belong to it; `nil` for a
  /// frame of the log.
  func opening<Log>(ofLog opcode: UInt8, isFinished: inout Bool) -> RingLogStep<Log>? {
    guard !isFinished else { return .foreign }
    if isError, refusedOpcode == opcode {
      isFinished = true
      return .refused(code: bytes[1])
    }
    guard self.opcode == opcode else { return .foreign }
    guard bytes[1] == 0xFF else { return nil }
    isFinished = true
    return .noData
  }
}
