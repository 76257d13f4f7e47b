import BLELinux
package import BLEStack
package import BLEWire

/// How secure a link with a central is now.
package struct LinkSecurityChange {
  package let handle: ConnectionHandle
  package let security: ATTSecurity
  /// With which key it is encrypted; `nil` where it is not.
  package let source: LinkKeySource?
  /// Of a central that is bonded; where the link is not encrypted, of who has the address of one.
  package let identity: DeviceAddress?

  package init(
    handle: ConnectionHandle, security: ATTSecurity, source: LinkKeySource?, identity: DeviceAddress?
  ) {
    (self.handle, self.security, self.source, self.identity) = (handle, security, source, identity)
  }
}

/// Who takes links that centrals make with us.
package final class LinkAcceptor: @unchecked Sendable {
  // No lock: called on the event loop's thread only.

  /// A link is up; its first PDU comes after this returns.
  package let arrived: (Connection) -> Void
  package let secured: (LinkSecurityChange) -> Void
  package let notPaired: (PairingError) -> Void
  /// The controller was reset: it advertises no more.
  package let restarted: () -> Void
  /// The controller works no more. Its links have ended.
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

/// Links of which we are the peripheral. Whoever accepts them advertises, by commands of the controller.
extension HostAdapter {
  public nonisolated var exclusive: HostAdapter? { self }

  /// Packets that broke the format.
  public var malformed: Int { withHost { $0.malformed } }

  /// Hands links of centrals to `acceptor` from now on; with `nil` they are ended.
  ///
  /// - Returns: `false` where somebody takes them already.
  package func accept(_ acceptor: LinkAcceptor?) -> Bool {
    guard acceptor == nil || self.acceptor == nil else { return false }
    self.acceptor = acceptor
    return true
  }

  /// Advertising was switched on, and no central has come since.
  package var isAdvertising: Bool { withHost { $0.isAdvertising } }

  /// Under which links are made from now on, in the place of `address`.
  package func hide(_ privacy: HostPrivacy?) { withHost { $0.hide(privacy) } }
  package var bondStore: (any BondStore)? { security.settings?.store }
  package func makeIdentity() -> DeviceIdentity? { security.settings?.identity(as: address) }

  /// Switches advertising off.
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
