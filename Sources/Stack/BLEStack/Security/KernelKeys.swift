#if !hasFeature(Embedded)
  package import BLEWire

  /// The keys that the kernel holds for an adapter. The management interface can replace the keys but cannot
  /// read them. Root can read the keys in debugfs: `long_term_keys_show` and `identity_resolving_keys_show`
  /// in `net/bluetooth/hci_debugfs.c`.
  package struct KernelKeys: Hashable {
    package var longTerm: [ManagementLongTermKey] = []
    package var identity: [ManagementDeviceKey] = []

    package init() {}

    /// Parses the debugfs files.
    ///
    /// - Parameters:
    ///   - longTerm: `F0:F1:F2:F3:F4:F8 (type 1) 0 0x03 16 0000 0000000000000000 00112233…`: address,
    ///     authenticated, kind, key size, EDIV, Rand, key.
    ///   - identity: `F0:F1:F2:F3:F4:F8 (type 1) 00112233… 4A:…`: address, key, last private address.
    package init(longTerm: String, identity: String) {
      self.longTerm = longTerm.split(separator: "\n").compactMap { Self.longTermKey($0) }
      self.identity = identity.split(separator: "\n").compactMap { line in
        let words = line.split(separator: " ")
        guard words.count >= 4, let peer = Self.address(words), let key = Self.key(words[3]) else {
          return nil
        }
        return ManagementDeviceKey(peer: peer, key: key)
      }
    }

    /// Parses a key of a kind that can be loaded into the kernel. Skips short-term keys and keys from a
    /// pairing with debug keys.
    private static func longTermKey(_ line: Substring) -> ManagementLongTermKey? {
      let words = line.split(separator: " ")
      guard words.count == 9, let peer = address(words), let key = key(words[8]),
        let byteCount = UInt8(words[5]),
        let diversifier = UInt16(words[6], radix: 16), let random = UInt64(words[7], radix: 16)
      else { return nil }
      let isAuthenticated = words[3] != "0"
      let kind: ManagementLongTermKey.Kind
      var role = ManagementLongTermKey.Role.peripheral
      // SMP_LTK, SMP_LTK_RESPONDER, SMP_LTK_P256 of `net/bluetooth/smp.h`.
      switch words[4] {
      case "0x01":
        kind = isAuthenticated ? .authenticated : .unauthenticated
        role = .central
      case "0x02": kind = isAuthenticated ? .authenticated : .unauthenticated
      case "0x03":
        kind = isAuthenticated ? .authenticatedSecureConnections : .unauthenticatedSecureConnections
      default: return nil
      }
      return ManagementLongTermKey(
        peer: peer, kind: kind, role: role, keyByteCount: byteCount, diversifier: diversifier, random: random,
        key: key)
    }

    private static func address(_ words: [Substring]) -> DeviceAddress? {
      DeviceAddress(String(words[0]), type: words[2] == "0)" ? .public : .random)
    }

    /// Parses the hexadecimal digits of a key. Does not reverse the byte order.
    private static func key(_ digits: Substring) -> UInt128? {
      digits.utf8.count == 32 ? UInt128(digits, radix: 16).map(\.byteSwapped) : nil
    }

    /// Adds the keys of a bond, and removes older keys of the same device.
    package mutating func add(_ stored: StoredBond) {
      let keys = stored.kernelKeys
      if !keys.isEmpty {
        longTerm.removeAll { $0.peer == stored.device || $0.peer == stored.pairedAddress }
        longTerm += keys
      }
      guard let identity = stored.bond.peerIdentity, identity.resolvingKey != 0 else { return }
      self.identity.removeAll { $0.peer == identity.address }
      self.identity.append(ManagementDeviceKey(peer: identity.address, key: identity.resolvingKey))
    }
  }

  extension StoredBond {
    /// The bond's keys in the kernel's format.
    fileprivate var kernelKeys: [ManagementLongTermKey] {
      // The kernel finds a key by the address of the link, unless the address is private.
      [device, pairedAddress].compactMap(\.self).flatMap(kernelKeys)
    }

    private func kernelKeys(at peer: DeviceAddress) -> [ManagementLongTermKey] {
      func key(_ key: LongTermKey, _ role: ManagementLongTermKey.Role) -> ManagementLongTermKey {
        let kind: ManagementLongTermKey.Kind =
          switch (bond.isAuthenticated, bond.isSecureConnections) {
          case (false, false): .unauthenticated
          case (true, false): .authenticated
          case (false, true): .unauthenticatedSecureConnections
          case (true, true): .authenticatedSecureConnections
          }
        return ManagementLongTermKey(
          peer: peer, kind: kind, role: role, keyByteCount: bond.keyByteCount, diversifier: key.diversifier,
          random: key.random, key: key.key)
      }
      // Both roles use the same Secure Connections key; the kernel reports it as the peripheral's.
      if bond.isSecureConnections {
        return (bond.peerKey ?? bond.localKey).map { [key($0, .peripheral)] } ?? []
      }
      return [bond.peerKey.map { key($0, .central) }, bond.localKey.map { key($0, .peripheral) }].compactMap {
        $0
      }
    }
  }

  extension Bond {
    package static let none = Bond(
      isAuthenticated: false, isSecureConnections: false, keyByteCount: 16, isBonded: false)

    /// Adds a key that the kernel reported.
    package mutating func take(_ key: ManagementLongTermKey) {
      isAuthenticated = key.kind.isAuthenticated
      isSecureConnections = key.kind.isSecureConnections
      keyByteCount = key.keyByteCount
      let value = LongTermKey(key: key.key, diversifier: key.diversifier, random: key.random)
      switch (isSecureConnections, key.role) {
      case (true, _): (peerKey, localKey) = (value, value)
      case (false, .central): peerKey = value
      case (false, .peripheral): localKey = value
      }
    }
  }
#endif
