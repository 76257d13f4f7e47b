public import BLEHost
public import BLELinux
public import BLEStack
public import BLEWire
import JSONText

/// Devices to which ringtap has connected, stored in a folder with one JSON file per device.
///
/// Each file is replaced atomically, so readers see either the old or the new contents, even after a crash.
/// Only the owner can read the files, because names and addresses show which devices were nearby. A damaged
/// file is renamed with a warning. If a file cannot be read, the command continues.
public struct KnownDevices: Sendable {
  /// Maximum size of a file, in bytes. A device that uses all 65,535 handles needs a tenth of this size.
  static let fileLimit = 64 << 20

  public let folder: String
  private let warn: @Sendable (String) -> Void

  /// Creates a store in a folder.
  ///
  /// - Parameters:
  ///   - folder: path of the folder with a file for each device; created on the first write.
  ///   - warn: called with a line for each file that is damaged or was written by a later version.
  public init(in folder: String, warn: @escaping @Sendable (String) -> Void) {
    self.folder = folder
    self.warn = warn
  }

  /// Default path of the folder; `nil` without a home directory.
  public static var standardFolder: String? { StateFolder.path.map { $0 + "/devices" } }

  /// Returns all known devices, most recently seen first.
  public func all() -> [KnownDevice] {
    Files.names(in: folder).filter { $0.hasSuffix(".json") }.compactMap { read(folder + "/" + $0) }
      .sorted { ($1.lastSeen.nanoseconds, $0.address.bits) < ($0.lastSeen.nanoseconds, $1.address.bits) }
  }

  /// Returns the devices with this address, of either type, or with exactly this name.
  public func named(_ text: String) -> [KnownDevice] {
    if let address = DeviceAddress(text) {
      return [AddressType.public, .random].compactMap { device(at: address.with(type: $0)) }
    }
    return all().filter { $0.name == text }
  }

  public func device(at address: DeviceAddress) -> KnownDevice? {
    let path = path(address)
    return Files.exists(path) ? read(path) : nil
  }

  /// Adds the results of a connection to the information about a device. Devices with changing addresses are
  /// not stored.
  ///
  /// - Parameters:
  ///   - address: address of the device, which is also the file's name.
  ///   - name: the advertised name; `nil` keeps the stored name.
  ///   - time: time of the connection.
  ///   - discovery: discovered attributes of the device.
  public func remember(
    _ address: DeviceAddress, name: String?, at time: ReceiveTime, _ discovery: GATTDiscoveryResult
  ) throws(SystemError) {
    var device =
      self.device(at: address)
      ?? KnownDevice(address: address, name: name, lastSeen: time, discovery: discovery)
    device.update(name: name, lastSeen: time, discovery: discovery)
    try write(device)
  }

  /// Adds a cause for which a device ended a link.
  ///
  /// - Parameters:
  ///   - address: address of the device, which names its file.
  ///   - time: time at which the link ended.
  ///   - suspect: the cause; must not be a subscription.
  public func remember(
    _ address: DeviceAddress, at time: ReceiveTime, endedAt suspect: LinkSuspect
  ) throws(SystemError) {
    var device =
      self.device(at: address)
      ?? KnownDevice(
        address: address, name: nil, lastSeen: time, discovery: GATTDiscoveryResult(GATTDatabase(), .none))
    device.avoid(suspect, since: time)
    try write(device)
  }

  /// Adds the firmware revision of a device whose attributes are known.
  public func remember(_ address: DeviceAddress, firmwareRevision: String) throws(SystemError) {
    guard var device = device(at: address), device.firmwareRevision != firmwareRevision else { return }
    device.firmwareRevision = firmwareRevision
    try write(device)
  }

  private func write(_ device: KnownDevice) throws(SystemError) {
    let address = device.address
    guard KnownDevice.isLasting(address) else { return }
    let path = path(address)
    // If the file still exists, it was written by a later version and must not be overwritten.
    if Files.exists(path), self.device(at: address) == nil { return }
    var line = JSONLine()
    device.encode(into: &line)
    let octets = line.octets
    try Files.createDirectory(folder, mode: 0o700)
    try Files.replace(path, with: octets.span, mode: 0o600)
  }

  /// Forgets a device.
  ///
  /// - Returns: whether the device was known.
  @discardableResult
  public func forget(_ address: DeviceAddress) throws(SystemError) -> Bool {
    let path = path(address)
    guard Files.exists(path) else { return false }
    try Files.remove(path)
    return true
  }

  /// Forgets all devices, and removes damaged files and temporary files of killed processes.
  ///
  /// - Returns: the number of known devices.
  public func forgetAll() throws(SystemError) -> Int {
    var count = 0
    // `contains(".json")` would link regular expression matching into the program. The same applies below.
    for name in Files.names(in: folder) where name.indices.contains(where: { name[$0...].hasPrefix(".json") })
    {
      try Files.remove(folder + "/" + name)
      if name.hasSuffix(".json") { count += 1 }
    }
    return count
  }

  /// Returns the path of a device's file, such as `70-CB-0D-00-A1-B2-public.json` in the folder.
  private func path(_ address: DeviceAddress) -> String {
    "\(folder)/\(address.fileName)-\(address.type.name).json"
  }

  private func read(_ path: String) -> KnownDevice? {
    let octets: [UInt8]
    do throws(SystemError) { octets = try Files.octets(of: path, limit: Self.fileLimit) } catch {
      warn("skipping a known device: \(error)")
      return nil
    }
    do throws(KnownDevice.Unreadable) {
      let device = try KnownDevice(decoding: octets)
      guard self.path(device.address) == path else { throw .damaged("it belongs to \(device.address)") }
      return device
    } catch {
      switch error {
      case .ofLaterVersion(let version):
        warn("\(path) is from a later ringtap (version \(version)): ignored")
      case .damaged(let reason): setAside(path, reason)
      }
      return nil
    }
  }

  private func setAside(_ path: String, _ reason: String) {
    let aside = path + ".damaged"
    do throws(SystemError) {
      try Files.rename(path, to: aside)
      warn("\(path) is damaged (\(reason)): moved to \(aside); treating the device as new")
    } catch { warn("\(path) is damaged (\(reason)), and cannot be moved: \(error)") }
  }
}

extension DeviceAddress {
  /// Address in the form used for file names: `70-CB-0D-00-A1-B2`.
  package var fileName: String { String(description.map { $0 == ":" ? "-" : $0 }) }
}

/// Folder for data that ringtap keeps between runs.
public enum StateFolder {
  /// Path of the folder: `$XDG_STATE_HOME/ringtap`, or `$STATE_DIRECTORY` under systemd. Otherwise
  /// `/var/lib/ringtap` for root and `~/.local/state/ringtap` for other users; `nil` without a home
  /// directory.
  ///
  /// XDG Base Directory Specification 0.8: relative paths are ignored.
  public static var path: String? {
    if let home = folder("XDG_STATE_HOME") { return home + "/ringtap" }
    if let service = folder("STATE_DIRECTORY") { return service }
    if ProcessFacts.isRoot { return "/var/lib/ringtap" }
    return folder("HOME").map { $0 + "/.local/state/ringtap" }
  }

  private static func folder(_ name: String) -> String? {
    guard let path = ProcessFacts.environment(name), path.hasPrefix("/") else { return nil }
    // systemd separates several directories with colons, in the order of the unit. The first directory is
    // used.
    return path.split(separator: ":").first.map(String.init)
  }
}
