public import BLELinux
import JSONText
import Synchronization

/// A packet log that some process of ours writes now, for others to read along.
public struct RunningLog: Hashable, Sendable {
  /// Whose packets a log has.
  public struct Origin: Hashable, Sendable {
    /// The adapter or the transport.
    public var adapter: String
    /// How the radio is reached.
    public var mode: String
    /// The device, where the log is of one link.
    public var device: String?
    public var deviceName: String?

    public init(adapter: String, mode: String, device: String? = nil, deviceName: String? = nil) {
      self.adapter = adapter
      self.mode = mode
      self.device = device
      self.deviceName = deviceName
    }
  }

  /// The log, from the root.
  public var path: String
  /// What its process left word in; locked as long as the log grows.
  public var word: String

  /// - Parameters:
  ///   - path: of the log.
  ///   - word: of the file in `RuntimeFolder` that tells of it.
  public init(path: String, word: String) {
    self.path = path
    self.word = word
  }
}

/// Tells other processes of a packet log as long as this one writes it.
///
/// A file of one JSON object in `RuntimeFolder`: `pid`, `log`, `adapter`, `mode`, `device`, `deviceName`.
public final class LogAnnouncement: Sendable {
  private static let number = Atomic<Int>(0)

  private let file: Mutex<LockedFile?>

  /// - Parameters:
  ///   - path: of a log that is there.
  ///   - origin: who writes it, and of what.
  /// - Throws: what keeps others from hearing of it; the log itself is none the worse.
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

  /// The log is complete.
  public func end() { file.withLock { $0 = nil } }

  /// What killed processes left.
  private static func removeStale(in folder: String) {
    for name in Files.names(in: folder) where name.hasSuffix(".json") {
      let path = folder + "/" + name
      guard let watch = try? LockWatch(path), !watch.isHeld else { continue }
      try? Files.remove(path)
    }
  }
}
