public import BLEStack
public import BLEWire

/// What an emulated device wants of whoever uses its attributes, and how it pairs.
public struct PeripheralProtection: Hashable, Sendable {
  public enum Level: String, CaseIterable, Hashable, Sendable {
    /// A key; somebody may have been in the middle when it was made.
    case encrypted
    /// A key that was made with passkey or numeric comparison.
    case authenticated

    var access: ATTAccess { .needs(self == .encrypted ? .encrypted : .authenticated) }
  }

  /// Names for people.
  public enum Capability: String, CaseIterable, Hashable, Sendable {
    case none, display, keyboard
    case yesNo = "yes-no"
    case keyboardDisplay = "keyboard-display"

    package var value: IOCapability {
      switch self {
      case .none: .noInputNoOutput
      case .display: .displayOnly
      case .keyboard: .keyboardOnly
      case .yesNo: .displayYesNo
      case .keyboardDisplay: .keyboardDisplay
      }
    }
  }

  public enum Kind: Hashable, Sendable {
    case secureConnections, legacy
  }

  public var level: Level
  /// What it shows, as a device that has it printed on, and types. 0 … 999,999.
  public var passkey: UInt32
  /// Where nothing else is said it shows a passkey if it wants authentication, and has nothing to show or type else.
  public var capability: Capability
  public var kind = Kind.secureConnections

  public init(_ level: Level, passkey: UInt32? = nil, capability: Capability? = nil) {
    self.level = level
    self.passkey = passkey ?? 123_456
    self.capability = capability ?? (level == .encrypted ? .none : .display)
  }

  /// Whether a device like this can be paired with as it wants: one that can neither show nor type keeps nobody out of the
  /// middle.
  public var isPossible: Bool { level == .encrypted || capability != .none }

  /// Of a device with this identity. It gives away all of its keys, and takes the central's signing key.
  func configuration(_ identity: DeviceIdentity) -> PairingConfiguration {
    var requirements: AuthenticationRequirements = [.bonding]
    if level == .authenticated { requirements.insert(.authenticated) }
    if kind == .secureConnections { requirements.insert(.secureConnections) }
    var configuration = PairingConfiguration(
      features: PairingFeatures(
        capability: capability.value, requirements: requirements, initiatorKeys: [.identity, .signing],
        responderKeys: [.encryption, .identity, .signing]),
      protection: level == .authenticated ? .authenticated : .encrypted, identity: identity)
    configuration.passkey = passkey
    return configuration
  }
}

extension PeripheralSecurity {
  /// Security of one device, to be handed to each `SecuredPeripheral` that stands for it.
  ///
  /// - Parameters:
  ///   - protection: what the device wants and what it can.
  ///   - address: its identity.
  ///   - makeKeyPair: for Secure Connections; `nil` leaves legacy pairing.
  public convenience init(
    _ protection: PeripheralProtection, of address: DeviceAddress,
    makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
  ) {
    // Never 0, which resolves nothing.
    let identity = DeviceIdentity(resolvingKey: .random(in: 1 ... .max), address: address)
    self.init(protection.configuration(identity), makeKeyPair: makeKeyPair)
  }
}

/// Any emulated device, with attributes that want a secure link: all values but those of the generic services.
public final class SecuredPeripheral: VirtualPeripheral {
  /// What a device advertises under.
  public enum Address: Hashable, Sendable {
    /// Its own.
    case identity
    /// A resolvable private one, another after each link. Core 5.4, Vol 6, Part B, 1.3.2.2.
    case `private`
  }

  public let base: any VirtualPeripheral
  public let security: PeripheralSecurity?
  private let level: PeripheralProtection.Level
  private let address: Address

  public init(
    _ base: any VirtualPeripheral, _ level: PeripheralProtection.Level, _ security: PeripheralSecurity,
    address: Address = .identity
  ) {
    self.base = base
    self.level = level
    self.security = security
    self.address = address
  }

  public var advertisement: Advertisement? {
    guard var advertisement = base.advertisement else { return nil }
    if address == .private, let hidden = security?.privateAddress { advertisement.address = hidden }
    return advertisement
  }

  public var services: [GATTServiceDescription] {
    base.services.map { service in
      guard service.uuid != .genericAccess, service.uuid != .genericAttribute else { return service }
      var service = service
      for index in service.characteristics.indices {
        service.characteristics[index].demand(level.access)
      }
      return service
    }
  }

  public var advertisingEnd: MonotonicTime? { base.advertisingEnd }
  public var attributesVersion: Int { base.attributesVersion }
  public var receiveMTU: Int { base.receiveMTU }
  public func connected(_ link: PeripheralLink, now: MonotonicTime) { base.connected(link, now: now) }

  public func disconnected(now: MonotonicTime) {
    if address == .private { security?.changePrivateAddress() }
    base.disconnected(now: now)
  }

  public func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode? {
    base.check(write: value, to: handle)
  }

  public func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {
    base.written(handle, link: link, now: now)
  }

  public func roomAvailable(_ link: PeripheralLink, now: MonotonicTime) {
    base.roomAvailable(link, now: now)
  }

  public var deadline: MonotonicTime? { base.deadline }
  public func expired(_ link: PeripheralLink, now: MonotonicTime) { base.expired(link, now: now) }
}
