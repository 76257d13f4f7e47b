/// Whether the scanner sends scan requests to advertisers.
public enum ScanKind: UInt8, Hashable, Sendable, BitwiseCopyable {
  case passive = 0
  case active = 1
}

/// Whether the controller reports every advertisement, or each advertiser only once.
public enum DuplicateFilter: UInt8, Hashable, Sendable, BitwiseCopyable {
  case reportAll = 0
  case reportOnce = 1
}

/// Scan interval and window, in units of 0.625 ms; range 4 … 16,384. The window is at most the interval.
public struct ScanTiming: Hashable, Sendable, BitwiseCopyable {
  public let interval: UInt16
  public let window: UInt16

  @inlinable public init(interval: UInt16, window: UInt16) {
    self.interval = interval
    self.window = window
  }

  /// Interval and window of 60 ms each: the controller receives all the time.
  public static let continuous = ScanTiming(interval: 0x60, window: 0x60)
}

/// The advertisers that a scanner or an initiator accepts. Core 5.4, Vol 6, Part B, 4.3.3.
public enum AdvertiserFilter: UInt8, Hashable, Sendable, BitwiseCopyable {
  case all = 0
  /// Devices on the controller's Filter Accept List.
  case acceptList = 1
}

/// Legacy scan parameters. Core 5.4, Vol 4, Part E, 7.8.10.
public struct LESetScanParameters: HCICommand {
  public static let opcode = HCIOpcode.leSetScanParameters
  public let kind: ScanKind
  public let timing: ScanTiming
  /// Type of the address that an active scan uses in its requests.
  public let ownType: AddressType
  public let filter: AdvertiserFilter

  @inlinable public init(
    kind: ScanKind, timing: ScanTiming, ownType: AddressType = .public, filter: AdvertiserFilter = .all
  ) {
    self.kind = kind
    self.timing = timing
    self.ownType = ownType
    self.filter = filter
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(kind.rawValue)
    output.append(u16: timing.interval)
    output.append(u16: timing.window)
    output.append(ownType.rawValue)
    output.append(filter.rawValue)
  }
}

/// Enables or disables scanning. Core 5.4, Vol 4, Part E, 7.8.11.
public struct LESetScanEnable: HCICommand {
  public static let opcode = HCIOpcode.leSetScanEnable
  /// Filter for duplicate reports; `nil` disables scanning.
  public let duplicates: DuplicateFilter?

  @inlinable public init(_ duplicates: DuplicateFilter?) { self.duplicates = duplicates }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(duplicates == nil ? 0 : 1)
    output.append(duplicates?.rawValue ?? 0)
  }
}

/// Extended scan parameters on the 1M PHY. Core 5.4, Vol 4, Part E, 7.8.64.
public struct LESetExtendedScanParameters: HCICommand {
  public static let opcode = HCIOpcode.leSetExtendedScanParameters
  public let kind: ScanKind
  public let timing: ScanTiming
  /// Type of the address that an active scan uses in its requests.
  public let ownType: AddressType
  public let filter: AdvertiserFilter

  @inlinable public init(
    kind: ScanKind, timing: ScanTiming, ownType: AddressType = .public, filter: AdvertiserFilter = .all
  ) {
    self.kind = kind
    self.timing = timing
    self.ownType = ownType
    self.filter = filter
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(ownType.rawValue)
    output.append(filter.rawValue)
    output.append(1)  // PHYs: LE 1M
    output.append(kind.rawValue)
    output.append(u16: timing.interval)
    output.append(u16: timing.window)
  }
}

/// Enables extended scanning without a time limit (duration 0, period 0), or disables it. Core 5.4, Vol 4,
/// Part E, 7.8.65.
public struct LESetExtendedScanEnable: HCICommand {
  public static let opcode = HCIOpcode.leSetExtendedScanEnable
  /// Filter for duplicate reports; `nil` disables scanning.
  public let duplicates: DuplicateFilter?

  @inlinable public init(_ duplicates: DuplicateFilter?) { self.duplicates = duplicates }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(duplicates == nil ? 0 : 1)
    output.append(duplicates?.rawValue ?? 0)
    output.append(u16: 0)
    output.append(u16: 0)
  }
}
