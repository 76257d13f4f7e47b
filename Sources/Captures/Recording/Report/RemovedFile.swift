import BLELinux
public import BLEWire

/// A file of a recording that was removed, replaced, cut or moved out of its directory during the recording.
public struct RemovedFile: Hashable, Sendable {
  /// Kind of change to the file.
  public enum Change: String, Hashable, Sendable {
    /// Removed, replaced or moved away.
    case removed
    /// Made shorter than the data written to it, as logrotate's `copytruncate` does.
    case cut
  }

  /// Name in the capture's directory.
  public let name: String
  public let change: Change
  /// Time when the recording noticed it: about a second after the last write to the file.
  public let noticedAt: ReceiveTime
  /// Rows or packets written to it before, and those received afterwards. All are lost.
  public internal(set) var rows = 0

  init(name: String, change: Change, noticedAt: ReceiveTime) {
    self.name = name
    self.change = change
    self.noticedAt = noticedAt
  }
}

/// Files that a recording found to be removed.
public struct FileRemoval: Hashable, Sendable {
  /// Files that are left to write to.
  public enum Rest: Hashable, Sendable {
    case others
    /// No files are left, so the recording ends.
    case nothing
  }

  public let files: [RemovedFile]
  public let leaves: Rest

  /// Message for the user when the removal is noticed.
  public func text(in directory: String) -> String {
    switch leaves {
    case .nothing: "\(directory) was removed, and its recording is lost; the recording ends"
    case .others:
      Self.names(files, directory) + ", and their contents are lost; the other files continue"
    }
  }

  private static func names(_ files: [RemovedFile], _ directory: String) -> String {
    let changes = Set(files.map(\.change))
    let what =
      changes == [.removed]
      ? "removed or moved away" : changes == [.cut] ? "cut short" : "removed, moved away or cut short"
    return files.map { "\(directory)/\($0.name)" }.joined(separator: ", ")
      + (files.count == 1 ? " was " : " were ") + what
  }

  /// Message for the user at the end.
  static func text(_ files: [RemovedFile], in directory: String) -> String {
    names(files, directory) + " during the recording; lost with "
      + (files.count == 1 ? "it: " : "them: ") + files.map { "\($0.rows)" }.joined(separator: ", ")
      + " rows or packets"
  }
}
