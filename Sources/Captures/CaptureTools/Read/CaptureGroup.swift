import BLELinux
import Recording

/// Finds the captures in a directory: the directory itself or, if several devices were recorded together, its
/// subdirectories.
package enum CaptureGroup {
  /// - Returns: paths, sorted; only the directory itself if it is not a group.
  package static func members(of directory: String) -> [String] {
    let base = directory.hasSuffix("/") ? String(directory.dropLast()) : directory
    guard !isCapture(directory) else { return [directory] }
    let names = Files.names(in: directory).filter { !$0.hasPrefix(".") }.sorted()
    let members = names.map { "\(base)/\($0)" }.filter(isCapture)
    return members.isEmpty ? [directory] : members
  }

  /// Returns the last component of a path.
  package static func name(_ path: String) -> String {
    path.split(separator: "/").last.map(String.init) ?? path
  }

  private static func isCapture(_ directory: String) -> Bool {
    Files.names(in: directory).contains {
      $0 == "session.json" || $0 == ColumnIndex.fileName || $0.hasSuffix(".csv")
        || $0.hasSuffix(".csv.gz") || $0.hasSuffix(".csv.zst")
    }
  }
}
