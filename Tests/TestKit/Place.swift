import Foundation
package import Testing

/// Paths of programs and files. If one is missing, the error explains how to get it.
package enum Place {
  package struct Missing: Error, CustomStringConvertible {
    package let description: String
  }

  /// Root of the repository.
  package static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path

  // MARK: Programs

  /// The program under test.
  package static var ringtap: String { get throws { try built("ringtap") } }

  /// The program of `Tools/Harness`.
  package static var harness: String { get throws { try built("harness") } }

  /// A program of the package, in the folder of the tests.
  private static func built(_ name: String) throws -> String {
    let tests = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
    let path = tests.deletingLastPathComponent().appending(path: name).path
    guard FileManager.default.isExecutableFile(atPath: path) else {
      throw Missing(description: "\(name) is not built: run swift build --product \(name)")
    }
    return path
  }

  /// Path of an installed program.
  package static func tool(_ name: String) throws -> String {
    guard let path = installed(name) else {
      throw Missing(description: "\(name) is not installed: run Tools/install \(sets[name] ?? "peers")")
    }
    return path
  }

  private static let sets = ["gcc": "build", "rsvg-convert": "browser"]

  private static func installed(_ name: String) -> String? {
    let folders = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":").map(String.init) ?? []
    // Debian does not have daemons in a user's PATH.
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

  /// Folder of the Python environment with bumble.
  package static func bumble() throws -> String {
    guard let folder = pythons("python-").first(where: { has("bumble", $0) }) else {
      throw Missing(description: "bumble is not installed: run Tools/install peers")
    }
    return folder
  }

  /// Path of Python with bumble.
  package static func bumblePython() throws -> String { try bumble() + "/bin/python" }

  /// Path of Python with bleak.
  package static func bleakPython() throws -> String {
    guard let folder = pythons("python-").first(where: { has("bleak", $0) }) else {
      throw Missing(description: "bleak is not installed: run Tools/install peers")
    }
    return folder + "/bin/python"
  }

  /// Path of Python with the readers of our file formats.
  package static func readersPython() throws -> String {
    guard let folder = pythons("readers-").first else {
      throw Missing(description: "the readers are not installed: run Tools/install readers")
    }
    return folder + "/bin/python"
  }

  /// Path of Python with receivers for the Lab Streaming Layer.
  package static func lslPython() throws -> String {
    guard let folder = pythons("lsl-").first else {
      throw Missing(description: "pylsl is not installed: run Tools/install lsl")
    }
    return folder + "/bin/python"
  }

  /// Path of Python with Home Assistant.
  package static func homePython() throws -> String {
    guard let folder = pythons("home-").first else {
      throw Missing(description: "Home Assistant is not installed: run Tools/install home")
    }
    return folder + "/bin/python"
  }

  /// Folders of the complete environments made by `Tools/install`, newest first. Older ones remain from
  /// earlier versions.
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

  /// Path of a script that plays the peer of a link.
  package static func peer(_ name: String) -> String { root + "/Tests/KernelTests/Peers/" + name }

  /// Path of a file of another test target.
  package static func fixture(_ path: String) -> String { root + "/Tests/" + path }

  /// Folder of the repository's logs and captures.
  package static let captures = root + "/Captures"

  package static func capture(_ name: String) -> String { captures + "/" + name }

  /// Files in `Captures`, sorted.
  package static func captures(withSuffix suffix: String) -> [String] {
    names(in: captures).filter { $0.hasSuffix(suffix) }.sorted().map(capture)
  }

  /// Path of a phone's log of a treadmill; `nil` without the shared folder. The log is not in the repository,
  /// because it contains other people's addresses.
  package static let treadmill: String? = shared("captures/android-treadmill.btsnoop")

  /// Path of a file in the shared folder, which is not in the repository; `nil` if it is missing.
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
