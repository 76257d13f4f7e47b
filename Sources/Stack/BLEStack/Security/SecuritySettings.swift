#if !hasFeature(Embedded)
  public import BLEWire

  /// The user interface of a pairing: a user, or a program that acts for a user.
  public struct PairingAgent: Sendable {
    /// Input and output capability; determines the pairing method.
    public var capability: IOCapability
    /// Shows a passkey, 0 … 999,999, to type on the device. Must not block.
    public var showPasskey: @Sendable (UInt32) -> Void
    /// Asks for the passkey that the device shows. Returns `nil` if the user enters none.
    public var askPasskey: @Sendable () async -> UInt32?
    /// Asks whether the device shows the same number.
    public var compare: @Sendable (UInt32) async -> Bool

    public init(
      _ capability: IOCapability, showPasskey: @escaping @Sendable (UInt32) -> Void = { _ in },
      askPasskey: @escaping @Sendable () async -> UInt32? = { nil },
      compare: @escaping @Sendable (UInt32) async -> Bool = { _ in false }
    ) {
      self.capability = capability
      self.showPasskey = showPasskey
      self.askPasskey = askPasskey
      self.compare = compare
    }

    /// No user interface: only Just Works pairing is possible.
    public static let nobody = PairingAgent(.noInputNoOutput)
  }

  /// The stored bond of a paired device, with its addresses.
  public struct StoredBond: Hashable, Sendable {
    /// Address of the device: its identity address if the device sent an identity address.
    public var device: DeviceAddress
    /// Address of this side on the link. The device finds its key by this address.
    public var local: DeviceAddress
    /// Address that the device used when it paired, if that address is permanent and differs from `device`.
    public var pairedAddress: DeviceAddress?
    public var bond: Bond

    public init(
      device: DeviceAddress, local: DeviceAddress, pairedAddress: DeviceAddress? = nil, bond: Bond
    ) {
      self.device = device
      self.local = local
      self.pairedAddress = pairedAddress
      self.bond = bond
    }

    /// Returns whether this is an address of the device, permanent or private.
    public func isMeant(by address: DeviceAddress) -> Bool {
      device == address || pairedAddress == address || bond.peerIdentity?.matches(address) ?? false
    }
  }

  /// Storage for bonds. Called on the receive thread; must not block for long.
  public protocol BondStore: Sendable {
    func bonds() -> [StoredBond]
    /// Stores a bond. Replaces an older bond of the same device.
    func keep(_ bond: StoredBond)
    /// Returns the counter for the next signature with the key that was distributed to this device. Stores
    /// the following value before it returns, so that no counter is used twice, even after a crash.
    ///
    /// - Returns: `nil` if there is no key, the counter is exhausted, or the counter cannot be stored.
    func takeSignCounter(of device: DeviceAddress) -> UInt32?
    /// Returns whether the device signed this command and its counter is new. Stores the counter before it
    /// returns, so that a recorded command is not accepted again, even after a crash.
    func accepts(_ command: borrowing SignedWriteCommand, from peer: DeviceAddress) -> Bool
  }

  extension BondStore {
    /// Takes the counter from the stored bond. Default for a store that has one caller at a time and cannot
    /// fail.
    public func takeSignCounter(of device: DeviceAddress) -> UInt32? {
      guard var stored = bonds().last(where: { $0.device == device }),
        let counter = stored.bond.takeSignCounter()
      else { return nil }
      keep(stored)
      return counter
    }

    /// Checks the signature with the stored bond. Default for a store that cannot fail.
    public func accepts(_ command: borrowing SignedWriteCommand, from peer: DeviceAddress) -> Bool {
      guard var stored = bonds().last(where: { $0.isMeant(by: peer) }), stored.bond.accepts(command) else {
        return false
      }
      keep(stored)
      return true
    }
  }

  /// Signs writes with the key that was distributed to a device when it was bonded.
  public struct BondSigner: WriteSigner, Sendable {
    private let store: any BondStore
    private let device: DeviceAddress
    private let key: UInt128

    /// Creates the signer of a bond.
    ///
    /// - Returns: `nil` if no signing key was distributed to the device.
    package init?(_ stored: StoredBond, in store: any BondStore) {
      guard let key = stored.bond.localSigningKey else { return nil }
      self.store = store
      self.key = key
      device = stored.device
    }

    public func signature(of message: [UInt8]) async throws(GATTError) -> [UInt8] {
      guard let counter = store.takeSignCounter(of: device) else { throw .cannotSign }
      return MessageSignature(of: message.span, counter: counter, key: key).octets
    }
  }

  /// Settings for encryption and pairing of an adapter's links.
  public struct SecuritySettings: Sendable {
    /// Action when a device requires more security.
    public enum Raising: Hashable, Sendable {
      /// Encrypt the link if there is a stored key for the device.
      case byStoredKey
      /// Encrypt the link; pair first if there is no stored key.
      case byPairing
    }

    /// Time at which a link to a bonded device is encrypted.
    public enum Encryption: Hashable, Sendable {
      /// Encrypts the link as soon as it is up.
      case atOnce
      /// Encrypts the link when the device refuses a request for insufficient security. Until then writes can
      /// be signed, and values that the device sends unencrypted are delivered, regardless of `bondedLinks`.
      case whenWanted
    }

    /// Required security of a link to a bonded device.
    public enum BondedLinks: Hashable, Sendable {
      /// The link is encrypted with the bond's key before any value of the device is delivered. The link is
      /// closed if encryption fails.
      case encrypted
      /// No security is required: if a device has lost its key, the link is used unencrypted.
      case any
    }

    public var agent: PairingAgent
    public var raising: Raising
    public var encryption = Encryption.atOnce
    public var bondedLinks = BondedLinks.encrypted
    /// Whether legacy pairing is allowed.
    public var kind = PairingConfiguration.Kind.any
    public var protection: PairingConfiguration.Protection
    /// Storage for bonds; if `nil`, keys are discarded when the link ends.
    public var store: (any BondStore)?
    /// Makes a key pair for each pairing; if `nil`, only legacy pairing is possible.
    public var makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
    /// Minimum encryption key size, 7 … 16 bytes. Core 5.4, Vol 3, Part H, 2.3.4.
    public var minimumKeyByteCount: UInt8

    public init(
      agent: PairingAgent = .nobody, raising: Raising = .byStoredKey,
      protection: PairingConfiguration.Protection = .encrypted, store: (any BondStore)? = nil,
      minimumKeyByteCount: UInt8 = 16, makeKeyPair: (@Sendable () -> any P256KeyAgreement)? = nil
    ) {
      self.agent = agent
      self.raising = raising
      self.protection = protection
      self.store = store
      self.minimumKeyByteCount = minimumKeyByteCount
      self.makeKeyPair = makeKeyPair
    }

    /// Stores the bond of a finished pairing.
    ///
    /// A bond replaces an older bond of the same device only if it is at least as strong. An identity address
    /// must be valid and must not belong to another bond, because a peer can send any address.
    ///
    /// - Parameters:
    ///   - bond: result of the pairing.
    ///   - peer: the device's address on the link.
    ///   - local: address of this side.
    /// - Returns: The bond, with `isBonded` set to `false` if it was not stored.
    /// - Throws: `identityRefused` or `weakerThanBond`; the older bond is kept.
    package func keeping(
      _ bond: Bond, of peer: DeviceAddress, local: DeviceAddress
    ) throws(PairingError) -> Bond {
      var bond = bond
      guard bond.isBonded, let store else {
        bond.isBonded = false
        return bond
      }
      let device = bond.peerIdentity?.address ?? peer
      let replaced = store.bonds().last { $0.isMeant(by: peer) }
      if let identity = bond.peerIdentity?.address {
        guard identity.isValidIdentity,
          !store.bonds().contains(where: { $0.isMeant(by: identity) && $0.device != replaced?.device })
        else { throw .identityRefused(identity) }
      }
      if let replaced, !bond.isAtLeastAsStrong(as: replaced.bond) { throw .weakerThanBond }
      let isPermanent = peer.type == .public || RandomAddressKind(peer) == .static
      store.keep(
        StoredBond(
          device: device, local: local, pairedAddress: isPermanent && peer != device ? peer : nil, bond: bond)
      )
      return bond
    }

    /// Returns the stored bond of a device, or `nil` if it is not bonded.
    package func storedBond(of peer: DeviceAddress) -> StoredBond? {
      store?.bonds().last { $0.isMeant(by: peer) }
    }

    /// Returns the identity of this side. Uses the resolving key that bonded peers have received, or creates
    /// a new key if no peer has received a key.
    package func identity(as address: DeviceAddress) -> DeviceIdentity {
      let known = store?.bonds().last { $0.local == address && $0.bond.localResolvingKey != nil }
      return DeviceIdentity(
        resolvingKey: known?.bond.localResolvingKey ?? .random(in: 1 ... .max), address: address)
    }

    /// Returns the responder for the pairing requests that centrals send to a device with this address.
    package func responder(as address: DeviceAddress) -> PairingResponder {
      PairingResponder(responderConfiguration, local: address, bond: { storedBond(of: $0)?.bond }) {
        PairingSupplies(keyPair: makeKeyPair?())
      }
    }

    /// Configuration for a pairing that a central requests. As in `configuration`, this side's identity is
    /// not distributed.
    package var responderConfiguration: PairingConfiguration {
      var answer = configuration
      if store != nil {
        answer.features.initiatorKeys = [.encryption, .identity, .signing]
        answer.features.responderKeys = [.encryption, .signing]
      }
      return answer
    }

    /// Returns the configuration for pairing with this peripheral. The result must be at least as strong as
    /// its stored bond.
    package func configuration(for peer: DeviceAddress) -> PairingConfiguration {
      var configuration = configuration
      configuration.replacedBond = storedBond(of: peer)?.bond
      return configuration
    }

    /// Configuration for pairing with a peripheral. This side's identity is not distributed, because this
    /// side uses no private addresses, and a peer that has the resolving key may require private addresses.
    /// Core 5.4, Vol 6, Part B, 4.7.
    package var configuration: PairingConfiguration {
      var requirements = AuthenticationRequirements()
      if store != nil { requirements.insert(.bonding) }
      if agent.capability != .noInputNoOutput { requirements.insert(.authenticated) }
      if makeKeyPair != nil { requirements.insert(.secureConnections) }
      var configuration = PairingConfiguration(
        features: PairingFeatures(
          capability: agent.capability, requirements: requirements,
          initiatorKeys: store == nil ? [] : [.signing],
          responderKeys: store == nil ? [] : [.encryption, .identity, .signing]),
        protection: protection, minimumKeyByteCount: minimumKeyByteCount)
      configuration.kind = kind
      return configuration
    }
  }
#endif
