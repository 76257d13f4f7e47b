import BLEStack
public import BLEWire

/// Security of a link.
public struct LinkSecurity: Hashable, Sendable {
  public var isEncrypted: Bool
  /// Encryption key size, 7 … 16 bytes; `nil` if unknown.
  public var keyByteCount: Int?
  /// Whether the key comes from a pairing with MITM protection; `nil` if unknown.
  public var isAuthenticated: Bool?
  public var isSecureConnections: Bool?
  /// Whether a key of the device is stored.
  public var isBonded: Bool

  /// Creates the security of a link whose other properties are unknown.
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

/// A property of a link that became known or changed.
public struct LinkChange: Hashable, Sendable {
  public enum Value: Hashable, Sendable {
    case timing(LinkParameters)
    /// PHY in each direction; `nil` if unknown.
    case phy(transmit: LEPHY?, receive: LEPHY?)
    /// Maximum number of bytes per data packet in each direction.
    case dataLength(transmit: UInt16, receive: UInt16)
    case security(LinkSecurity)
    /// A requested parameter was refused.
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

/// Properties in force on a link; `nil` if the kernel does not report them.
public struct LinkState: Hashable, Sendable {
  public var timing: LinkParameters?
  public var transmitPHY: LEPHY?
  public var receivePHY: LEPHY?
  /// Maximum number of bytes per data packet in each direction.
  public var transmitOctets: UInt16?
  public var receiveOctets: UInt16?
  /// Security of the link; `nil` if no change of encryption was reported. See `security(seenByOwnHost:)`.
  public var security: LinkSecurity?

  public init() {}

  public init(after changes: [LinkChange]) {
    for change in changes { apply(change.value) }
  }

  /// Returns the security of the link, or `nil` if unknown.
  ///
  /// - Parameter isSeen: whether the link belongs to our own host. Our own host sees each change of
  ///   encryption, so a link without a change is not encrypted. The kernel does not report when it encrypts a
  ///   link.
  package func security(seenByOwnHost isSeen: Bool) -> LinkSecurity? {
    security ?? (isSeen ? LinkSecurity(isEncrypted: false, isBonded: false) : nil)
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
  /// The link change that the event reports, if any.
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
