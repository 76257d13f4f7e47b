import BLELinux
package import BLEWire
import CaptureTools
import Glibc

/// Limits for keeping captures. The oldest captures are removed first. A capture that is still being written
/// is never removed.
package struct Retention: Hashable, Sendable {
  /// Maximum age since the capture started.
  package var maximumAge: Duration?
  /// Maximum size of all captures together.
  package var maximumByteCount: Int?
  /// Minimum free space on the disk.
  package var minimumFreeByteCount: Int?

  package init() {}

  /// The properties of a capture that retention needs.
  package struct Capture: Hashable, Sendable {
    package var path: String
    package var begunAt: ReceiveTime
    package var byteCount: Int
    /// Whether the capture is still being written.
    package var isOpen: Bool

    package init(path: String, begunAt: ReceiveTime, byteCount: Int, isOpen: Bool) {
      self.path = path
      self.begunAt = begunAt
      self.byteCount = byteCount
      self.isOpen = isOpen
    }
  }

  /// Returns the captures to remove, oldest first.
  ///
  /// - Parameter free: number of bytes that are free on the disk.
  package func expired(_ captures: [Capture], at now: ReceiveTime, free: Int) -> [Capture] {
    var (total, free) = (captures.reduce(0) { $0 + $1.byteCount }, free)
    var expired: [Capture] = []
    for capture in captures.sorted(by: { ($0.begunAt, $0.path) < ($1.begunAt, $1.path) })
    where !capture.isOpen {
      // The age is negative if the clock was set back, so that no capture is too old.
      let age = Duration.nanoseconds(now.nanoseconds &- capture.begunAt.nanoseconds)
      let isTooOld = maximumAge.map { age > $0 } ?? false
      let isTooMuch = maximumByteCount.map { total > $0 } ?? false
      let isTooFull = minimumFreeByteCount.map { free < $0 } ?? false
      guard isTooOld || isTooMuch || isTooFull else { continue }
      expired.append(capture)
      total -= capture.byteCount
      free += capture.byteCount
    }
    return expired
  }
}

/// A capture in a daemon's directory.
struct DaemonCapture: Hashable, Sendable {
  var device: String
  var path: String
  var begunAt: ReceiveTime
  /// Whether the capture is still being written.
  var isOpen: Bool
}

/// The captures of a daemon: `DIRECTORY/DEVICE/20261122T033154Z`, named after their start in UTC.
struct CaptureShelf {
  let directory: String

  /// Returns a directory for a capture that starts now. If the name is taken, adds a suffix such as `-2`.
  func place(for device: String, at now: ReceiveTime) -> String {
    let path = "\(directory)/\(device)/\(UTCText(now.nanoseconds).fileName)"
    guard Files.exists(path) else { return path }
    return (2...).lazy.map { "\(path)-\($0)" }.first { !Files.exists($0) } ?? path
  }

  /// Returns whether the file system has this many bytes free; true if unknown.
  func hasRoom(for byteCount: Int) -> Bool {
    guard let free = try? Files.freeByteCount(at: directory) else { return true }
    return free >= byteCount
  }

  /// Lists the captures. A capture is recognised by its name; other files in the directory are ignored.
  ///
  /// - Returns: captures with `isOpen` false.
  func captures() -> [DaemonCapture] {
    Self.names(in: directory).flatMap { device in
      Self.names(in: directory + "/" + device).compactMap { name in
        guard let begunAt = UTCText.time(ofFileName: name) else { return nil }
        return DaemonCapture(
          device: device, path: "\(directory)/\(device)/\(name)",
          begunAt: ReceiveTime(nanoseconds: begunAt), isOpen: false)
      }
    }
  }

  private static func names(in path: String) -> [String] {
    Files.names(in: path).filter { !$0.hasPrefix(".") }.sorted()
  }
}

// MARK: Removing captures

extension CaptureShelf {
  /// The captures in the directory with their sizes.
  struct Inventory: Sendable {
    var captures: [Retention.Capture] = []
    /// Folders and captures that are symbolic links. Their targets do not belong to the daemon.
    var links: [String] = []
    /// Bytes free on the file system; `nil` if unknown.
    var free: Int?
  }

