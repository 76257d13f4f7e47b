/// Connects to one device, or to the first device on the Filter Accept List that advertises. Uses this
/// device's public or random address. Core 5.4, Vol 4, Part E, 7.8.12.
public struct LECreateConnection: HCICommand {
  public static let opcode = HCIOpcode.leCreateConnection
  /// The device to connect to; `nil` for any device on the accept list.
  public let peer: DeviceAddress?
  public let ownType: AddressType
  public let parameters: LinkParameterRange

  public init(to peer: DeviceAddress, ownType: AddressType, parameters: LinkParameterRange) {
    self.peer = peer
    self.ownType = ownType
    self.parameters = parameters
  }

  public init(toAcceptListFrom ownType: AddressType, parameters: LinkParameterRange) {
    peer = nil
    self.ownType = ownType
    self.parameters = parameters
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: ScanTiming.continuous.interval)
    output.append(u16: ScanTiming.continuous.window)
    output.append(AdvertiserFilter(initiatorFor: peer).rawValue)
    output.append(initiatorPeer: peer)
    output.append(ownType.rawValue)
    parameters.encode(into: &output)
  }
}

/// Connects to a device like `LECreateConnection`, with the extended command and on the 1M PHY. Core 5.4, Vol
/// 4, Part E, 7.8.66.
public struct LEExtendedCreateConnection: HCICommand {
  public static let opcode = HCIOpcode.leExtendedCreateConnection
  /// The device to connect to; `nil` for any device on the accept list.
  public let peer: DeviceAddress?
  public let ownType: AddressType
  public let parameters: LinkParameterRange

  public init(to peer: DeviceAddress, ownType: AddressType, parameters: LinkParameterRange) {
    self.peer = peer
    self.ownType = ownType
    self.parameters = parameters
  }

  public init(toAcceptListFrom ownType: AddressType, parameters: LinkParameterRange) {
    peer = nil
    self.ownType = ownType
    self.parameters = parameters
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(AdvertiserFilter(initiatorFor: peer).rawValue)
    output.append(ownType.rawValue)
    output.append(initiatorPeer: peer)
    output.append(1)  // initiating PHYs: LE 1M
    output.append(u16: ScanTiming.continuous.interval)
    output.append(u16: ScanTiming.continuous.window)
    parameters.encode(into: &output)
  }
}

/// Sets the controller's random address. Commands use the address if their own address type is random. Core
/// 5.4, Vol 4, Part E, 7.8.4.
public struct LESetRandomAddress: HCICommand {
  public static let opcode = HCIOpcode.leSetRandomAddress
  public let address: DeviceAddress

  public init(_ address: DeviceAddress) { self.address = address }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(address) }
}

/// Cancels a connection attempt. Core 5.4, Vol 4, Part E, 7.8.13.
public struct LECreateConnectionCancel: HCICommand {
  public static let opcode = HCIOpcode.leCreateConnectionCancel
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Closes a link. Core 5.4, Vol 4, Part E, 7.1.6.
public struct Disconnect: HCICommand {
  public static let opcode = HCIOpcode.disconnect
  public let handle: ConnectionHandle
  public let reason: HCIStatus

  public init(_ handle: ConnectionHandle, reason: HCIStatus = .remoteUserTerminated) {
    self.handle = handle
    self.reason = reason
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(reason.rawValue)
  }
}

/// Requests new connection parameters for a link. Core 5.4, Vol 4, Part E, 7.8.18.
public struct LEConnectionUpdate: HCICommand {
  public static let opcode = HCIOpcode.leConnectionUpdate
  public let handle: ConnectionHandle
  public let parameters: LinkParameterRange

  public init(_ handle: ConnectionHandle, _ parameters: LinkParameterRange) {
    self.handle = handle
    self.parameters = parameters
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    parameters.encode(into: &output)
  }
}

/// Accepts the connection parameters that the peer's link layer requests. Core 5.4, Vol 4, Part E, 7.8.31.
public struct LERemoteConnectionParameterRequestReply: HCICommand {
  public static let opcode = HCIOpcode.leRemoteConnectionParameterRequestReply
  public let handle: ConnectionHandle
  public let parameters: LinkParameterRange

  public init(_ handle: ConnectionHandle, _ parameters: LinkParameterRange) {
    self.handle = handle
    self.parameters = parameters
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    parameters.encode(into: &output)
  }
}

/// Rejects the connection parameters that the peer's link layer requests. Core 5.4, Vol 4, Part E, 7.8.32.
public struct LERemoteConnectionParameterRequestNegativeReply: HCICommand {
  public static let opcode = HCIOpcode.leRemoteConnectionParameterRequestNegativeReply
  public let handle: ConnectionHandle
  public let reason: HCIStatus

  public init(_ handle: ConnectionHandle, reason: HCIStatus = .unacceptableConnectionParameters) {
    self.handle = handle
    self.reason = reason
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(reason.rawValue)
  }
}

extension AdvertiserFilter {
  fileprivate init(initiatorFor peer: DeviceAddress?) { self = peer == nil ? .acceptList : .all }
}

extension OutputSpan where Element == UInt8 {
  /// Appends the peer's address type and address. The controller ignores both if it uses the accept list.
  fileprivate mutating func append(initiatorPeer peer: DeviceAddress?) {
    append((peer ?? .any).type.rawValue)
    append(peer ?? .any)
  }
}

/// Clears the Filter Accept List. Not allowed while the list is in use. Core 5.4, Vol 4, Part E, 7.8.15.
public struct LEClearFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode.leClearFilterAcceptList
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Adds a device to the Filter Accept List. Not allowed while the list is in use. Core 5.4, Vol 4, Part E,
/// 7.8.16.
public struct LEAddDeviceToFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode.leAddDeviceToFilterAcceptList
  public let address: DeviceAddress

  public init(_ address: DeviceAddress) { self.address = address }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(address.type.rawValue)
    output.append(address)
  }
}

/// Requests longer data packets on a link. Core 5.4, Vol 4, Part E, 7.8.33.
public struct LESetDataLength: HCICommand {
  public static let opcode = HCIOpcode.leSetDataLength
  public let handle: ConnectionHandle
  /// Maximum size of the packets that this side sends, in bytes; 27 … 251.
  public let octets: UInt16
  /// Maximum duration of the packets that this side sends, in µs; 328 … 17,040.
  public let microseconds: UInt16

  public init(_ handle: ConnectionHandle, octets: UInt16 = 251, microseconds: UInt16 = 2120) {
    self.handle = handle
    self.octets = octets
    self.microseconds = microseconds
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(u16: octets)
    output.append(u16: microseconds)
  }
}

/// A physical layer (PHY). Events contain the raw value; commands use one bit per PHY.
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
  /// Appends the All_PHYs field, which has a bit for each direction without a preference, and then both sets.
  fileprivate mutating func append(transmit: LEPHYSet?, receive: LEPHYSet?) {
    append((transmit == nil ? 1 : 0) | (receive == nil ? 2 : 0))
    append(transmit?.rawValue ?? 0)
    append(receive?.rawValue ?? 0)
  }
}
