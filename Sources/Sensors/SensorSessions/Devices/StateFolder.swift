import BLELinux

/// Where this program keeps what it remembers from one run to the next.
public enum StateFolder {
  /// `$XDG_STATE_HOME/ringtap`; under systemd `$STATE_DIRECTORY`; root's is `/var/lib/ringtap`, everybody else's
  /// `~/.local/state/ringtap`. `nil` without a home.
  ///
  /// XDG Base Directory Specification 0.8: a path that is not absolute does not count.
  public static var path: String? {
    if let home = folder("XDG_STATE_HOME") { return home + "/ringtap" }
    if let service = folder("STATE_DIRECTORY") { return service }
    if ProcessFacts.isRoot { return "/var/lib/ringtap" }
    return folder("HOME").map { $0 + "/.local/state/ringtap" }
  }

  private static func folder(_ name: String) -> String? {
    guard let path = ProcessFacts.environment(name), path.hasPrefix("/") else { return nil }
    // systemd lists several with colons between them; the first is the one that the unit names first.
    return path.split(separator: ":").first.map(String.init)
  }
}
