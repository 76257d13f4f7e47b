public import BLECore

/// Connects to one device, from the own public or random address. Core 5.4, Vol 4, Part E, 7.8.12.
public struct LECreateConnection: HCICommand {
  public static let opcode = HCIOpcode.leCreateConnection
  public let peer: DeviceAddress
  public let ownType: AddressType
  public let parameters: LinkParameterRange

  public init(to peer: DeviceAddress, ownType: AddressType, parameters: LinkParameterRange) {
    self.peer = peer
    self.ownType = ownType
    self.parameters = parameters
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: ScanTiming.continuous.interval)
    output.append(u16: ScanTiming.continuous.window)
    output.append(0)  // no accept list: the peer below
    output.append(peer.type.rawValue)
    output.append(peer)
    output.append(ownType.rawValue)
    parameters.encode(into: &output)
  }
}

/// The same on a controller that uses the extended commands; on the 1M PHY. Core 5.4, Vol 4, Part E, 7.8.66.
public struct LEExtendedCreateConnection: HCICommand {
  public static let opcode = HCIOpcode.leExtendedCreateConnection
  public let peer: DeviceAddress
  public let ownType: AddressType
  public let parameters: LinkParameterRange

  public init(to peer: DeviceAddress, ownType: AddressType, parameters: LinkParameterRange) {
    self.peer = peer
    self.ownType = ownType
    self.parameters = parameters
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(0)  // no accept list: the peer below
    output.append(ownType.rawValue)
    output.append(peer.type.rawValue)
    output.append(peer)
    output.append(1)  // initiating PHYs: LE 1M
    output.append(u16: ScanTiming.continuous.interval)
    output.append(u16: ScanTiming.continuous.window)
    parameters.encode(into: &output)
  }
}

/// The random address that is used where the own address type is random. Core 5.4, Vol 4, Part E, 7.8.4.
public struct LESetRandomAddress: HCICommand {
  public static let opcode = HCIOpcode.leSetRandomAddress
  public let address: DeviceAddress

  public init(_ address: DeviceAddress) { self.address = address }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(address) }
}

/// Gives up a connect that is under way. Core 5.4, Vol 4, Part E, 7.8.13.
public struct LECreateConnectionCancel: HCICommand {
  public static let opcode = HCIOpcode.leCreateConnectionCancel
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Ends a link. Core 5.4, Vol 4, Part E, 7.1.6.
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

/// Asks for other timing of a link. Core 5.4, Vol 4, Part E, 7.8.18.
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

/// Asks for longer data packets on a link. Core 5.4, Vol 4, Part E, 7.8.33.
public struct LESetDataLength: HCICommand {
  public static let opcode = HCIOpcode.leSetDataLength
  public let handle: ConnectionHandle
  /// 27 … 251 octets.
  public let octets: UInt16
  /// 328 … 17,040 µs.
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

/// A physical layer. The raw value is that of events; commands have a bit for each.
public enum LEPHY: UInt8, Hashable, Sendable, BitwiseCopyable {
  case le1M = 1
  case le2M = 2
  case leCoded = 3

  @inlinable var bit: UInt8 { 1 << (rawValue - 1) }
}

/// Asks for one PHY in both directions. Core 5.4, Vol 4, Part E, 7.8.49.
public struct LESetPHY: HCICommand {
  public static let opcode = HCIOpcode.leSetPHY
  public let handle: ConnectionHandle
  public let phy: LEPHY

  public init(_ handle: ConnectionHandle, _ phy: LEPHY) {
    self.handle = handle
    self.phy = phy
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(0)  // both directions as follows
    output.append(phy.bit)
    output.append(phy.bit)
    output.append(u16: 0)  // coded PHY: no preference
  }
}
