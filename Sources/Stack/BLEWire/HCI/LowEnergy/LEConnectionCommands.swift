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

/// `LECreateConnection` for controllers that use the extended commands; on the 1M PHY. Core 5.4, Vol 4, Part
/// E, 7.8.66.
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

/// Sets the random address. It is used by commands whose own address type is random. Core 5.4, Vol 4, Part E,
/// 7.8.4.
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

/// Requests other connection parameters for a link. Core 5.4, Vol 4, Part E, 7.8.18.
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
  /// Address type and address. The controller ignores both if the accept list is used.
  fileprivate mutating func append(initiatorPeer peer: DeviceAddress?) {
    append((peer ?? .any).type.rawValue)
    append(peer ?? .any)
  }
}
