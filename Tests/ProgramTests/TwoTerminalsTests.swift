import Foundation
import TestKit
import Testing

/// The guide "Two terminals, no hardware", typed line by line by a person who takes five seconds between one
/// terminal and the other. What it prints is what the guide shows, but for the numbers.
@Suite(.timeLimit(.minutes(4))) struct TwoTerminalsTests {
  private struct Step {
    var command: String
    var shown: [String] = []

    /// A program of the first terminal, which runs until Ctrl-C.
    var stays: Bool { command.hasPrefix("ringtap emulate ") || command.hasPrefix("ringtap serve ") }
  }

  private static func steps() throws -> [Step] {
    let guide = Place.root + "/Sources/Program/RingTap/RingTap.docc/TwoTerminals.md"
    var steps: [Step] = []
    var isConsole = false
    for line in try String(contentsOfFile: guide, encoding: .utf8).split(separator: "\n") {
      if line.hasPrefix("```") {
        isConsole = line == "```console"
      } else if isConsole, line.hasPrefix("$ ") {
        steps.append(Step(command: String(line.dropFirst(2))))
      } else if isConsole {
        steps[steps.count - 1].shown.append(String(line))
      }
    }
    return steps
  }

  /// An emulation is stopped when the next one takes its port.
  private static func script(_ steps: [Step], _ folder: String) throws -> String {
    var lines = ["ip link set lo up", "cd '\(folder)'", "ringtap() { exec '\(try Place.ringtap)' \"$@\"; }"]
    for (index, step) in steps.enumerated() {
      guard step.stays else {
        lines.append("( \(step.command) ) > \(index).out 2>&1; echo $? > \(index).status")
        continue
      }
      if step.command.contains("emulate") { lines.append("kill -INT $(jobs -p) 2>/dev/null; wait") }
      lines.append("( \(step.command) ) > \(index).out 2>&1 &")
      lines.append("sleep 5")
    }
    return (lines + ["sleep 5", "kill -INT $(jobs -p); wait"]).joined(separator: "\n")
  }

  private static func withoutNumbers(_ line: String) -> String {
    line.replacing(/[0-9]+(\.[0-9]+)?/, with: "N")
  }

  @Test func isAsTheGuideSays() async throws {
    let steps = try Self.steps()
    #expect(steps.count >= 13 && steps.count(where: \.stays) == 4)
    try await withFolder { folder in
      let run = try Program(
        "unshare", ["--net", "bash", "-c", try Self.script(steps, folder)],
        environment: ["HOME": folder, "XDG_STATE_HOME": folder, "XDG_RUNTIME_DIR": folder])
      _ = try await run.finish(within: .seconds(180))
      for (index, step) in steps.enumerated() {
        let output = try String(contentsOfFile: "\(folder)/\(index).out", encoding: .utf8)
        let lines = output.split(separator: "\n").map { Self.withoutNumbers(String($0)) }
        if !step.stays {
          let status = try String(contentsOfFile: "\(folder)/\(index).status", encoding: .utf8)
          #expect(status == "0\n", "\(step.command): \(output)")
          #expect(!lines.isEmpty, "\(step.command)")
        }
        for line in step.shown {
          #expect(lines.contains(Self.withoutNumbers(line)), "\(step.command): \(output)")
        }
      }
      // The served strap is the emulated one.
      let tree = try #require(steps.lastIndex { $0.command.contains("ringtap gatt") })
      let output = try String(contentsOfFile: "\(folder)/\(tree).out", encoding: .utf8)
      #expect(output.contains("Body Sensor Location") && output.contains("Battery Level"), "\(output)")
    }
  }
}
