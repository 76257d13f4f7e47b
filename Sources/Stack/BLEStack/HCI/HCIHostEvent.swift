public import BLEWire

/// A controller's properties, as it reported them during initialisation.
public struct ControllerDescription: Hashable, Sendable {
  public var address = DeviceAddress.any
  public var features = LEFeatures(bits: 0)
  /// Supported commands: 64 bytes of flags. Core 5.4, Vol 4, Part E, 6.27.
  public var supportedCommands: [UInt8] = []
  /// Maximum size of the data in one ACL packet to the controller, in bytes. `aclPacketCount` is the number
  /// of packets that the controller can buffer.
  public var aclByteCount = 27
  public var aclPacketCount = 1
  public var hciVersion: UInt8 = 0
  public var manufacturer: UInt16 = 0

  public init() {}

  /// Whether to use advertising sets: the controller supports all their commands (byte 36, bits 1 to 5). A
  /// controller with the extended scan commands but without advertising sets cannot advertise, because it
  /// would refuse the legacy commands.
  public var hasAdvertisingSets: Bool { supportedCommands.count > 36 && supportedCommands[36] & 0x3E == 0x3E }

  /// Whether to use the extended scan and connect commands instead of the legacy commands: the controller
  /// supports both extended scan commands (byte 37, bits 5 and 6). A controller refuses a mix of legacy and
  /// extended commands.
  public var usesExtendedCommands: Bool {
    supportedCommands.count > 37 && supportedCommands[37] & 0x60 == 0x60
  }
}

/// Properties of a link as reported by the controller and the peer's link layer; `nil` if they are not
/// available in the current mode.
public struct LinkFacts: Hashable, Sendable {
  /// RSSI of the last received packet, in dBm.
  public var rssi: Int8?
  public var version: LinkLayerVersion?
  public var features: LEFeatures?

  public init() {}
}

/// A link at the time it came up.
public struct LinkDescription: Hashable, Sendable {
  public let handle: ConnectionHandle
  /// Role of this side: central if it connected, peripheral if it advertised.
  public let role: LEConnectionComplete.Role
  public let peer: DeviceAddress
  public let parameters: LinkParameters
}

/// Reason why a host stopped using its controller.
public enum HCIHostFailure: Error, Hashable, Sendable {
  /// The controller refused a command during initialisation.
  case startUpRefused(HCIOpcode, HCIStatus)
  /// The controller did not respond to a command within two seconds.
  case commandTimedOut(HCIOpcode)
  /// The controller reported a hardware error with this code.
  case hardwareError(UInt8)
  /// The controller has reset itself: it sent a Command Complete for a Reset that this host did not send.
  case unaskedReset
  /// The controller has restarted and has lost a link that was up. A vendor event may have reported the
  /// restart.
  case restarted
  /// The controller does not support LE.
  case notLowEnergy
  /// The controller has no data buffers, neither dedicated to LE nor shared with BR/EDR.
  case noDataBuffers
  /// The controller's data buffers are smaller than the specification's minimum of 27 bytes.
  case dataBuffersTooSmall(byteCount: Int)
  /// The transport ended.
  case transportLost
}

/// Events of a host, in order. `HCIHost.receive` lends values and advertising reports, which are not events.
public enum HCIHostEvent: Hashable, Sendable {
  /// The controller is initialised; sent again after `restarting`.
  case ready(ControllerDescription)
  /// The response to a command passed to `submit`: status, and return parameters without the status byte.
  case answered(CommandID, HCIStatus, [UInt8])
  case connected(LinkDescription)
  /// A connection attempt ended without a link.
  case connectFailed(HCIStatus)
  case parametersChanged(ConnectionHandle, LinkParameters)
  /// A connection update failed or had no effect. Either side may have requested it.
  case parametersUnchanged(ConnectionHandle, HCIStatus)
  case dataLengthChanged(ConnectionHandle, LEDataLengthChange)
  case phyChanged(ConnectionHandle, LEPHYUpdateComplete)
  case phyUnchanged(ConnectionHandle, HCIStatus)
  /// LE features of the peer; valid only if the status is success.
  case remoteFeatures(ConnectionHandle, HCIStatus, LEFeatures)
  /// Version and manufacturer of the peer's link layer; valid only if the status is success.
  case remoteVersion(ConnectionHandle, HCIStatus, LinkLayerVersion)
  /// An event of the link's Security Manager.
  case security(ConnectionHandle, SecurityEvent)
  /// A link was encrypted, changed its key, or could not be encrypted.
  case encryption(ConnectionHandle, HCIStatus)
  case disconnected(ConnectionHandle, reason: HCIStatus)
  /// The controller failed and is being reset. All links have ended, and outstanding commands get no
  /// response. `ready` follows.
  case restarting(HCIHostFailure)
  /// The host has failed and cannot be used any more; all links have ended.
  case failed(HCIHostFailure)
}

/// A procedure of a link that ends with a separate event. Its Command Status reports only the start.
///
/// To wait for the end, register a waiter under this key. Resume the waiter on `HCIHostEvent.end`, on a
/// failure status in `answered`, or when the link ends.
public struct LinkProcedure: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    case connectionUpdate, phyUpdate, remoteFeatures, remoteVersion, encryption
  }

  public let handle: ConnectionHandle
  public let kind: Kind

  public init(_ kind: Kind, on handle: ConnectionHandle) {
    self.kind = kind
    self.handle = handle
  }
}

extension HCIHostEvent {
  /// The procedure that this event ends, with its status; `nil` for any other event.
  public var end: (procedure: LinkProcedure, status: HCIStatus)? {
    switch self {
    case .parametersChanged(let handle, _): (LinkProcedure(.connectionUpdate, on: handle), .success)
    case .parametersUnchanged(let handle, let status):
      (LinkProcedure(.connectionUpdate, on: handle), status)
    case .phyChanged(let handle, _): (LinkProcedure(.phyUpdate, on: handle), .success)
    case .phyUnchanged(let handle, let status): (LinkProcedure(.phyUpdate, on: handle), status)
    case .remoteFeatures(let handle, let status, _): (LinkProcedure(.remoteFeatures, on: handle), status)
    case .encryption(let handle, let status): (LinkProcedure(.encryption, on: handle), status)
    case .remoteVersion(let handle, let status, _): (LinkProcedure(.remoteVersion, on: handle), status)
    default: nil
    }
  }
}
