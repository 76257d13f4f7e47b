public import BLECore
import Synchronization

/// When samples came over the link that is up, for the session to know its gaps. Written by the receive thread.
public final class SampleTimes: Sendable {
  /// Nanoseconds; `none` before the first.
  private let firstTime = Atomic<Int64>(SampleTimes.none)
  private let lastTime = Atomic<Int64>(SampleTimes.none)
  private static let none = Int64.min

  public init() {}

  /// The first and the last sample of the link; `nil` where there was none.
  public var first: ReceiveTime? { Self.time(firstTime) }
  public var last: ReceiveTime? { Self.time(lastTime) }

  /// Receive thread only.
  public func note(_ time: ReceiveTime) {
    if firstTime.load(ordering: .relaxed) == Self.none {
      firstTime.store(time.nanoseconds, ordering: .relaxed)
    }
    lastTime.store(time.nanoseconds, ordering: .relaxed)
  }

  /// A new link.
  func begin() {
    firstTime.store(Self.none, ordering: .relaxed)
    lastTime.store(Self.none, ordering: .relaxed)
  }

  private static func time(_ value: borrowing Atomic<Int64>) -> ReceiveTime? {
    let nanoseconds = value.load(ordering: .relaxed)
    return nanoseconds == none ? nil : ReceiveTime(nanoseconds: nanoseconds)
  }
}
