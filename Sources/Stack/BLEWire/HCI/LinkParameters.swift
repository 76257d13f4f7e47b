/// Timing of an LE link as it is in force. Core 5.4, Vol 6, Part B, 4.5.1–4.5.2.
public struct LinkParameters: Hashable, Sendable, BitwiseCopyable {
  /// Units of 1.25 ms; 6 … 3,200.
  public var interval: UInt16
  /// Connection events that the peripheral may skip; 0 … 499.
  public var latency: UInt16
  /// Units of 10 ms; 10 … 3,200.
  public var supervisionTimeout: UInt16

  @inlinable public init(interval: UInt16, latency: UInt16, supervisionTimeout: UInt16) {
    self.interval = interval
    self.latency = latency
    self.supervisionTimeout = supervisionTimeout
  }

  /// All 0, where nobody tells.
  package static let untold = LinkParameters(interval: 0, latency: 0, supervisionTimeout: 0)

  public var intervalMilliseconds: Double { Double(interval) * 1.25 }
  public var supervisionTimeoutMilliseconds: Int { Int(supervisionTimeout) * 10 }
}

/// The timing that a link is asked for. Core 5.4, Vol 4, Part E, 7.8.12.
public struct LinkParameterRange: Hashable, Sendable, BitwiseCopyable {
  /// Units of 1.25 ms.
  public var minimumInterval: UInt16
  public var maximumInterval: UInt16
  public var latency: UInt16
  /// Units of 10 ms.
  public var supervisionTimeout: UInt16

  @inlinable public init(
    minimumInterval: UInt16, maximumInterval: UInt16, latency: UInt16, supervisionTimeout: UInt16
  ) {
    self.minimumInterval = minimumInterval
    self.maximumInterval = maximumInterval
    self.latency = latency
    self.supervisionTimeout = supervisionTimeout
  }

  /// What the Linux kernel asks for if nobody says otherwise: 30 … 50 ms, latency 0, 420 ms.
  public static let `default` = LinkParameterRange(
    minimumInterval: 0x18, maximumInterval: 0x28, latency: 0, supervisionTimeout: 0x2A)

  /// Connection intervals that there are, in units of 1.25 ms: 7.5 … 4000 ms.
  public static let intervals: ClosedRange<UInt16> = 6...3200

  /// Whether a controller may take it: each field in its range, and a time-out longer than two intervals of
  /// a peripheral that skips all it may. Core 5.4, Vol 4, Part E, 7.8.18.
  public var isValid: Bool {
    Self.intervals.contains(minimumInterval) && Self.intervals.contains(maximumInterval)
      && minimumInterval <= maximumInterval
      && latency <= 499 && (10...3200).contains(supervisionTimeout)
      // In units of 1.25 ms: 10 ms are 8 of them.
      && Int(supervisionTimeout) * 8 > (1 + Int(latency)) * Int(maximumInterval) * 2
  }

  @inlinable func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: minimumInterval)
    output.append(u16: maximumInterval)
    output.append(u16: latency)
    output.append(u16: supervisionTimeout)
    // Connection event length: no wish.
    output.append(u16: 0)
    output.append(u16: 0)
  }
}
