import BLELinux
package import BLEWire
import CaptureTools
import Glibc

/// How long captures are kept: the oldest go first, and none that is still written.
package struct Retention: Hashable, Sendable {
  /// Since its begin.
  package var maximumAge: Duration?
  /// Of all captures together.
  package var maximumByteCount: Int?
  /// That must be left on the disk.
  package var minimumFreeByteCount: Int?

  package init() {}

  /// A capture as retention sees it.
  package struct Capture: Hashable, Sendable {
    package var path: String
    package var begunAt: ReceiveTime
    package var byteCount: Int
    /// Still written.
    package var isOpen: Bool

    package init(path: String, begunAt: ReceiveTime, byteCount: Int, isOpen: Bool) {
      self.path = path
      self.begunAt = begunAt
      self.byteCount = byteCount
      self.isOpen = isOpen
    }
  }

  /// Those that must go, the oldest first.
  ///
  /// - Parameter free: octets free on the disk now.
  package func expired(_ captures: [Capture], at now: ReceiveTime, free: Int) -> [Capture] {
    var (total, free) = (captures.reduce(0) { $0 + $1.byteCount }, free)
    var expired: [Capture] = []
    for capture in captures.sorted(by: { ($0.begunAt, $0.path) < ($1.begunAt, $1.path) })
    where !capture.isOpen {
      // A clock that was set back makes nothing old.
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

/// A capture on a daemon's shelf.
struct DaemonCapture: Hashable, Sendable {
  var device: String
  var path: String
  var begunAt: ReceiveTime
  /// Still written.
  var isOpen: Bool
}

/// The captures of a daemon: `DIRECTORY/DEVICE/20261122T033154Z`, named by their begin in UTC.
struct CaptureShelf {
  let directory: String

  /// A directory for a capture that begins now; with `-2` and so on where the second has one.
  func place(for device: String, at now: ReceiveTime) -> String {
    let path = "\(directory)/\(device)/\(UTCText(now.nanoseconds).fileName)"
    guard Files.exists(path) else { return path }
    return (2...).lazy.map { "\(path)-\($0)" }.first { !Files.exists($0) } ?? path
  }

  /// Whether its file system has so many octets free, as far as that is known.
  func hasRoom(for byteCount: Int) -> Bool {
    guard let free = try? Files.freeByteCount(at: directory) else { return true }
    return free >= byteCount
  }

  /// Only what has such a name: all else that lies here is somebody's.
  ///
  /// - Returns: none of them as one that is written.
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

// MARK: What retention may take away

extension CaptureShelf {
  /// What lies on a shelf, as a look at every file tells.
  struct Inventory: Sendable {
    var captures: [Retention.Capture] = []
    /// Folders and captures that are links: what they lead to is not this daemon's.
    var links: [String] = []
    /// Octets free on the file system; `nil` if it does not tell.
    var free: Int?
  }

  /// Octets that are freed at once.
  static let stepByteCount = 64 << 20
  /// A capture that is being taken away: no reader of captures takes it for one.
  private static let removedSuffix = ".removing"

  private static func removedName(_ name: String) -> String { ".\(name)\(removedSuffix)" }

  /// Folders and captures without those behind links, with their sizes.
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

  /// Takes a capture away: at once for all who look for captures, and then from the disk, step by step.
  ///
  /// - Parameter goesOn: asked after each step; `false` leaves the rest to `removeRests`.
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

  /// Takes away what an earlier daemon had begun to.
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
  /// `20261122T033154Z`, ISO 8601's basic format.
  var fileName: String {
    let text = iso
    let digits = text.unicodeScalars.prefix(19).filter { ("0"..."9").contains($0) }.map(Character.init)
    return String(digits.prefix(8)) + "T" + String(digits.dropFirst(8)) + "Z"
  }

  /// The other way, with or without `-2`; nanoseconds since the Unix epoch.
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
    // Days since the epoch: years of 365.2425 days that begin in March.
    let shifted = month > 2 ? year : year - 1
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000_000
  }
}
