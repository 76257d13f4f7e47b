import BLEHost
public import BLELinux
public import BLEStack
public import BLEWire
import JSONText
import Synchronization

/// Stores the keys of paired devices in one file per device, beside the files of `KnownDevices`. Only the
/// owner can read the files.
///
/// Each file is replaced atomically. No other file of ringtap contains keys unless a caller requests it
/// (`CapturingTransport.Keys.logged`). A file that cannot be read causes a warning and is not changed. The
/// device must then be paired again.
public final class BondFiles: BondStore {
  /// Maximum size of a file, in bytes.
  static let fileLimit = 1 << 16
  static let version = 1

  public let folder: String
  private let warn: @Sendable (String) -> Void
  private let known: Mutex<[StoredBond]>

  /// Reads the stored bonds.
  ///
  /// - Parameters:
  ///   - folder: path of the folder with a file for each device; created on the first write.
  ///   - warn: called with a line for each file that is damaged or cannot be written.
  public init(in folder: String, warn: @escaping @Sendable (String) -> Void) {
    self.folder = folder
    self.warn = warn
    known = Mutex(Self.read(folder, warn))
  }

  /// Returns all bonds, the most recently used last.
  public func bonds() -> [StoredBond] { known.withLock { $0 } }

  /// Writes the file synchronously. The file is small, and keeping the keys of a pairing matters more than a
  /// short delay of the receive thread.
  public func keep(_ bond: StoredBond) {
    known.withLock { known in
      known.removeAll { $0.device == bond.device }
      known.append(bond)
    }
    do throws(SystemError) { try write(bond) } catch {
      warn("cannot store the keys of \(bond.device): \(error)")
    }
  }

  /// Returns the sign counter to use, after storing the next counter on disk. Takes the counters stored by
  /// other running instances of the program into account.
  public func takeSignCounter(of device: DeviceAddress) -> UInt32? {
    known.withLock { known in
      guard let place = known.lastIndex(where: { $0.device == device }) else { return nil }
      var stored = known[place]
      if let written = try? Self.bond(in: path(device)),
        written.bond.localSigningKey == stored.bond.localSigningKey
      {
        stored.bond.localSignCounter = max(stored.bond.localSignCounter, written.bond.localSignCounter)
      }
      guard let counter = stored.bond.takeSignCounter() else { return nil }
      do throws(SystemError) { try write(stored) } catch {
        warn("cannot sign for \(device): its sign counter cannot be stored: \(error)")
        return nil
      }
      known[place] = stored
      return counter
    }
  }

  /// Returns whether a signed command is valid. The counter is stored first. If storing fails, the command is
  /// rejected.
  public func accepts(_ command: borrowing SignedWriteCommand, from peer: DeviceAddress) -> Bool {
    known.withLock { known in
      guard let place = known.lastIndex(where: { $0.isMeant(by: peer) }) else { return false }
      var stored = known[place]
      guard stored.bond.accepts(command) else { return false }
      do throws(SystemError) { try write(stored) } catch {
        warn("dropped signed data of \(stored.device): its sign counter cannot be stored: \(error)")
        return false
      }
      known[place] = stored
      return true
    }
  }

  private func write(_ bond: StoredBond) throws(SystemError) {
    var line = JSONLine()
    bond.encode(into: &line)
    let octets = line.octets
    try Files.createDirectory(folder, mode: 0o700)
    try Files.replace(path(bond.device), with: octets.span, mode: 0o600)
  }

  /// Deletes the bond of a device.
  ///
  /// - Parameter address: the device's identity address, or its address when it was paired.
  /// - Returns: whether there was a bond.
  @discardableResult
  public func forget(_ address: DeviceAddress) throws(SystemError) -> Bool {
    let device = bonds().last { $0.isMeant(by: address) }?.device ?? address
    known.withLock { $0.removeAll { $0.device == device } }
    let path = path(device)
    guard Files.exists(path) else { return false }
    try Files.remove(path)
    return true
  }

  /// Returns the path of a device's file, such as `70-CB-0D-00-A1-B2-public.bond` in the folder.
  private func path(_ device: DeviceAddress) -> String {
    "\(folder)/\(device.fileName)-\(device.type.name).bond"
  }

  private static func read(_ folder: String, _ warn: (String) -> Void) -> [StoredBond] {
    Files.names(in: folder).filter { $0.hasSuffix(".bond") }.sorted().compactMap { name in
      let path = folder + "/" + name
      do throws(SystemError) {
        guard let bond = try bond(in: path) else {
          warn("\(path) is damaged: pair with the device again")
          return nil
        }
        return bond
      } catch {
        warn("skipping a bond: \(error)")
        return nil
      }
    }
  }

  /// Reads a file. Returns `nil` if it is damaged.
  private static func bond(in path: String) throws(SystemError) -> StoredBond? {
    let octets = try Files.octets(of: path, limit: fileLimit)
    return (try? JSONDocument(octets)).flatMap(StoredBond.init)
  }
}

// MARK: One file

