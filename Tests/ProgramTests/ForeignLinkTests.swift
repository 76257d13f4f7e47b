import BLELinux
import Foundation
import TestKit
import Testing

/// Writing to fixed names in a folder in which another user has put links.
@Suite(.timeLimit(.minutes(2))) struct ForeignLinkTests {
  @Test func followsNoLink() async throws {
    try await withFolder { folder in
      let (walk, victim) = (folder + "/walk", folder + "/victim")
      let made = try await Ringtap.run(
        ["capture", "--transport", "virtual:ring,rate=300", "--count", "90", "--output", walk])
      #expect(made.status == 0)
      try Data("precious".utf8).write(to: URL(filePath: victim))
      let log = walk + "/packets.btsnoop"
      for (name, arguments) in [
        ("walk/report.html", ["report", walk]), ("a.html", ["report", walk, "--output", folder + "/a.html"]),
        ("a.svg", ["report", walk, "--svg", folder + "/a.svg"]),
        ("a.png", ["report", walk, "--png", folder + "/a.png"]),
        ("b.svg", ["log", "stats", log, "--svg", folder + "/b.svg"]),
        ("a.pcapng", ["log", "convert", log, "-o", folder + "/a.pcapng"]),
      ] {
        try Files.link(folder + "/" + name, to: victim)
        let refused = try await Ringtap.run(arguments)
        #expect(refused.status == 1 && refused.errorLines.count == 1, "\(arguments): \(refused.errors)")
        #expect(Files.target(ofLink: folder + "/" + name) == victim, "\(arguments)")
        let result = try await Ringtap.run(arguments + ["--force"])
        #expect(result.status == 0, "\(arguments): \(result.errors)")
        #expect(contents(victim) == Array("precious".utf8), "\(arguments)")
        #expect(Files.target(ofLink: folder + "/" + name) == nil && contents(folder + "/" + name).count > 100)
      }
      // Formats that are never overwritten are not created behind a link either.
      for (name, format) in [("a.edf", "edf"), ("a.ndjson", "ndjson")] {
        try Files.link(folder + "/" + name, to: folder + "/nowhere")
        let result = try await Ringtap.run(
          ["convert", walk, "--to", format, "--output", folder + "/" + name])
        #expect(result.status == 1 && !Files.exists(folder + "/nowhere"), "\(format)")
        #expect(Files.target(ofLink: folder + "/" + name) != nil)
      }
    }
  }
}
