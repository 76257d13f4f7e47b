public import BLEWire

/// Requested parameters of a link; `nil` keeps the default of the access mode.
///
/// The controller and the peer decide which parameters apply. `Connection.link` has the values in force.
public struct LinkRequest: Hashable, Sendable {
  /// A part of a request. Identifies a refused parameter.
  public enum Part: String, Hashable, Sendable {
    case timing, phy, dataLength
  }

  /// Connection interval in units of 1.25 ms; 6 … 3,200.
  public var interval: ClosedRange<UInt16>?
  /// Number of connection events that the peripheral may skip; 0 … 499.
  public var latency: UInt16?
  /// Supervision timeout in units of 10 ms; 10 … 3,200.
  public var supervisionTimeout: UInt16?
  /// PHY for both directions.
  public var phy: LEPHY?
  /// Maximum size of the data packets that this side sends, in bytes; 27 … 251. The peer chooses its own
  /// maximum.
  public var dataLength: UInt16?

  /// Whether to start with the shortest intervals until `Connection.endFastStart`, if the mode supports it. A
  /// fast start shortens discovery to a fraction of the time. Afterwards the timing above applies, or, if it
  /// is not set, the timing that the device requests.
  public var startsFast = false

  /// Whether to keep the initial timing even if the device requests other timing. Needed for a device that
  /// would otherwise end the link.
  public var keepsTiming = false

  /// Intervals of a fast start, in units of 1.25 ms: 7.5 … 15 ms.
  static let fastIntervals: ClosedRange<UInt16> = 6...12

  public init() {}

  /// Removes the lasting timing from the request.
  mutating func leaveTiming() { (interval, latency, supervisionTimeout) = (nil, nil, nil) }

  /// Whether no lasting parameter is requested.
  public var isEmpty: Bool {
    var request = LinkRequest()
    (request.startsFast, request.keepsTiming) = (startsFast, keepsTiming)
    return self == request
  }

  /// The timing with which the link is created.
  var initialTiming: LinkParameterRange {
    guard startsFast else { return timing ?? .default }
    var range = LinkParameterRange.default
    (range.minimumInterval, range.maximumInterval) = (
      Self.fastIntervals.lowerBound, Self.fastIntervals.upperBound
    )
    return range
  }

  /// The timing to request, with the kernel's defaults for unset fields; `nil` if all fields are unset.
  ///
  /// If the supervision timeout is unset, it is the default, increased if necessary to cover at least six
  /// events that the peripheral must not skip.
  public var timing: LinkParameterRange? {
    guard interval != nil || latency != nil || supervisionTimeout != nil else { return nil }
    var range = LinkParameterRange.default
    if let interval {
      (range.minimumInterval, range.maximumInterval) = (interval.lowerBound, interval.upperBound)
    }
    if let latency { range.latency = latency }
    // 8 intervals of 1.25 ms are 10 ms.
    let least = (6 * (1 + Int(range.latency)) * Int(range.maximumInterval) + 7) / 8
    range.supervisionTimeout =
      supervisionTimeout ?? UInt16(clamping: min(3200, max(Int(range.supervisionTimeout), least)))
    return range
  }

  /// Reason why a controller would refuse the request; `nil` if all values are in range. Core 5.4, Vol 4,
  /// Part E, 7.8.18 and 7.8.33.
  public var fault: String? {
    if let timing, !timing.isValid {
      return "the supervision timeout must exceed 2 × (latency + 1) × interval: "
        + "interval 7.5 … 4000 ms, latency 0 … 499, supervision timeout 100 … 32000 ms"
    }
    if let dataLength, !(27...251).contains(dataLength) { return "the data length must be 27 … 251 bytes" }
    return nil
  }
}