extension StoredBond {
  fileprivate func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("version", BondFiles.version)
      line.member("address", device.description)
      line.member("addressType", device.type.name)
      line.member("localAddress", local.description)
      line.member("localAddressType", local.type.name)
      if let pairedAddress {
        line.member("pairedAddress", pairedAddress.description)
        line.member("pairedAddressType", pairedAddress.type.name)
      }
      line.member("authenticated", bond.isAuthenticated)
      line.member("secureConnections", bond.isSecureConnections)
      line.member("keySize", bond.keyByteCount)
      if let key = bond.peerKey { line.member("peerKey", key) }
      if let key = bond.localKey { line.member("localKey", key) }
      if let identity = bond.peerIdentity {
        line.member("identityKey", key: identity.resolvingKey)
        line.member("identityAddress", identity.address.description)
        line.member("identityAddressType", identity.address.type.name)
      }
      if let key = bond.localResolvingKey { line.member("localResolvingKey", key: key) }
      if let key = bond.peerSigningKey {
        line.member("peerSigningKey", key: key)
        line.member("peerSignCounter", bond.peerSignCounter)
      }
      if let key = bond.localSigningKey {
        line.member("localSigningKey", key: key)
        line.member("localSignCounter", bond.localSignCounter)
      }
    }
    line.endLine()
  }

  /// Decodes a file; `nil` if it is damaged. A file with an unreadable key counts as damaged, because ringtap
  /// would give the device wrong answers without the key.
  fileprivate init?(_ file: JSONDocument) {
    guard file["version"]?.integer(Int.self) == BondFiles.version, let device = file.address("address"),
      let local = file.address("localAddress"), let isAuthenticated = file["authenticated"]?.flag,
      let isSecureConnections = file["secureConnections"]?.flag,
      let keyByteCount = file["keySize"]?.integer(UInt8.self), (7...16).contains(keyByteCount)
    else { return nil }
    var bond = Bond(
      isAuthenticated: isAuthenticated, isSecureConnections: isSecureConnections, keyByteCount: keyByteCount,
      isBonded: true)
    do throws(Unreadable) {
      bond.peerKey = try file.member("peerKey") { LongTermKey($0) }
      bond.localKey = try file.member("localKey") { LongTermKey($0) }
      if let key = try file.member("identityKey", \.key) {
        guard let address = file.address("identityAddress") else { return nil }
        bond.peerIdentity = DeviceIdentity(resolvingKey: key, address: address)
      }
      bond.localResolvingKey = try file.member("localResolvingKey", \.key)
      bond.peerSigningKey = try file.member("peerSigningKey", \.key)
      bond.localSigningKey = try file.member("localSigningKey", \.key)
      // A file without a counter was written by a version that neither signed nor checked signatures.
      if bond.peerSigningKey != nil {
        bond.peerSignCounter = try file.member("peerSignCounter") { $0.integer(UInt32.self) } ?? 0
      }
      if bond.localSigningKey != nil {
        bond.localSignCounter = try file.member("localSignCounter") { $0.integer(UInt32.self) } ?? 0
      }
    } catch { return nil }
    self.init(device: device, local: local, pairedAddress: file.address("pairedAddress"), bond: bond)
  }
}

/// Error for a member that exists but is invalid.
private struct Unreadable: Error {}

extension LongTermKey {
  fileprivate init?(_ object: JSONDocument) {
    guard let key = object["key"]?.key, let diversifier = object["diversifier"]?.integer(UInt16.self),
      let random = object["random"]?.integer(UInt64.self)
    else { return nil }
    self.init(key: key, diversifier: diversifier, random: random)
  }
}

extension JSONLine {
  fileprivate mutating func member(_ name: String, key: UInt128) {
    let digits = String(key, radix: 16)
    member(name, String(repeating: "0", count: 32 - digits.count) + digits)
  }

  fileprivate mutating func member(_ name: String, _ key: LongTermKey) {
    member(
      name,
      object: { line in
        line.member("key", key: key.key)
        line.member("diversifier", key.diversifier)
        line.member("random", key.random)
      })
  }
}

extension JSONDocument {
  /// Key in the text: 32 hexadecimal digits without a sign; `nil` for any other text.
  fileprivate var key: UInt128? {
    text.flatMap { $0.utf8.count == 32 && $0.utf8.allSatisfy { $0 >= 0x30 } ? UInt128($0, radix: 16) : nil }
  }

  /// Reads an optional member.
  ///
  /// - Returns: `nil` if the member is missing.
  fileprivate func member<Value>(
    _ name: String, _ read: (JSONDocument) -> Value?
  ) throws(Unreadable) -> Value? {
    guard let member = self[name] else { return nil }
    guard let value = read(member) else { throw Unreadable() }
    return value
  }

  /// Reads an address. Its type is in the member with the suffix `Type`.
  fileprivate func address(_ name: String) -> DeviceAddress? {
    let type: AddressType? =
      switch self[name + "Type"]?.text {
      case "public": .public
      case "random": .random
      default: nil
      }
    guard let type, let text = self[name]?.text else { return nil }
    return DeviceAddress(text, type: type)
  }
}
