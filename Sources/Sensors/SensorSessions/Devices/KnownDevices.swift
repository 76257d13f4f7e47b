public import BLEWire
public import BLEHost
public import BLELinux
public import BLEStack
import JSONText

/// The devices that this program was connected to: a folder with a JSON file for each.
///
/// Each file is replaced as a whole, so that a reader, and whoever comes after a crash, sees the old one or the new one.
/// It is for its owner's eyes only: names and addresses tell who was near. What cannot be read is set aside with a
/// warning, and never keeps a command from its job.
public struct KnownDevices: Sendable {
  /// Of one file; a device with all 65,535 handles used has a tenth of it.
  static let fileLimit = 64 << 20

  public let folder: String
  private let warn: @Sendable (String) -> Void

  /// - Parameters:
  ///   - folder: has a file for each device; made when it is needed.
  ///   - warn: gets a line about each file that is damaged or of a later version.
  public init(in folder: String, warn: @escaping @Sendable (String) -> Void) {
    self.folder = folder
    self.warn = warn
  }

  /// Where they are kept if nobody says otherwise; `nil` without a home.
  public static var standardFolder: String? { StateFolder.path.map { $0 + "/devices" } }

  /// All of them, the one seen last first.
  public func all() -> [KnownDevice] {
    Files.names(in: folder).filter { $0.hasSuffix(".json") }.compactMap { read(folder + "/" + $0) }
      .sorted { ($1.lastSeen.nanoseconds, $0.address.bits) < ($0.lastSeen.nanoseconds, $1.address.bits) }
  }

  /// Those that a person means: by address, whatever its type, or by name, exactly.
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

  /// Adds what a connection found to what is known of the device.
  ///
  /// An address that the device changes by itself is not worth remembering: it is left out.
  ///
  /// - Parameters:
  ///   - address: the file's name.
  ///   - name: as it was advertised; `nil` where it is not known, which leaves the one that is.
  ///   - time: when it was connected.
  ///   - discovery: what its attributes are.
  public func remember(
    _ address: DeviceAddress, name: String?, at time: ReceiveTime, _ discovery: GATTDiscoveryResult
  ) throws(SystemError) {
    var device =
      self.device(at: address)
      ?? KnownDevice(address: address, name: name, lastSeen: time, discovery: discovery)
    device.update(name: name, lastSeen: time, discovery: discovery)
    try write(device)
  }

  /// Adds what a device ended a link at.
  ///
  /// - Parameters:
  ///   - address: the file's name.
  ///   - time: when it did.
  ///   - suspect: a subscription is left out by the caller.
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
    // Still there means that it is of a later version: what that knows must not be lost.
    if Files.exists(path), self.device(at: address) == nil { return }
    var line = JSONLine()
    device.encode(into: &line)
    let octets = line.octets
    try Files.createDirectory(folder, mode: 0o700)
    try Files.replace(path, with: octets.span, mode: 0o600)
  }

  /// - Returns: whether there was one.
  @discardableResult
  public func forget(_ address: DeviceAddress) throws(SystemError) -> Bool {
    let path = path(address)
    guard Files.exists(path) else { return false }
    try Files.remove(path)
    return true
  }

  /// Forgets all, and takes away what was set aside and what a killed process left.
  ///
  /// - Returns: how many devices there were.
  public func forgetAll() throws(SystemError) -> Int {
    var count = 0
    // Not `contains(".json")`, here and below: that takes the matching of regular expressions into the program.
    for name in Files.names(in: folder) where name.indices.contains(where: { name[$0...].hasPrefix(".json") })
    {
      try Files.remove(folder + "/" + name)
      if name.hasSuffix(".json") { count += 1 }
    }
    return count
  }

  /// `70-CB-0D-00-A1-B2-public.json`
  private func path(_ address: DeviceAddress) -> String {
    "\(folder)/\(address.fileName)-\(address.type.name).json"
  }

  private func read(_ path: String) -> KnownDevice? {
    let octets: [UInt8]
    do throws(SystemError) { octets = try Files.octets(of: path, limit: Self.fileLimit) } catch {
      warn("a known device is left out: \(error)")
      return nil
    }
    do throws(KnownDevice.Unreadable) {
      let device = try KnownDevice(decoding: octets)
      guard self.path(device.address) == path else { throw .damaged("it is of \(device.address)") }
      return device
    } catch {
      switch error {
      case .ofLaterVersion(let version):
        warn("\(path) is of a later ringtap (version \(version)): left alone")
      case .damaged(let reason): setAside(path, reason)
      }
      return nil
    }
  }

  private func setAside(_ path: String, _ reason: String) {
    let aside = path + ".damaged"
    do throws(SystemError) {
      try Files.rename(path, to: aside)
      warn("\(path) is damaged (\(reason)): set aside as \(aside); the device is as good as unknown")
    } catch { warn("\(path) is damaged (\(reason)), and cannot be set aside: \(error)") }
  }
}

extension DeviceAddress {
  /// For names of files: `70-CB-0D-00-A1-B2`.
  package var fileName: String { String(description.map { $0 == ":" ? "-" : $0 }) }
}