  /// Maximum number of bytes that a removal frees in one step.
  static let stepByteCount = 64 << 20
  /// Suffix of a capture that is being removed; readers of captures ignore it.
  private static let removedSuffix = ".removing"

  private static func removedName(_ name: String) -> String { ".\(name)\(removedSuffix)" }

  /// Lists folders and captures with their sizes, without following links.
  func inventory() -> Inventory {
    var inventory = Inventory(free: try? Files.freeByteCount(at: directory))
    var folders: Set<String> = []
    for capture in captures() {
      let folder = "\(directory)/\(capture.device)"
      guard Files.isFolder(folder) else {
        if folders.insert(folder).inserted, Files.target(ofLink: folder) != nil {
          inventory.links.append(folder)
        }
        continue
      }
      guard Files.isFolder(capture.path) else {
        if Files.target(ofLink: capture.path) != nil { inventory.links.append(capture.path) }
        continue
      }
      inventory.captures.append(
        Retention.Capture(
          path: capture.path, begunAt: capture.begunAt, byteCount: Files.treeByteCount(capture.path),
          isOpen: false))
    }
    return inventory
  }

  /// Removes a capture. First renames the capture, to hide it from readers, then frees its disk space in
  /// steps.
  ///
  /// - Parameter goesOn: called after each step. If it returns `false`, `removeRests` must remove the
  ///   remainder.
  func remove(_ capture: Retention.Capture, while goesOn: () -> Bool) throws(SystemError) {
    let name = Files.name(of: capture.path)
    let shelf = try OpenFolder(directory)
    guard let folder = shelf.existingFolder(Files.name(of: Files.folder(of: capture.path))) else { return }
    let removed = Self.removedName(name)
    do throws(SystemError) { try folder.rename(name, to: removed) } catch {
      if error.number == ENOENT { return }
      throw error
    }
    try folder.removeTree(removed, step: Self.stepByteCount, while: goesOn)
  }

  /// Completes removals that an earlier daemon had started.
  func removeRests(while goesOn: () -> Bool) throws(SystemError) {
    guard let shelf = try? OpenFolder(directory) else { return }
    for device in shelf.names where !device.hasPrefix(".") {
      guard let folder = shelf.existingFolder(device) else { continue }
      for rest in folder.names where rest.hasPrefix(".") && rest.hasSuffix(Self.removedSuffix) {
        let name = String(rest.dropFirst().dropLast(Self.removedSuffix.count))
        guard UTCText.time(ofFileName: name) != nil else { continue }
        guard try folder.removeTree(rest, step: Self.stepByteCount, while: goesOn) else { return }
      }
    }
  }
}

extension UTCText {
  /// The time in the basic format of ISO 8601: `20261122T033154Z`.
  var fileName: String {
    let text = iso
    let digits = text.unicodeScalars.prefix(19).filter { ("0"..."9").contains($0) }.map(Character.init)
    return String(digits.prefix(8)) + "T" + String(digits.dropFirst(8)) + "Z"
  }

  /// Parses a file name, with or without a suffix such as `-2`. Returns nanoseconds since the Unix epoch.
  static func time(ofFileName name: String) -> Int64? {
    let parts = name.split(separator: "-", omittingEmptySubsequences: false)
    guard let stamp = parts.first, parts.count <= 2, stamp.utf8.count == 16, stamp.hasSuffix("Z"),
      parts.count == 1 || Int(parts[1]).map({ $0 > 1 }) == true
    else { return nil }
    let digits = Array(stamp.utf8)
    func number(_ range: Range<Int>) -> Int64? {
      range.reduce(0 as Int64?) { number, place in
        guard let number, (0x30...0x39).contains(digits[place]) else { return nil }
        return number * 10 + Int64(digits[place] - 0x30)
      }
    }
    guard digits[8] == UInt8(ascii: "T"), let year = number(0..<4), let month = number(4..<6),
      let day = number(6..<8), let hour = number(9..<11), let minute = number(11..<13),
      let second = number(13..<15), (1...12).contains(month), (1...31).contains(day),
      (1970...2200).contains(year)
    else { return nil }
    // Days since the epoch, counting years of 365.2425 days from March.
    let shifted = month > 2 ? year : year - 1
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000_000
  }
}
