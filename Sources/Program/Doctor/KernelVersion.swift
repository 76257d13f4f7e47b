import BLELinux

/// A version of Linux.
struct KernelVersion: Hashable, Comparable, CustomStringConvertible {
  let major: Int
  let minor: Int
  let patch: Int

  init(_ major: Int, _ minor: Int, _ patch: Int) {
    (self.major, self.minor, self.patch) = (major, minor, patch)
  }

  /// Parses a version such as `6.1.192` and ignores any suffix.
  init?(_ text: some StringProtocol) {
    let numbers = text.prefix { $0.isNumber || $0 == "." }.split(separator: ".").compactMap { Int($0) }
    guard numbers.count >= 2 else { return nil }
    self.init(numbers[0], numbers[1], numbers.count > 2 ? numbers[2] : 0)
  }

  /// Reads the version of the running kernel. Debian's release, such as `6.1.0-18-amd64`, names the ABI; the
  /// upstream version is in `/proc/version`.
  init?(root: String) {
    if let text = Files.text(at: "\(root)/proc/version") {
      let words = text.split(separator: " ")
      if let place = words.firstIndex(of: "Debian"), place + 1 < words.count,
        let version = KernelVersion(words[place + 1])
      {
        self = version
        return
      }
    }
    guard let release = Files.text(at: "\(root)/proc/sys/kernel/osrelease") else { return nil }
    self.init(release)
  }

  static func < (one: KernelVersion, other: KernelVersion) -> Bool {
    (one.major, one.minor, one.patch) < (other.major, other.minor, other.patch)
  }

  var description: String { "\(major).\(minor).\(patch)" }
}
