#if !hasFeature(Embedded)
  public import BLEWire

  /// Who answers what a pairing asks: a person, or a program in place of one.
  public struct PairingAgent: Sendable {
    /// What can be shown and typed; decides how the pairing is made sure of.
    public var capability: IOCapability
    /// Shows a passkey, 0 … 999,999, for the device's keyboard. Must not block.
    public var showPasskey: @Sendable (UInt32) -> Void
    /// Has the passkey typed that the device shows; `nil` for none.
    public var askPasskey: @Sendable () async -> UInt32?
    /// Has a number compared with the one that the device shows.
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

    /// Nobody: only Just Works is left.
    public static let nobody = PairingAgent(.noInputNoOutput)
  }

  /// What is kept of a device that was paired with.
  public struct StoredBond: Hashable, Sendable {
    /// Under which the device is known: its identity address, where it told one.
    public var device: DeviceAddress
    /// Under which this side was on the link: the device looks for its key by it.
    public var local: DeviceAddress
    /// Address at which the device was paired, if that is permanent and another than `device`.
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

    /// Whether this address is the device's, for now or for good.
    public func isMeant(by address: DeviceAddress) -> Bool {
      device == address || pairedAddress == address || bond.peerIdentity?.matches(address) ?? false
    }
  }

  /// Where bonds are kept. Called on the receive thread: it must not block for long.
  public protocol BondStore: Sendable {
    func bonds() -> [StoredBond]
    /// Keeps a bond in the place of an older one of the same device.
    func keep(_ bond: StoredBond)
    /// The counter for the next signature with the key that this device was given. What follows it is kept before this
    /// returns: none is used twice, whatever happens then.
    ///
    /// - Returns: `nil` where there is no key, no number is left, or it cannot be kept.
    func takeSignCounter(of device: DeviceAddress) -> UInt32?
    /// Whether a device has signed this, and never before. Its counter is kept before this returns: what was heard on air is
    /// accepted no second time, whatever happens then.
    func accepts(_ command: borrowing SignedWriteCommand, from peer: DeviceAddress) -> Bool
  }

  extension BondStore {
    /// For a store from which one caller takes at a time, and that cannot fail.
    public func takeSignCounter(of device: DeviceAddress) -> UInt32? {
      guard var stored = bonds().last(where: { $0.device == device }),
        let counter = stored.bond.takeSignCounter()
      else { return nil }
      keep(stored)
      return counter
    }

    /// For a store that cannot fail.
    public func accepts(_ command: borrowing SignedWriteCommand, from peer: DeviceAddress) -> Bool {
      guard var stored = bonds().last(where: { $0.isMeant(by: peer) }), stored.bond.accepts(command) else {
        return false
      }
      keep(stored)
      return true
    }
  }

  /// Signs writes with the key that a device was given when it was bonded.
  public struct BondSigner: WriteSigner, Sendable {
    private let store: any BondStore
    private let device: DeviceAddress
    private let key: UInt128

    /// - Returns: `nil` where the device was given no key.
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

  /// What an adapter needs to encrypt and to pair.
  public struct SecuritySettings: Sendable {
    /// What is done when a device wants more security.
    public enum Raising: Hashable, Sendable {
      /// The link is encrypted, if the device's key is known.
      case byStoredKey
      /// And paired, if it is not.
      case byPairing
    }

    /// When a link to a bonded device is encrypted.
    public enum Encryption: Hashable, Sendable {
      /// As soon as it is up.
      case atOnce
      /// When the device refuses something for want of it; until then writes can be signed, and what the device gives without it
      /// is delivered in clear text, whatever `bondedLinks` says.
      case whenWanted
    }

    /// What a link to a bonded device must have.
    public enum BondedLinks: Hashable, Sendable {
      /// Encryption by the bond's key, before a value of the device is delivered. A link without is closed.
      case encrypted
      /// Nothing: a device without its key is read from and written to in clear text.
      case any
    }

    public var agent: PairingAgent
    public var raising: Raising
    public var encryption = Encryption.atOnce
    public var bondedLinks = BondedLinks.encrypted
    /// Whether legacy pairing is accepted.
    public var kind = PairingConfiguration.Kind.any
    public var protection: PairingConfiguration.Protection
    /// Where keys are kept; `nil`: until the link ends.
    public var store: (any BondStore)?
    /// Makes a key pair for each pairing; `nil` leaves legacy pairing.
    public var makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
    /// The shortest key that is put up with, 7 … 16 octets. Core 5.4, Vol 3, Part H, 2.3.4.
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
    /// A bond replaces an older one of the same device if it is at least as strong. An identity address must be valid, and
    /// must not belong to another bond: naming it proves nothing.
    ///
    /// - Parameters:
    ///   - bond: of the pairing.
    ///   - peer: the device's address on the link.
    ///   - local: the address under which this side is known.
    /// - Returns: the bond; not `isBonded` if there is no store.
    /// - Throws: `identityRefused`, `weakerThanBond`; the older bond is kept.
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

    /// The bond of a device that is stored; `nil` if there is none.
    package func storedBond(of peer: DeviceAddress) -> StoredBond? {
      store?.bonds().last { $0.isMeant(by: peer) }
    }

    /// Who this side is to those that it is bonded with, and gave a key to; else by a new key.
    package func identity(as address: DeviceAddress) -> DeviceIdentity {
      let known = store?.bonds().last { $0.local == address && $0.bond.localResolvingKey != nil }
      return DeviceIdentity(
        resolvingKey: known?.bond.localResolvingKey ?? .random(in: 1 ... .max), address: address)
    }

    /// How centrals that want to pair are answered by a device with this address.
    package func responder(as address: DeviceAddress) -> PairingResponder {
      PairingResponder(responderConfiguration, local: address, bond: { storedBond(of: $0)?.bond }) {
        PairingSupplies(keyPair: makeKeyPair?())
      }
    }

    /// What is answered to a central that wants to pair; it gets no identity of ours either.
    package var responderConfiguration: PairingConfiguration {
      var answer = configuration
      if store != nil {
        answer.features.initiatorKeys = [.encryption, .identity, .signing]
        answer.features.responderKeys = [.encryption, .signing]
      }
      return answer
    }

    /// What is asked of this peripheral: no less than its bond was worth.
    package func configuration(for peer: DeviceAddress) -> PairingConfiguration {
      var configuration = configuration
      configuration.replacedBond = storedBond(of: peer)?.bond
      return configuration
    }

    /// What is asked of a peripheral. It gets no identity of ours: we never hide behind private addresses, and a peer that
    /// knows a resolving key may insist on them. Core 5.4, Vol 6, Part B, 4.7.
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
