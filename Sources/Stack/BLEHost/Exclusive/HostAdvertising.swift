import BLELinux
package import BLEStack
package import BLEWire

/// New security state of a link with a central.
package struct LinkSecurityChange {
  package let handle: ConnectionHandle
  package let security: ATTSecurity
  /// Origin of the key that encrypts the link; `nil` if the link is not encrypted.
  package let source: LinkKeySource?
  /// Identity of a bonded central. Not verified if the link is not encrypted: then only the address matches.
  package let identity: DeviceAddress?

  package init(
    handle: ConnectionHandle, security: ATTSecurity, source: LinkKeySource?, identity: DeviceAddress?
  ) {
    (self.handle, self.security, self.source, self.identity) = (handle, security, source, identity)
  }
}

/// Callbacks for the links that centrals create to this device.
package final class LinkAcceptor: @unchecked Sendable {
  // No lock: called on the event loop's thread only.

  /// Called when a link is up, before its first PDU.
  package let arrived: (Connection) -> Void
  package let secured: (LinkSecurityChange) -> Void
  package let notPaired: (PairingError) -> Void
  /// Called when the controller was reset and no longer advertises.
  package let restarted: () -> Void
  /// Called when the controller has failed. Its links have ended.
  package let lost: (HostError) -> Void
  package let tap: PacketTap?

  package init(
    tap: PacketTap? = nil, arrived: @escaping (Connection) -> Void,
    secured: @escaping (LinkSecurityChange) -> Void, notPaired: @escaping (PairingError) -> Void,
    restarted: @escaping () -> Void = {}, lost: @escaping (HostError) -> Void
  ) {
    self.tap = tap
    self.arrived = arrived
    self.secured = secured
    self.notPaired = notPaired
    self.restarted = restarted
    self.lost = lost
  }
}

/// Links on which this device is the peripheral. The acceptor advertises by sending commands to the
/// controller.
extension HostAdapter {
  public nonisolated var exclusive: HostAdapter? { self }

  /// Number of malformed packets.
  public var malformed: Int { withHost { $0.malformed } }

  /// Passes all further links from centrals to `acceptor`. If `nil`, such links are ended.
  ///
  /// - Returns: `false` if another acceptor is already set.
  package func accept(_ acceptor: LinkAcceptor?) -> Bool {
    guard acceptor == nil || self.acceptor == nil else { return false }
    self.acceptor = acceptor
    return true
  }

  /// Whether advertising was turned on and no central has connected since.
  package var isAdvertising: Bool { withHost { $0.isAdvertising } }

  /// Sets the resolvable private address for new links. If `nil`, they use `address`.
  package func hide(_ privacy: HostPrivacy?) { withHost { $0.hide(privacy) } }
  package var bondStore: (any BondStore)? { security.settings?.store }
  package func makeIdentity() -> DeviceIdentity? { security.settings?.identity(as: address) }

  /// Turns advertising off.
  package func stopAdvertising() async throws(HostError) {
    guard isAdvertising else { return }
    if controller.hasAdvertisingSets {
      try await command(LESetExtendedAdvertisingEnable.allOff)
    } else {
      try await command(LESetAdvertisingEnable(.off))
    }
  }

  func note(_ handle: ConnectionHandle, _ value: LinkChange.Value) {
    carriers[handle]?.client?.changed(LinkChange(time: loop.clock.now(), value: value))
  }
}
