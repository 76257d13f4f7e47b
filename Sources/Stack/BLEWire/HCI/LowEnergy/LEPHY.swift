/// A physical layer. The raw value is the one in events; commands use one bit per PHY.
public enum LEPHY: UInt8, Hashable, Sendable, BitwiseCopyable {
  case le1M = 1
  case le2M = 2
  case leCoded = 3

  @inlinable var bit: UInt8 { 1 << (rawValue - 1) }
}

/// The PHYs that may be used in one direction. Core 5.4, Vol 4, Part E, 7.8.48.
public struct LEPHYSet: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }
  @inlinable public init(_ phy: LEPHY) { rawValue = phy.bit }

  public static let le1M = LEPHYSet(.le1M)
  public static let le2M = LEPHYSet(.le2M)
  public static let leCoded = LEPHYSet(.leCoded)
}

#if !NO_ALLOCATIONS
  extension LEPHYSet: OptionSet {}
#endif

/// Preferred coding of packets sent on the coded PHY. Core 5.4, Vol 4, Part E, 7.8.49.
public enum LECodedPreference: UInt16, Hashable, Sendable, BitwiseCopyable {
  case none = 0
  /// 500 kbit/s.
  case s2 = 1
  /// 125 kbit/s, for the longest range.
  case s8 = 2
}

/// Requests PHYs for a link; LE PHY Update Complete reports the result. Core 5.4, Vol 4, Part E, 7.8.49.
public struct LESetPHY: HCICommand {
  public static let opcode = HCIOpcode.leSetPHY
  public let handle: ConnectionHandle
  /// PHYs on which to send; `nil` if the host has no preference.
  public let transmit: LEPHYSet?
  public let receive: LEPHYSet?
  public let coded: LECodedPreference

  /// Requests the same PHY in both directions.
  public init(_ handle: ConnectionHandle, _ phy: LEPHY) {
    self.init(handle, transmit: LEPHYSet(phy), receive: LEPHYSet(phy))
  }

  public init(
    _ handle: ConnectionHandle, transmit: LEPHYSet?, receive: LEPHYSet?,
    coded: LECodedPreference = .none
  ) {
    self.handle = handle
    self.transmit = transmit
    self.receive = receive
    self.coded = coded
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(transmit: transmit, receive: receive)
    output.append(u16: coded.rawValue)
  }
}

extension OutputSpan where Element == UInt8 {
  /// Appends All_PHYs, with a bit for each direction without a preference, and then both sets.
  fileprivate mutating func append(transmit: LEPHYSet?, receive: LEPHYSet?) {
    append((transmit == nil ? 1 : 0) | (receive == nil ? 2 : 0))
    append(transmit?.rawValue ?? 0)
    append(receive?.rawValue ?? 0)
  }
}
