import BLELinux

/// Folder for data that ringtap keeps between runs.
public enum StateFolder {
  /// `$XDG_STATE_HOME/ringtap`, or `$STATE_DIRECTORY` under systemd. Otherwise `/var/lib/ringtap` for root
  /// and `~/.local/state/ringtap` for other users; `nil` without a home directory.
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
    // systemd separates several directories with colons, in the order of the unit; use the first.
    return path.split(separator: ":").first.map(String.init)
  }
}
