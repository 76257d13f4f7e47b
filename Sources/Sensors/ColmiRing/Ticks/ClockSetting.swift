/// Which setting of the wall clock a timestamp was made by.
///
/// People and networks set the clock of a machine while a ring streams. Timestamps before and after that are by two clocks, and only
/// who watched the clock knows how they lie to each other.
public struct ClockSetting: Hashable, Sendable, BitwiseCopyable {
  /// By how much the clock had been set since the first timestamp, all times together: nanoseconds, below zero back.
  public var offset: Int64
  /// Times that it may have been set by an amount that is not known: how much time passed there is not known either.
  public var unknownCount: Int

  public init(offset: Int64 = 0, unknownCount: Int = 0) {
    (self.offset, self.unknownCount) = (offset, unknownCount)
  }
}
