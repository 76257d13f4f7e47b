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

  /// Whether advertising sets are used, too: all commands that they need are there. Octet 36, bits 1 to 5. Of a controller
  /// that has the extended scan commands and not these, nothing is used to advertise: it would refuse the legacy ones.
  public var hasAdvertisingSets: Bool { supportedCommands.count > 36 && supportedCommands[36] & 0x3E == 0x3E }

  /// Whether the extended family of scan and connect commands is used. The legacy family is not touched then: a
  /// controller refuses a mix. Octet 37, bits 5 and 6: both extended scan commands.
  public var usesExtendedCommands: Bool {
    supportedCommands.count > 37 && supportedCommands[37] & 0x60 == 0x60
  }
}

/// What the controller and the peer's link layer say of a link; `nil` where a mode does not get to know.
public struct LinkFacts: Hashable, Sendable {
  /// dBm, of the last packet that was heard.
  public var rssi: Int8?
  public var version: LinkLayerVersion?
  public var features: LEFeatures?

  public init() {}
}

/// A link, as it came up.
public struct LinkDescription: Hashable, Sendable {
  public let handle: ConnectionHandle
  /// Ours: the central's where we connected, the peripheral's where we advertised.
  public let role: LEConnectionComplete.Role
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
  /// It has reset itself: Command Complete of a Reset that this host did not send.
  case unaskedReset
  /// It has started again without a word of HCI: it said so in an event of its maker's, or does not know a link that is up.
  case restarted
  /// It knows no LE.
  case notLowEnergy
  /// It has no buffers for data, neither for LE nor shared.
  case noDataBuffers
  /// Its buffers for data take fewer octets than the 27 of the specification.
  case dataBuffersTooSmall(byteCount: Int)
  /// The transport ended.
  case transportLost
}

/// What happened, in order. Values and reports are lent by `HCIHost.receive` instead.
public enum HCIHostEvent: Hashable, Sendable {
  /// The start-up is done; again after `restarting`.
  case ready(ControllerDescription)
  /// A command of `submit` was answered; return parameters without the status octet.
  case answered(CommandID, HCIStatus, [UInt8])
  case connected(LinkDescription)
  /// A connect ended without a link.
  case connectFailed(HCIStatus)
  case parametersChanged(ConnectionHandle, LinkParameters)
  /// An update of the timing, ours or the peer's, came to nothing.
  case parametersUnchanged(ConnectionHandle, HCIStatus)
  case dataLengthChanged(ConnectionHandle, LEDataLengthChange)
  case phyChanged(ConnectionHandle, LEPHYUpdateComplete)
  case phyUnchanged(ConnectionHandle, HCIStatus)
  /// What the peer's link layer can; no features with another status than success.
  case remoteFeatures(ConnectionHandle, HCIStatus, LEFeatures)
  /// Who made the peer's link layer; meaningless with another status than success.
  case remoteVersion(ConnectionHandle, HCIStatus, LinkLayerVersion)
  /// What the Security Manager of a link has to say.
  case security(ConnectionHandle, SecurityEvent)
  /// A link is encrypted, has another key, or could not be encrypted.
  case encryption(ConnectionHandle, HCIStatus)
  case disconnected(ConnectionHandle, reason: HCIStatus)
  /// The controller failed and is being reset. All links are gone, and commands without an answer get none; `ready` follows.
  case restarting(HCIHostFailure)
  /// Nothing works any more; every link is gone.
  case failed(HCIHostFailure)
}

/// A command of a link whose Command Status only says that work has begun: its end is an event of its own.
///
/// To wait for it, keep a waiter under this key, and end it by `HCIHostEvent.end`, by a refusing status in
/// `answered`, or with the link.
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
  /// The procedure that this event ends, and how; `nil` for any other event.
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
