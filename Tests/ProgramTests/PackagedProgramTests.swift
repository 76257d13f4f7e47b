import Foundation
import TestKit
import Testing

/// The script that the Debian package installs as /usr/bin/ringtap, and its guides; `Tools/package test` tries
/// the whole package.
@Suite(.timeLimit(.minutes(1))) struct PackagedProgramTests {
  /// Exit status 126 of a shell: found, but not executable. POSIX.1-2017, XCU 2.8.2.
  private static let notExecutable: Int32 = 126

  /// Runs the script with a stand-in for the program, which prints one argument per line. If the test runs as
  /// root, the script runs as nobody, and the stand-in belongs to root.
  private func run(mode: mode_t, exists: Bool = true, _ words: [String]) async throws -> Program.Result {
    try await withFolder { folder in
      let installed = "/usr/lib/ringtap/ringtap"
      let script = try String(contentsOfFile: Place.root + "/Tools/packaging/ringtap", encoding: .utf8)
      #expect(script.contains("=\(installed)\n"))
      let (command, program) = (folder + "/command", folder + "/ringtap")
      try script.replacing(installed, with: program).write(toFile: command, atomically: true, encoding: .utf8)
      if exists {
        try "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 3\n"
          .write(toFile: program, atomically: true, encoding: .utf8)
        #expect(chmod(program, mode) == 0)
      }
      #expect(chmod(command, 0o755) == 0 && chmod(folder, 0o755) == 0)
      let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
      return getuid() == 0
        ? try await Program("setpriv", user + [command] + words).finish()
        : try await Program(command, words).finish()
    }
  }

  @Test func tellsOthersWhoMayRunIt() async throws {
    // Without root the file belongs to the user who runs the test.
    let result = try await run(mode: getuid() == 0 ? 0o750 : 0o640, ["capture", "--count", "3"])
    #expect(result.status == Self.notExecutable)
    #expect(result.output.isEmpty)
    #expect(result.errorLines.count == 1, "\(result.errors)")
    #expect(result.errors.contains("ringtap-radio"))
    #expect(result.errors.contains(#"sudo usermod -aG ringtap-radio "$USER", then log in again"#))
  }

  @Test func runsTheProgramForItsMembers() async throws {
    let words = ["decode", "two words", "", "$HOME", "*"]
    let result = try await run(mode: 0o755, words)
    #expect(result.status == 3)
    #expect(result.output == words.map { $0 + "\n" }.joined())
    #expect(result.errors.isEmpty)
  }

  /// In a damaged installation the group would not help.
  @Test func doesNotBlameTheGroupForAMissingFile() async throws {
    let result = try await run(mode: 0, exists: false, ["--version"])
    #expect(result.status == 127)
    #expect(!result.errors.contains("usermod"), "\(result.errors)")
  }

  /// The package's README and guides need no repository: their links lead to files of the package, and
  /// programs are printed in full. Its example configuration is valid.
  @Test func guidesStandAlone() async throws {
    try await withFolder { folder in
      let result = try await Program.run(Place.root + "/Tools/packaging/guides", [folder])
      #expect(result.status == 0, "\(result.errors)")
      let guides = try FileManager.default.contentsOfDirectory(atPath: folder + "/guides")
      #expect(guides.contains("RingsAndFirmware.md"))
      for guide in guides {
        let text = try String(contentsOfFile: folder + "/guides/" + guide, encoding: .utf8)
        #expect(!text.contains("@Snippet") && !text.contains("<doc:"), "\(guide)")
      }
      let pulse = try String(contentsOfFile: folder + "/guides/FromRingToPulse.md", encoding: .utf8)
      #expect(pulse.contains("```swift\n") && pulse.contains("import RingTap"))
      let check = try await Ringtap.run(["daemon", "--check", folder + "/examples/ringtap.json"])
      #expect(check.status == 0 && check.output.hasSuffix("valid, 2 devices\n"), "\(check.errors)")
    }
  }
}
