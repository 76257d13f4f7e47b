/// Connection parameters in force on an LE link. Core 5.4, Vol 6, Part B, 4.5.1–4.5.2.
public struct LinkParameters: Hashable, Sendable, BitwiseCopyable {
  /// Connection interval in units of 1.25 ms; 6 … 3,200.
  public var interval: UInt16
  /// Number of connection events that the peripheral may skip; 0 … 499.
  public var latency: UInt16
  /// Supervision timeout in units of 10 ms; 10 … 3,200.
  public var supervisionTimeout: UInt16

  @inlinable public init(interval: UInt16, latency: UInt16, supervisionTimeout: UInt16) {
    self.interval = interval
    self.latency = latency
    self.supervisionTimeout = supervisionTimeout
  }

  /// Placeholder for unknown parameters: all fields are 0.
  package static let untold = LinkParameters(interval: 0, latency: 0, supervisionTimeout: 0)

  public var intervalMilliseconds: Double { Double(interval) * 1.25 }
  public var supervisionTimeoutMilliseconds: Int { Int(supervisionTimeout) * 10 }
}

/// Requested connection parameters of a link. Core 5.4, Vol 4, Part E, 7.8.12.
public struct LinkParameterRange: Hashable, Sendable, BitwiseCopyable {
  /// Minimum connection interval in units of 1.25 ms.
  public var minimumInterval: UInt16
  public var maximumInterval: UInt16
  public var latency: UInt16
  /// Supervision timeout in units of 10 ms.
  public var supervisionTimeout: UInt16

  @inlinable public init(
    minimumInterval: UInt16, maximumInterval: UInt16, latency: UInt16, supervisionTimeout: UInt16
  ) {
    self.minimumInterval = minimumInterval
    self.maximumInterval = maximumInterval
    self.latency = latency
    self.supervisionTimeout = supervisionTimeout
  }

  /// Defaults of the Linux kernel: 30 … 50 ms, latency 0, 420 ms.
  public static let `default` = LinkParameterRange(
    minimumInterval: 0x18, maximumInterval: 0x28, latency: 0, supervisionTimeout: 0x2A)

  /// Valid connection intervals in units of 1.25 ms: 7.5 … 4000 ms.
  public static let intervals: ClosedRange<UInt16> = 6...3200

  /// Whether a controller can accept the parameters: each is in its range, and the supervision timeout is
  /// longer than two intervals with maximum latency. Core 5.4, Vol 4, Part E, 7.8.18.
  public var isValid: Bool {
    Self.intervals.contains(minimumInterval) && Self.intervals.contains(maximumInterval)
      && minimumInterval <= maximumInterval
      && latency <= 499 && (10...3200).contains(supervisionTimeout)
      // In units of 1.25 ms: 10 ms is 8 units.
      && Int(supervisionTimeout) * 8 > (1 + Int(latency)) * Int(maximumInterval) * 2
  }

  @inlinable func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: minimumInterval)
    output.append(u16: maximumInterval)
    output.append(u16: latency)
    output.append(u16: supervisionTimeout)
    // Connection event length: no preference.
    output.append(u16: 0)
    output.append(u16: 0)
  }
}

/// Reads the RSSI of a link. Core 5.4, Vol 4, Part E, 7.5.4.
public struct ReadRSSI: HCIQuery {
  public static let opcode = HCIOpcode.readRSSI
  public let handle: ConnectionHandle

  public struct Reply: HCIReply {
    public let handle: ConnectionHandle
    /// RSSI in dBm; `nil` if the controller does not know it (0x7F).
    public let rssi: Int8?

    public init(validating returned: Span<UInt8>) throws(WireError) {
      try returned.require(3, .hciEvent)
      handle = ConnectionHandle(returned.u16(at: 0))
      rssi = returned[2] == 0x7F ? nil : Int8(bitPattern: returned[2])
    }
  }

  public init(_ handle: ConnectionHandle) { self.handle = handle }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u16: handle.rawValue) }
}

/// Requests the LE features of the peer. A separate event has the result. Core 5.4, Vol 4, Part E, 7.8.21.
public struct LEReadRemoteFeatures: HCICommand {
  public static let opcode = HCIOpcode.leReadRemoteFeatures
  public let handle: ConnectionHandle

  public init(_ handle: ConnectionHandle) { self.handle = handle }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u16: handle.rawValue) }
}

/// Requests the version and manufacturer of the peer's link layer. A separate event has the result. Core 5.4,
/// Vol 4, Part E, 7.1.23.
public struct ReadRemoteVersionInformation: HCICommand {
  public static let opcode = HCIOpcode.readRemoteVersionInformation
  public let handle: ConnectionHandle

  public init(_ handle: ConnectionHandle) { self.handle = handle }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u16: handle.rawValue) }
}
