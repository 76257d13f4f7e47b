import Foundation
import TestKit
import Testing

/// Runs each command of the README and the guides as it is printed there, in a folder that has the files that
/// they name.
///
/// The commands run in a separate network namespace, which has no Bluetooth. Those that need an adapter get
/// as far as asking for one. Commands that read files, or emulate their radio, succeed or record until
/// interrupted.
@Suite(.timeLimit(.minutes(5))) struct GuideCommandTests {
  struct Line: CustomStringConvertible, Sendable {
    let place: String
    /// The command for a shell.
    let text: String
    var description: String { "\(place): \(text)" }
  }

  private static let guides = Place.root + "/Sources/Program/RingTap/RingTap.docc/"

  /// Lines of code blocks that begin with `ringtap`. A prompt, `sudo`, a folder and remarks at the end of the
  /// line are removed.
  static let lines: [Line] = {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: guides)) ?? []
    let files = names.filter { $0.hasSuffix(".md") }.sorted().map { guides + $0 }
    return ([Place.root + "/README.md"] + files).flatMap { file -> [Line] in
      let text = (try? String(contentsOfFile: file, encoding: .utf8)) ?? ""
      let parts = text.replacing("\\\n", with: "").split(separator: "```", omittingEmptySubsequences: false)
      let blocks = parts.enumerated().filter { !$0.offset.isMultiple(of: 2) }.map(\.element)
      return blocks.flatMap { $0.split(separator: "\n") }.compactMap { command(String($0)) }.map {
        Line(place: URL(filePath: file).lastPathComponent, text: $0)
      }
    }
  }()

  private static func command(_ line: String) -> String? {
    guard let match = line.wholeMatch(of: /(?:\$ )?(?:sudo )?(?:\S*\/)?(ringtap .*)/) else { return nil }
    var command = String(match.1).replacing(/[ ]{2,}.*/, with: "").replacing(/[ ]&$/, with: "")
    for (name, stand) in [("://…", "://broker.local"), ("/etc/ringtap.json", "ringtap.json")] {
      command.replace(name, with: stand)
    }
    return command
  }

  /// Creates the files that the command needs but does not create itself.
  private static func prepare(_ folder: String, for text: String) async throws {
    func isRead(_ name: String) -> Bool {
      text.contains(name) && !text.contains("-o\(name)") && !text.contains("--output\(name)")
    }
    for (name, sensors) in [
      ("walk", "ring,rate=75"), ("slow", "ring,rate=3"), ("run", "ring,rate=75,motion=run"),
      ("ride", "ring,rate=75,motion=run,shared+polar,motion=run,shared"),
    ] where isRead(" \(name)") {
      let kinds = name == "ride" ? ["ring", "polar:acc"] : ["ring"]
      let options = [
        "--transport", "virtual:\(sensors)", "--duration", "12", "--output", "\(folder)/\(name)",
      ]
      let run = try await Ringtap.run(["capture"] + kinds + options)
      try #require(run.status == 0, "\(run.errorLines)")
      if text.contains("--grid") { _ = try await Ringtap.run(["align", "\(folder)/\(name)"]) }
    }
    if text.contains("ringtap.json") {
      let guide = try String(contentsOfFile: guides + "Boards.md", encoding: .utf8)
      let json = try #require(guide.firstMatch(of: #/(?s)\$ cat \/etc\/ringtap\.json\n(.*?)\n\$ /#))
      try String(json.1).write(toFile: folder + "/ringtap.json", atomically: true, encoding: .utf8)
    }
    if text.contains("ring battery") {
      let log = ["--transport", "virtual:ring", "--packet-log", folder + "/btsnoop_hci.log"]
      let run = try await Ringtap.run(["ring", "battery"] + log)
      return try #require(run.status == 0, "\(run.errorLines)")
    }
    for name in ["btsnoop_hci.log", "a.btsnoop"] where isRead(name) {
      let log = Place.root + "/Captures/virtual-ring.btsnoop"
      try FileManager.default.copyItem(atPath: log, toPath: "\(folder)/\(name)")
    }
  }

  @Test func thereAreSome() {
    #expect(Self.lines.count > 50 && Set(Self.lines.map(\.place)).count > 10)
  }

  @Test(arguments: lines) func runs(_ line: Line) async throws {
    try await withFolder { folder in
      try await Self.prepare(folder, for: line.text)
      // An emulated sensor can be recorded without end, so the command is interrupted. A command that reads
      // files ends.
      let isEmulated = line.text.contains("virtual:") || line.text.contains("tcp-")
      let script = """
        ip link set lo up; cd '\(folder)'; set -o pipefail
        ringtap() { timeout --signal=INT \(isEmulated ? 5 : 30) '\(try Place.ringtap)' "$@"; }
        \(line.text)
        """
      let run = try await Program.run(
        "unshare", ["--net", "bash", "-c", script], environment: ["HOME": folder, "XDG_RUNTIME_DIR": folder])
      #expect(run.status != 2 && run.status < 126, "\(run.errors)")
      // No peer is listening on a TCP port.
      let isComplete =
        !line.text.contains("tcp-client:")
        && (line.text.contains(/virtual:|replay:|--version|--check/)
          || line.text.contains(
            /^ringtap (report|analyse|align|convert|import|extcap|log (show|convert|replay))/))
      // A few seconds are too short to align two clocks; that is reported, too.
      let isTooShort = line.text.contains("ride") && (run.output + run.errors).contains("not aligned")
      let statuses: Set<Int32> = isEmulated ? [0, 124] : [0]
      if isComplete, !isTooShort { #expect(statuses.contains(run.status), "\(run.errors)") }
    }
  }
}
