import Foundation
import TestKit
import Testing

/// A ring whose name clears the screen, sets the title, changes the writing direction and breaks lines, in
/// every command that prints it.
@Suite(.timeLimit(.minutes(2)))
struct HostileNameTests {
  private static let name = "R\u{1B}[2J\u{9B}H\u{202E}\u{2028}\u{200B}<&\u{7F}"
  private static let shown = "R\u{FFFD}[2J\u{FFFD}H\u{FFFD}\u{FFFD}\u{FFFD}<&\u{FFFD}"
  private static let address = "70:CB:0D:00:A1:B2"

  /// Characters that control a terminal or are invisible.
  private func unseen(in text: String) -> [Unicode.Scalar] {
    text.unicodeScalars.filter { scalar in
      scalar != "\n" && Self.name.unicodeScalars.contains(scalar) && !(0x20..<0x7F).contains(scalar.value)
    }
  }

  private func run(
    _ arguments: [String], in folder: String, at location: SourceLocation = #_sourceLocation
  ) async throws -> Program.Result {
    let reach = ["--transport", "unix:" + folder + "/ring"]
    let isRadio = ["scan", "gatt", "read", "capture"].contains(arguments[0])
    let result = try await Ringtap.run(arguments + (isRadio ? reach : []), state: folder)
    #expect(result.status == 0, "\(arguments): \(result.errors)", sourceLocation: location)
    let text = result.output + result.errors
    #expect(unseen(in: text).isEmpty, "\(arguments): \(text.debugDescription)", sourceLocation: location)
    return result
  }

  @Test func steersNoTerminalAndBreaksNoFile() async throws {
    try await withFolder { folder in
      let ring = try Ringtap.start(
        ["emulate", "ring", "--name", Self.name, "--transport", "unix:" + folder + "/ring"])
      try await ring.line(containing: "ready")
      let scan = try await run(["scan", "--duration", "0.5"], in: folder)
      #expect(scan.output.contains(Self.shown))
      let objects = try await run(["scan", "--duration", "0.5", "--json"], in: folder)
      let names = try objects.outputLines.map { line in
        try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])["name"] as? String
      }
      #expect(names.contains(Self.name), "a parser gets the exact name")
      _ = try await run(["gatt", Self.address], in: folder)
      _ = try await run(["read", Self.address, "2a00"], in: folder)
      let capture = folder + "/capture"
      _ = try await run(
        ["capture", "--name", Self.name, "--count", "3", "--output", capture, "--quiet"], in: folder)
      let devices = try await run(["devices"], in: folder)
      #expect(devices.output.contains(Self.shown))
      _ = try await run(["devices", "show", Self.address], in: folder)
      _ = try await run(["analyse", capture], in: folder)
      _ = try await run(["log", "show", capture + "/packets.btsnoop"], in: folder)
      let (page, picture) = (folder + "/page.html", folder + "/page.svg")
      _ = try await run(["report", capture, "--output", page, "--svg", picture], in: folder)
      for file in [page, picture, capture + "/session.json"] {
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(unseen(in: text).isEmpty, "\(file)")
      }
      let parse = "import sys; from xml.etree import ElementTree; ElementTree.parse(sys.argv[1])"
      let parser = try await Program.run("python3", ["-c", parse, picture])
      #expect(parser.status == 0, "\(parser.errors)")
      ring.send(SIGTERM)
      #expect(unseen(in: try await ring.finish().output).isEmpty)
    }
  }
}
