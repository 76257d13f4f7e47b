extension HCIOpcode {
  public static let leSetAdvertisingParameters = HCIOpcode(group: 0x08, command: 0x006)
  public static let leSetAdvertisingData = HCIOpcode(group: 0x08, command: 0x008)
  public static let leSetScanResponseData = HCIOpcode(group: 0x08, command: 0x009)
  public static let leSetAdvertisingEnable = HCIOpcode(group: 0x08, command: 0x00A)
}

/// Undirected legacy advertising PDU types. The type determines whether an advertiser accepts connections and
/// scan requests. Core 5.4, Vol 4, Part E, 7.8.5.
public enum AdvertisingKind: UInt8, Hashable, Sendable, BitwiseCopyable {
  /// Accepts connections and scan requests.
  case connectable = 0
  /// Accepts scan requests.
  case scannable = 2
  case nonConnectable = 3
}

/// Minimum and maximum time between two advertisements, in units of 0.625 ms; range 0x20 … 0x4000, 20 ms …
/// 10.24 s. The controller chooses a value between them.
public struct AdvertisingInterval: Hashable, Sendable, BitwiseCopyable {
  /// Valid advertising intervals. Core 5.4, Vol 4, Part E, 7.8.5.
  public static let range: ClosedRange<UInt16> = 0x20...0x4000

  public let least: UInt16
  public let most: UInt16

  /// Creates a range of intervals in units of 0.625 ms.
  ///
  /// - Parameter units: values outside `range` are clamped.
  @inlinable public init(_ units: ClosedRange<UInt16>) {
    least = max(Self.range.lowerBound, min(units.lowerBound, Self.range.upperBound))
    most = max(Self.range.lowerBound, min(units.upperBound, Self.range.upperBound))
  }

  /// 30 … 60 ms, for use while a user tries to discover the device: TGAP(adv_fast_interval1). Core 5.4, Vol
  /// 3, Part C, Appendix A.
  public static let fast = AdvertisingInterval(0x30...0x60)
  /// 1 … 1.2 s, for background advertising: TGAP(adv_slow_interval).
  public static let slow = AdvertisingInterval(0x640...0x780)
}

/// Parameters of undirected legacy advertising on all three channels, for all devices. Core 5.4, Vol 4, Part
/// E, 7.8.5.
public struct LESetAdvertisingParameters: HCICommand {
  public static let opcode = HCIOpcode.leSetAdvertisingParameters
  public let kind: AdvertisingKind
  public let interval: AdvertisingInterval
  public let ownType: AddressType

  @inlinable public init(
    kind: AdvertisingKind, interval: AdvertisingInterval, ownType: AddressType = .public
  ) {
    self.kind = kind
    self.interval = interval
    self.ownType = ownType
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: interval.least)
    output.append(u16: interval.most)
    output.append(kind.rawValue)
    output.append(ownType.rawValue)
    output.append(zeros: 7)  // peer: for directed advertising only
    output.append(0x07)  // channels 37, 38 and 39
    output.append(0)  // accept scan and connection requests from all devices
  }
}

/// Whether advertising is enabled.
public enum AdvertisingState: UInt8, Hashable, Sendable, BitwiseCopyable {
  case off = 0
  case on = 1
}

/// Enables legacy advertising until a central connects, or disables it. Core 5.4, Vol 4, Part E, 7.8.9.
public struct LESetAdvertisingEnable: HCICommand {
  public static let opcode = HCIOpcode.leSetAdvertisingEnable
  public let state: AdvertisingState

  @inlinable public init(_ state: AdvertisingState) { self.state = state }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(state.rawValue) }
}

#if !NO_ALLOCATIONS
  /// Sets the data of an advertiser: AD structures, at most 31 bytes.
  ///
  /// Core 5.4, Vol 4, Part E, 7.8.7. Always 32 bytes on the wire: the length, and the data padded with zeros.
  public struct LESetAdvertisingData: HCICommand {
    public static let opcode = HCIOpcode.leSetAdvertisingData
    public static let maximumByteCount = 31
    public let data: [UInt8]

    /// Creates the command for this advertising data.
    ///
    /// - Precondition: at most 31 bytes.
    public init(_ data: [UInt8]) {
      precondition(data.count <= Self.maximumByteCount)
      self.data = data
    }

    public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(legacy: data) }
  }

  /// Sets the response to a scan request. Core 5.4, Vol 4, Part E, 7.8.8.
  public struct LESetScanResponseData: HCICommand {
    public static let opcode = HCIOpcode.leSetScanResponseData
    public let data: [UInt8]

    /// Creates the command for this scan response data.
    ///
    /// - Precondition: at most 31 bytes.
    public init(_ data: [UInt8]) {
      precondition(data.count <= LESetAdvertisingData.maximumByteCount)
      self.data = data
    }

    public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(legacy: data) }
  }

  extension OutputSpan where Element == UInt8 {
    fileprivate mutating func append(legacy data: [UInt8]) {
      append(UInt8(truncatingIfNeeded: data.count))
      append(data.span)
      append(zeros: LESetAdvertisingData.maximumByteCount - data.count)
    }
  }
#endif
