import BLELinux
public import BLEWire
import JSONText

/// A file of a recording that somebody removed, replaced, cut or moved out of its directory while it was written.
public struct RemovedFile: Hashable, Sendable {
  /// What was done to it.
  public enum Change: String, Hashable, Sendable {
    /// Removed, replaced or moved away.
    case removed
    /// Made shorter than what had been written to it, as logrotate's `copytruncate` does.
    case cut
  }

  /// In the capture's directory.
  public let name: String
  public let change: Change
  /// When the recording saw that it had gone: a second or so after something was last written to it.
  public let noticedAt: ReceiveTime
  /// Rows or packets that had been written to it, and those that came afterwards: all are lost.
  public internal(set) var rows = 0

  init(name: String, change: Change, noticedAt: ReceiveTime) {
    self.name = name
    self.change = change
    self.noticedAt = noticedAt
  }
}

/// Files that a recording found to be gone.
public struct FileRemoval: Hashable, Sendable {
  /// What is left to write to.
  public enum Rest: Hashable, Sendable {
    case others
    /// The recording ends.
    case nothing
  }

  public let files: [RemovedFile]
  public let leaves: Rest

  /// What a person is told when it is noticed.
  public func text(in directory: String) -> String {
    switch leaves {
    case .nothing: "\(directory) was removed, and what was recorded into it is lost; the recording ends"
    case .others:
      Self.names(files, directory) + ", and what was recorded there is lost; the other files go on"
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

  /// What a person is told at the end.
  static func text(_ files: [RemovedFile], in directory: String) -> String {
    names(files, directory) + " during the recording; lost with "
      + (files.count == 1 ? "it: " : "them: ") + files.map { "\($0.rows)" }.joined(separator: ", ")
      + " rows or packets"
  }
}

extension SessionReport {
  /// The member `removedFiles` of `session.json`, where there are any.
  func encodeRemovedFiles(_ line: inout JSONLine) {
    guard !removedFiles.isEmpty else { return }
    line.member(
      "removedFiles",
      array: { line in
        for file in removedFiles {
          line.object { line in
            line.member("file", file.name)
            if file.change == .cut { line.member("change", file.change.rawValue) }
            line.member("noticedAtNs", file.noticedAt)
            line.member("rows", file.rows)
          }
        }
      })
  }
}
