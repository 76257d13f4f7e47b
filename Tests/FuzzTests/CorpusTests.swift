import Foundation
import FuzzTargets
import Testing
import TestKit

/// The stored inputs that the fuzzers found: each target returns, and its invariants hold. A trap ends the
/// run.
@Suite struct CorpusTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Tools/fuzz/corpus")

  @Test(arguments: FuzzTarget.allCases.filter { !FuzzTarget.commands.contains($0) })
  func survives(_ target: FuzzTarget) throws {
    for input in try Self.inputs(of: target) { target.run(input.span) }
    let empty: [UInt8] = []
    target.run(empty.span)
  }

  /// Each command gets a quarter of a gigabyte more than the program itself maps. They run one after the
  /// other because they share a folder.
  @Test func endsCommands() async throws {
    let script = "exec 0<\"$1\"; shift; ulimit -v 1500000; exec \"$@\""
    for target in FuzzTarget.commands {
      for input in try Self.inputs(of: target) {
        guard let command = target.command(input.span) else { continue }
        let run = try await Program.run(
          "bash", ["-c", script, "bash", command.input ?? "/dev/null", try Place.ringtap] + command.arguments)
        command.check(status: run.status, output: Array(run.output.utf8), errors: Array(run.errors.utf8))
      }
    }
  }

  private static func inputs(of target: FuzzTarget) throws -> [[UInt8]] {
    let folder = folder.appending(path: target.rawValue)
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    try #require(!names.isEmpty)
    return try names.sorted().map { [UInt8](try Data(contentsOf: folder.appending(path: $0))) }
  }

  /// Renaming a target must not leave its corpus unused.
  @Test func usesEachFolder() throws {
    let folders = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
    #expect(Set(folders).isSubset(of: Set(FuzzTarget.allCases.map(\.rawValue))))
  }
}
