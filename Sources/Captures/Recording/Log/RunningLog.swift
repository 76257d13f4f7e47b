public import BLELinux
import JSONText
import Synchronization

/// Packet log of another, running ringtap process, which this process can follow.
public struct RunningLog: Hashable, Sendable {
  /// Source of a log's packets.
  public struct Origin: Hashable, Sendable {
    /// Name of the adapter or transport.
    public var adapter: String
    /// Mode in which ringtap accesses the radio.
    public var mode: String
    /// Name of the device, if the log covers a single link.
    public var device: String?
    public var deviceName: String?

    public init(adapter: String, mode: String, device: String? = nil, deviceName: String? = nil) {
      self.adapter = adapter
      self.mode = mode
      self.device = device
      self.deviceName = deviceName
    }
  }

  /// Absolute path of the log.
  public var path: String
  /// Path of the announcement file. The process that writes the log keeps this file locked.
  public var word: String

  /// Creates a description of a log.
  ///
  /// - Parameters:
  ///   - path: path of the log.
  ///   - word: path of its announcement file in `RuntimeFolder`.
  public init(path: String, word: String) {
    self.path = path
    self.word = word
  }
}

/// Announces a packet log to other processes while this process writes it.
///
/// The announcement is a file in `RuntimeFolder` with one JSON object: `pid`, `log`, `adapter`, `mode`,
/// `device`, `deviceName`.
public final class LogAnnouncement: Sendable {
  private static let number = Atomic<Int>(0)

  private let file: Mutex<LockedFile?>

  /// Announces a log.
  ///
  /// - Parameters:
  ///   - path: path of an existing log.
  ///   - origin: source of the log's packets.
  /// - Throws: an error that prevents the announcement. The log itself is not affected.
  public init(of path: String, _ origin: RunningLog.Origin) throws(SystemError) {
    let folder = try RuntimeFolder.make()
    Self.removeStale(in: folder)
    let number = Self.number.add(1, ordering: .relaxed).newValue
    let processID = ProcessFacts.ownID
    var line = JSONLine()
    line.object { line in
      line.member("pid", processID)
      line.member("log", Files.absolute(path) ?? path)
      line.member("adapter", origin.adapter)
      line.member("mode", origin.mode)
      if let device = origin.device { line.member("device", device) }
      if let name = origin.deviceName { line.member("deviceName", name) }
    }
    line.endLine()
    let octets = line.octets
    let file = try LockedFile(creating: "\(folder)/\(processID)-\(number).json", octets)
    self.file = Mutex(file)
  }

  /// Removes the announcement. Call this when the log is complete.
  public func end() { file.withLock { $0 = nil } }

  /// Removes announcements left by killed processes.
  private static func removeStale(in folder: String) {
    for name in Files.names(in: folder) where name.hasSuffix(".json") {
      let path = folder + "/" + name
      guard let watch = try? LockWatch(path), !watch.isHeld else { continue }
      try? Files.remove(path)
    }
  }
}
