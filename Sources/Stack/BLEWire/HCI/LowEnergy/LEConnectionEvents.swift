/// Reports that a link was made or that a connection attempt failed. Core 5.4, Vol 4, Part E, 7.7.65.1 and
/// 7.7.65.10.
@frozen public struct LEConnectionComplete: Hashable, Sendable, BitwiseCopyable {
  public enum Role: UInt8, Hashable, Sendable, BitwiseCopyable {
    case central = 0
    case peripheral = 1
  }

  public let status: HCIStatus
  public let handle: ConnectionHandle
  public let role: Role
  public let peer: DeviceAddress
  public let parameters: LinkParameters

  public init(
    status: HCIStatus = .success, handle: ConnectionHandle, role: Role = .central, peer: DeviceAddress,
    parameters: LinkParameters
  ) {
    self.status = status
    self.handle = handle
    self.role = role
    self.peer = peer
    self.parameters = parameters
  }

  /// Decodes the event.
  ///
  /// - Parameter event: parameters of the LE Meta event, including the subevent code.
  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(1, .hciEvent)
    // The enhanced events have two resolvable private addresses before the connection parameters. The
    // enhanced event's second version also has two handles at its end.
    let subevent = LESubevent(rawValue: event[0])
    let isEnhanced = subevent == .enhancedConnectionComplete || subevent == .enhancedConnectionCompleteV2
    if !isEnhanced { try event.require(1, of: .connectionComplete) }
    let timing = isEnhanced ? 24 : 12
    try event.require(timing + 7, .hciEvent)
    status = HCIStatus(rawValue: event[1])
    handle = ConnectionHandle(event.u16(at: 2))
    role = Role(rawValue: event[4]) ?? .central
    peer = event.address(at: 6, type: event[5] & 1 == 0 ? .public : .random)
    parameters = event.linkParameters(at: timing)
  }

  /// Number of bytes that `encode` writes.
  public static let byteCount = 19

  /// Encodes the parameters of the LE Meta event, including the subevent code, in the form without resolvable
  /// private addresses. The central's clock accuracy is 0.
  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(LESubevent.connectionComplete.rawValue)
    output.append(status.rawValue)
    output.append(u16: handle.rawValue)
    output.append(role.rawValue)
    output.append(peer.type.rawValue)
    output.append(peer)
    output.append(u16: parameters.interval)
    output.append(u16: parameters.latency)
    output.append(u16: parameters.supervisionTimeout)
    output.append(0)
  }
}

/// Reports that a connection update succeeded or failed. Core 5.4, Vol 4, Part E, 7.7.65.3.
@frozen public struct LEConnectionUpdateComplete: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let handle: ConnectionHandle
  public let parameters: LinkParameters

  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(10, of: .connectionUpdateComplete)
    status = HCIStatus(rawValue: event[1])
    handle = ConnectionHandle(event.u16(at: 2))
    parameters = event.linkParameters(at: 4)
  }
}

/// Reports that the peer's link layer requests new connection parameters. The peer waits for the host's
/// response. Core 5.4, Vol 4, Part E, 7.7.65.6.
@frozen public struct LERemoteConnectionParameterRequest: Hashable, Sendable, BitwiseCopyable {
  public let handle: ConnectionHandle
  public let wanted: LinkParameterRange

  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(11, of: .remoteConnectionParameterRequest)
    handle = ConnectionHandle(event.u16(at: 1))
    wanted = LinkParameterRange(
      minimumInterval: event.u16(at: 3), maximumInterval: event.u16(at: 5), latency: event.u16(at: 7),
      supervisionTimeout: event.u16(at: 9))
  }
}

/// LE features of the peer, or the reason why they are unknown. Core 5.4, Vol 4, Part E, 7.7.65.4.
@frozen public struct LEReadRemoteFeaturesComplete: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let handle: ConnectionHandle
  public let features: LEFeatures

  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(12, of: .readRemoteFeaturesComplete)
    status = HCIStatus(rawValue: event[1])
    handle = ConnectionHandle(event.u16(at: 2))
    features = LEFeatures(bits: event.u64(at: 4))
  }
}

