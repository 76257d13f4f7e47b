/// What a frame meant to the log that is being put together.
public enum RingLogStep<Log: Sendable>: Sendable {
  /// It is part of the log, which goes on.
  case incomplete
  /// The last that was missing. What comes later is `foreign`.
  case complete(Log)
  /// It belongs to something else; rings tell things unasked at any time.
  case foreign
  /// It was there before, octet by octet.
  case repeated
  /// There is no log for the day.
  case noData
  /// The ring does not know the command.
  case refused(code: UInt8)
  /// It contradicts what the log is so far. The log goes on without it.
  case rejected(RingLogError)
}

extension RingLogStep: Equatable where Log: Equatable {}

/// Why a frame of a log was not taken.
public enum RingLogError: Error, Hashable, Sendable, BitwiseCopyable {
  /// A log of so many frames makes no sense.
  case frameCount(UInt8)
  /// Minutes between samples that make no sense.
  case interval(UInt8)
  /// A frame or record beyond the number announced.
  case index(UInt8, count: Int)
  /// The echo of another request.
  case otherDay(RingDayLog.Day)
  /// A record tells another number of records than the header, or the records before.
  case recordCount(UInt8, announced: Int)
}

/// What happened on the way to a log.
public struct RingLogCounters: Hashable, Sendable, BitwiseCopyable {
  public internal(set) var foreign = 0
  public internal(set) var repeated = 0
  /// Frames that came again with other octets; the later ones count, as today's log grows.
  public internal(set) var changed = 0
  public internal(set) var rejected = 0
  /// Logs given up because another one began.
  public internal(set) var restarted = 0

  /// Counts what an assembler said to a frame, and hands it on.
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
  /// What ends a log before it began, or has nothing to do with it; `nil` for a frame of the log.
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
