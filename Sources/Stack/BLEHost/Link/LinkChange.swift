import BLEStack
public import BLEWire

/// How secure a link is.
public struct LinkSecurity: Hashable, Sendable {
  public var isEncrypted: Bool
  /// 7 … 16; `nil` if not known, as below.
  public var keyByteCount: Int?
  /// Whether the key was made with protection against a man in the middle.
  public var isAuthenticated: Bool?
  public var isSecureConnections: Bool?
  /// Whether a key of the device is stored.
  public var isBonded: Bool

  /// Nothing but this is known.
  package init(isEncrypted: Bool, isBonded: Bool) {
    (self.isEncrypted, self.isBonded) = (isEncrypted, isBonded)
  }

  init(isEncrypted: Bool, _ bond: Bond?) {
    self.isEncrypted = isEncrypted
    isBonded = bond?.isBonded ?? false
    guard isEncrypted, let bond else { return }
    keyByteCount = Int(bond.keyByteCount)
    (isAuthenticated, isSecureConnections) = (bond.isAuthenticated, bond.isSecureConnections)
  }
}

/// Something about a link became known: as it came up, or as it changed.
public struct LinkChange: Hashable, Sendable {
  public enum Value: Hashable, Sendable {
    case timing(LinkParameters)
    /// `nil` for a PHY that we do not know.
    case phy(transmit: LEPHY?, receive: LEPHY?)
    /// Octets of one data packet that we send and receive, at most.
    case dataLength(transmit: UInt16, receive: UInt16)
    case security(LinkSecurity)
    /// Something that was asked for, and is not to be had here.
    case refused(LinkRequest.Part, HostError)

    func isAbout(_ part: LinkRequest.Part) -> Bool {
      switch self {
      case .timing: part == .timing
      case .phy: part == .phy
      case .dataLength: part == .dataLength
      case .security: false
      case .refused(let refused, _): part == refused
      }
    }
  }

  public let time: ReceiveTime
  public let value: Value

  public init(time: ReceiveTime, value: Value) {
    self.time = time
    self.value = value
  }
}

/// What is known to be in force on a link; `nil` where the kernel keeps it to itself.
public struct LinkState: Hashable, Sendable {
  public var timing: LinkParameters?
  public var transmitPHY: LEPHY?
  public var receivePHY: LEPHY?
  /// Octets of one data packet that we send and receive, at most.
  public var transmitOctets: UInt16?
  public var receiveOctets: UInt16?
  /// `nil` if encryption was never an issue: in exclusive mode the link is not encrypted then.
  public var security: LinkSecurity?

  public init() {}

  public init(after changes: [LinkChange]) {
    for change in changes { apply(change.value) }
  }

  mutating func apply(_ value: LinkChange.Value) {
    switch value {
    case .timing(let parameters): timing = parameters
    case .phy(let transmit, let receive): (transmitPHY, receivePHY) = (transmit, receive)
    case .dataLength(let transmit, let receive): (transmitOctets, receiveOctets) = (transmit, receive)
    case .security(let security): self.security = security
    case .refused: break
    }
  }
}

extension HCIHostEvent {
  /// The change of a link that it tells of; `nil` where it tells of something else.
  var linkChange: (ConnectionHandle, LinkChange.Value)? {
    switch self {
    case .parametersChanged(let handle, let parameters): (handle, .timing(parameters))
    case .dataLengthChanged(let handle, let length):
      (handle, .dataLength(transmit: length.transmitOctets, receive: length.receiveOctets))
    case .phyChanged(let handle, let phy): (handle, .phy(transmit: phy.transmit, receive: phy.receive))
    case .parametersUnchanged(let handle, let status):
      (handle, .refused(.timing, .commandRefused(.leConnectionUpdate, status)))
    case .phyUnchanged(let handle, let status):
      (handle, .refused(.phy, .commandRefused(.leSetPHY, status)))
    default: nil
    }
  }
}
