public import BLEWire

/// What a link is asked for; `nil` leaves it to what the mode does by itself.
///
/// A wish, not a fact: the controller and the peer decide. `Connection.link` says what is in force.
public struct LinkRequest: Hashable, Sendable {
  /// What a wish is about, and what a refusal names.
  public enum Part: String, Hashable, Sendable {
    case timing, phy, dataLength
  }

  /// Units of 1.25 ms; 6 … 3,200.
  public var interval: ClosedRange<UInt16>?
  /// Connection events that the peripheral may skip; 0 … 499.
  public var latency: UInt16?
  /// Units of 10 ms; 10 … 3,200.
  public var supervisionTimeout: UInt16?
  /// In both directions.
  public var phy: LEPHY?
  /// Octets of one data packet that we send; 27 … 251. The peer decides what it sends itself.
  public var dataLength: UInt16?

  /// Begin with the shortest intervals, where the mode can, until `Connection.endFastStart`: the attributes are found in a
  /// fraction of the time. What is asked for above comes after it, else what the device wants.
  public var startsFast = false

  /// Stay with the timing that the link is made with, even if the device asks for another: for one that ends its link then.
  public var keepsTiming = false

  /// Of a fast start, in units of 1.25 ms: 7.5 … 15 ms.
  static let fastIntervals: ClosedRange<UInt16> = 6...12

  public init() {}

  /// Asks for no timing that lasts.
  mutating func leaveTiming() { (interval, latency, supervisionTimeout) = (nil, nil, nil) }

  /// Nothing is asked for that lasts.
  public var isEmpty: Bool {
    var request = LinkRequest()
    (request.startsFast, request.keepsTiming) = (startsFast, keepsTiming)
    return self == request
  }

  /// What a link is made with.
  var initialTiming: LinkParameterRange {
    guard startsFast else { return timing ?? .default }
    var range = LinkParameterRange.default
    (range.minimumInterval, range.maximumInterval) = (
      Self.fastIntervals.lowerBound, Self.fastIntervals.upperBound
    )
    return range
  }

  /// The timing to ask for, with the kernel's defaults for what was left open; `nil` if all of it was.
  ///
  /// A time-out that was left open grows with the interval: six events that the peripheral may not skip.
  public var timing: LinkParameterRange? {
    guard interval != nil || latency != nil || supervisionTimeout != nil else { return nil }
    var range = LinkParameterRange.default
    if let interval {
      (range.minimumInterval, range.maximumInterval) = (interval.lowerBound, interval.upperBound)
    }
    if let latency { range.latency = latency }
    // 8 intervals of 1.25 ms are a unit of 10 ms.
    let least = (6 * (1 + Int(range.latency)) * Int(range.maximumInterval) + 7) / 8
    range.supervisionTimeout =
      supervisionTimeout ?? UInt16(clamping: min(3200, max(Int(range.supervisionTimeout), least)))
    return range
  }

  /// What no controller would take; `nil` if all is in its range. Core 5.4, Vol 4, Part E, 7.8.18 and 7.8.33.
  public var fault: String? {
    if let timing, !timing.isValid {
      return "the supervision time-out must exceed two intervals of a peripheral that skips all it may: "
        + "interval 7.5 … 4000 ms, latency 0 … 499, supervision time-out 100 … 32000 ms"
    }
    if let dataLength, !(27...251).contains(dataLength) { return "the data length must be 27 … 251 octets" }
    return nil
  }
}