/// Version and manufacturer of the peer's link layer, or the reason why they are unknown. Core 5.4, Vol 4,
/// Part E, 7.7.12.
@frozen public struct ReadRemoteVersionComplete: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let handle: ConnectionHandle
  public let version: LinkLayerVersion

  /// Decodes the event.
  ///
  /// - Parameter parameters: parameters of the event, which is not an LE Meta event.
  public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(8, .hciEvent)
    status = HCIStatus(rawValue: parameters[0])
    handle = ConnectionHandle(parameters.u16(at: 1))
    version = LinkLayerVersion(
      version: parameters[3], company: parameters.u16(at: 4), subversion: parameters.u16(at: 6))
  }
}

/// Link-layer version and manufacturer of a peer, from its LL_VERSION_IND. Core 5.4, Vol 6, Part B, 2.4.2.13.
public struct LinkLayerVersion: Hashable, Sendable, BitwiseCopyable {
  /// Assigned number of the version: 6 is 4.0, 9 is 5.0, 13 is 5.4.
  public let version: UInt8
  /// Assigned number of the manufacturer.
  public let company: UInt16
  public let subversion: UInt16

  @inlinable public init(version: UInt8, company: UInt16, subversion: UInt16) {
    self.version = version
    self.company = company
    self.subversion = subversion
  }
}

/// Reports that the maximum size of a link's data packets changed. Core 5.4, Vol 4, Part E, 7.7.65.7.
@frozen public struct LEDataLengthChange: Hashable, Sendable, BitwiseCopyable {
  public let handle: ConnectionHandle
  /// Maximum size of the data packets that this side sends, in bytes. `receiveOctets` is the maximum size of
  /// the data packets that this side receives.
  public let transmitOctets: UInt16
  public let receiveOctets: UInt16

  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(11, of: .dataLengthChange)
    handle = ConnectionHandle(event.u16(at: 1))
    transmitOctets = event.u16(at: 3)
    receiveOctets = event.u16(at: 7)
  }
}

/// Reports that a PHY update succeeded or failed. Core 5.4, Vol 4, Part E, 7.7.65.12.
@frozen public struct LEPHYUpdateComplete: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let handle: ConnectionHandle
  /// PHY on which this side sends; `nil` for an unknown PHY.
  public let transmit: LEPHY?
  public let receive: LEPHY?

  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(6, of: .phyUpdateComplete)
    status = HCIStatus(rawValue: event[1])
    handle = ConnectionHandle(event.u16(at: 2))
    transmit = LEPHY(rawValue: event[4])
    receive = LEPHY(rawValue: event[5])
  }
}

/// Number of ACL packets that the controller has sent on each link. Core 5.4, Vol 4, Part E, 7.7.19.
@frozen public struct NumberOfCompletedPackets: ~Escapable {
  @usableFromInline let entries: Span<UInt8>

  @_lifetime(copy parameters)
  @inlinable public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(1, .hciEvent)
    guard parameters.count == 1 + 4 * Int(parameters[0]) else {
      throw WireError(
        .hciEvent, offset: 0,
        .lengthMismatch(claimed: 4 * Int(parameters[0]), available: parameters.count - 1))
    }
    entries = parameters.extracting(1...)
  }

  @inlinable public var count: Int { entries.count / 4 }

  @inlinable public subscript(index: Int) -> (handle: ConnectionHandle, packets: Int) {
    (ConnectionHandle(entries.u16(at: index * 4)), Int(entries.u16(at: index * 4 + 2)))
  }
}

extension Span where Element == UInt8 {
  fileprivate func linkParameters(at offset: Int) -> LinkParameters {
    LinkParameters(
      interval: u16(at: offset), latency: u16(at: offset + 2),
      supervisionTimeout: u16(at: offset + 4))
  }
}

#if !NO_ALLOCATIONS
  extension LEConnectionComplete {
    /// The complete event, without its H4 type byte.
    package var event: [UInt8] {
      [UInt8](encoding: HCIEventPacket.headerByteCount + Self.byteCount) {
        $0.append(HCIEventCode.leMeta.rawValue)
        $0.append(UInt8(Self.byteCount))
        encode(into: &$0)
      }
    }
  }

  extension DisconnectionComplete {
    /// The complete event, without its H4 type byte.
    package var event: [UInt8] {
      [UInt8](encoding: HCIEventPacket.headerByteCount + 4) {
        $0.append(HCIEventCode.disconnectionComplete.rawValue)
        $0.append(4)
        encode(into: &$0)
      }
    }
  }
#endif
