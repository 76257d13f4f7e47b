public import BLECore
public import BLEWire

/// What a controller is, as its answers to the start-up said.
public struct ControllerDescription: Hashable, Sendable {
  public var address = DeviceAddress.any
  public var features = LEFeatures(bits: 0)
  /// 64 octets of bits. Core 5.4, Vol 4, Part E, 6.27.
  public var supportedCommands: [UInt8] = []
  /// Octets of data in one ACL packet to the controller, and how many packets it buffers.
  public var aclByteCount = 27
  public var aclPacketCount = 1
  public var hciVersion: UInt8 = 0
  public var manufacturer: UInt16 = 0

  public init() {}

  /// Whether the extended family of scan and connect commands is used. The legacy family is not touched then: a
  /// controller refuses a mix. Octet 37, bits 5 and 6: both extended scan commands.
  public var usesExtendedCommands: Bool {
    supportedCommands.count > 37 && supportedCommands[37] & 0x60 == 0x60
  }
}

/// A link, as it came up.
public struct LinkDescription: Hashable, Sendable {
  public let handle: ConnectionHandle
  public let peer: DeviceAddress
  public let parameters: LinkParameters
}

/// Why a host stopped working with its controller.
public enum HCIHostFailure: Error, Hashable, Sendable {
  /// The controller refused a command of the start-up.
  case startUpRefused(HCIOpcode, HCIStatus)
  /// No answer to a command within two seconds.
  case commandTimedOut(HCIOpcode)
  /// The controller reported a hardware error with this code.
  case hardwareError(UInt8)
  /// It knows no LE.
  case notLowEnergy
  /// The transport ended.
  case transportLost
}

/// What happened, in order. Values and reports are lent by `HCIHost.receive` instead.
public enum HCIHostEvent: Hashable, Sendable {
  /// The start-up is done.
  case ready(ControllerDescription)
  /// A command of `submit` was answered; return parameters without the status octet.
  case answered(CommandID, HCIStatus, [UInt8])
  case connected(LinkDescription)
  /// A connect ended without a link.
  case connectFailed(HCIStatus)
  case parametersChanged(ConnectionHandle, LinkParameters)
  case dataLengthChanged(ConnectionHandle, LEDataLengthChange)
  case phyChanged(ConnectionHandle, LEPHYUpdateComplete)
  case disconnected(ConnectionHandle, reason: HCIStatus)
  /// Nothing works any more; every link is gone.
  case failed(HCIHostFailure)
}
