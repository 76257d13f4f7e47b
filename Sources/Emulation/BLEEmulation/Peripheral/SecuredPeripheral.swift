public import BLEStack
public import BLEWire

/// The security that an emulated device requires for its attributes, and its pairing capabilities.
public struct PeripheralProtection: Hashable, Sendable {
  public enum Level: String, CaseIterable, Hashable, Sendable {
    /// An encrypted link; the key may be unauthenticated.
    case encrypted
    /// A link encrypted with a key from a pairing by passkey or numeric comparison.
    case authenticated

    var access: ATTAccess { .needs(self == .encrypted ? .encrypted : .authenticated) }
  }

  /// Input and output capabilities. The raw values are the names in options.
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
  /// The passkey that the device shows (as if printed on it) and types, 0 … 999,999.
  public var passkey: UInt32
  /// By default the device shows a passkey if it requires authentication; otherwise it has no input or
  /// output.
  public var capability: Capability
  public var kind = Kind.secureConnections

  public init(_ level: Level, passkey: UInt32? = nil, capability: Capability? = nil) {
    self.level = level
    self.passkey = passkey ?? 123_456
    self.capability = capability ?? (level == .encrypted ? .none : .display)
  }

  /// Whether a pairing can reach the level: a device without input and output cannot be authenticated.
  public var isPossible: Bool { level == .encrypted || capability != .none }

  /// The pairing configuration of a device with this identity. It distributes all of its keys, and accepts
  /// the central's signing key.
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
  /// Creates the security of one device, to be shared by all `SecuredPeripheral`s that represent it.
  ///
  /// - Parameters:
  ///   - protection: the device's requirements and capabilities.
  ///   - address: its identity address.
  ///   - makeKeyPair: required for Secure Connections; `nil` for legacy pairing.
  public convenience init(
    _ protection: PeripheralProtection, of address: DeviceAddress,
    makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
  ) {
    // Never 0, because a zero key resolves no address.
    let identity = DeviceIdentity(resolvingKey: .random(in: 1 ... .max), address: address)
    self.init(protection.configuration(identity), makeKeyPair: makeKeyPair)
  }
}

/// Wraps an emulated device and protects its attributes, except those of the generic services.
public final class SecuredPeripheral: VirtualPeripheral {
  /// The address that a device advertises.
  public enum Address: Hashable, Sendable {
    /// The device's identity address.
    case identity
    /// A resolvable private address that changes after each link. Core 5.4, Vol 6, Part B, 1.3.2.2.
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
