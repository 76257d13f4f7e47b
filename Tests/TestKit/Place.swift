import Foundation
package import Testing

/// Where things are. What is missing is a failure that says how to get it.
package enum Place {
  package struct Missing: Error, CustomStringConvertible {
    package let description: String
  }

  /// The repository.
  package static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path

  // MARK: Programs

  /// The program under test, beside the tests.
  package static var ringtap: String {
    get throws {
      let tests = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
      let path = tests.deletingLastPathComponent().appending(path: "ringtap").path
      guard FileManager.default.isExecutableFile(atPath: path) else {
        throw Missing(
          description: "the program is not built: run swift build --product ringtap")
      }
      return path
    }
  }

  /// A program of this machine, by its name.
  package static func tool(_ name: String) throws -> String {
    guard let path = installed(name) else {
      throw Missing(description: "\(name) is not installed: run Tools/install \(sets[name] ?? "peers")")
    }
    return path
  }

  private static let sets = ["gcc": "build", "rsvg-convert": "browser"]

  private static func installed(_ name: String) -> String? {
    let folders = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":").map(String.init) ?? []
    // Debian keeps daemons out of a user's PATH.
    return (folders + ["/usr/sbin", "/usr/local/sbin", "/usr/libexec/bluetooth"]).map { "\($0)/\(name)" }
      .first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  package static func chromium() throws -> String {
    let names = ["chromium", "chromium-browser", "google-chrome"]
    guard let path = names.lazy.compactMap({ installed($0) }).first else {
      throw Missing(description: "Chromium is not installed: run Tools/install browser")
    }
    return path
  }

  // MARK: Pythons

  /// The folder of the Python that has bumble.
  package static func bumble() throws -> String {
    guard let folder = pythons("python-").first(where: { has("bumble", $0) }) else {
      throw Missing(description: "bumble is not installed: run Tools/install peers")
    }
    return folder
  }

  /// The Python that has bumble.
  package static func bumblePython() throws -> String { try bumble() + "/bin/python" }

  /// The Python that has bleak.
  package static func bleakPython() throws -> String {
    guard let folder = pythons("python-").first(where: { has("bleak", $0) }) else {
      throw Missing(description: "bleak is not installed: run Tools/install peers")
    }
    return folder + "/bin/python"
  }

  /// The Python that has the readers of our files.
  package static func readersPython() throws -> String {
    guard let folder = pythons("readers-").first else {
      throw Missing(description: "the readers are not installed: run Tools/install readers")
    }
    return folder + "/bin/python"
  }

  /// The Python that has receivers of the Lab Streaming Layer.
  package static func lslPython() throws -> String {
    guard let folder = pythons("lsl-").first else {
      throw Missing(description: "pylsl is not installed: run Tools/install lsl")
    }
    return folder + "/bin/python"
  }

  /// The Python that has Home Assistant.
  package static func homePython() throws -> String {
    guard let folder = pythons("home-").first else {
      throw Missing(description: "Home Assistant is not installed: run Tools/install home")
    }
    return folder + "/bin/python"
  }

  /// Complete environments of `Tools/install`, the latest first: the others are left over from other versions.
  private static func pythons(_ prefix: String) -> [String] {
    let environment = ProcessInfo.processInfo.environment
    let cache = (environment["XDG_CACHE_HOME"] ?? (environment["HOME"] ?? "") + "/.cache") + "/ringtap"
    let made = names(in: cache).filter { $0.hasPrefix(prefix) }.compactMap { name -> (String, Date)? in
      let facts = try? FileManager.default.attributesOfItem(atPath: "\(cache)/\(name)/complete")
      return (facts?[.modificationDate] as? Date).map { ("\(cache)/\(name)", $0) }
    }
    return made.sorted { $0.1 > $1.1 }.map(\.0)
  }

  private static func has(_ package: String, _ environment: String) -> Bool {
    names(in: environment + "/lib").contains {
      FileManager.default.fileExists(atPath: "\(environment)/lib/\($0)/site-packages/\(package)")
    }
  }

  // MARK: Files

  /// A script that is the other side of a link.
  package static func peer(_ name: String) -> String { root + "/Tests/KernelTests/Peers/" + name }

  /// A file of another test target's.
  package static func fixture(_ path: String) -> String { root + "/Tests/" + path }

  /// The repository's logs and captures.
  package static let captures = root + "/Captures"

  package static func capture(_ name: String) -> String { captures + "/" + name }

  /// Files in `Captures`, sorted.
  package static func captures(withSuffix suffix: String) -> [String] {
    names(in: captures).filter { $0.hasSuffix(suffix) }.sorted().map(capture)
  }

  /// The phone's log of a treadmill, which stays outside the repository: it holds other people's addresses. `nil` without
  /// the shared folder.
  package static let treadmill: String? = shared("captures/android-treadmill.btsnoop")

  /// A file of the shared folder, which stays outside the repository; `nil` where it is not.
  package static func shared(_ path: String) -> String? {
    let folder =
      ProcessInfo.processInfo.environment["RINGTAP_SHARED"]
      ?? URL(filePath: root).deletingLastPathComponent().appending(path: "shared").path
    let file = folder + "/" + path
    return FileManager.default.fileExists(atPath: file) ? file : nil
  }

  package static let noShared: Comment = "no shared captures: set RINGTAP_SHARED to their folder"

  private static func names(in folder: String) -> [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
  }
}
