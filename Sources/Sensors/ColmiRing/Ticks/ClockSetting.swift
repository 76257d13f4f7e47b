/// The setting of the wall clock at a timestamp.
///
/// Users and time daemons may set a machine's clock while a ring streams. Timestamps before and after that
/// are on different clocks, and only a program that watched the clock knows their offset.
public struct ClockSetting: Hashable, Sendable, BitwiseCopyable {
  /// Sum of all steps of the clock since the first timestamp, in nanoseconds; negative if it was set back.
  public var offset: Int64
  /// Number of steps of unknown size. The elapsed time across such a step is unknown, too.
  public var unknownCount: Int

  public init(offset: Int64 = 0, unknownCount: Int = 0) {
    (self.offset, self.unknownCount) = (offset, unknownCount)
  }
}
