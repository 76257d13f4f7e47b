import Foundation
import TestKit
import Testing

/// The program's live view on a terminal, as an independent terminal emulator shows it.
@Suite struct LiveTerminalTests {
  /// - Parameter end: how the program is ended if the command does not end by itself.
  private func run(_ command: String, _ end: String? = nil) async throws -> [String: Any] {
    let program = try Place.ringtap
    return try await withFolder { folder in
      guard let end else { return try await Readers.run(command, program, folder, script: "terminal.py") }
      return try await Readers.run(command, program, folder, end, script: "terminal.py")
    }
  }

  @Test func showsWhatTheTablesHave() async throws {
    #expect(try await run("figures")["frames"] as? Int ?? 0 > 8)
  }

  @Test func messagesScrollAboveIt() async throws { _ = try await run("messages") }

  @Test func followsTheSizeOfTheTerminal() async throws { _ = try await run("resize") }

  @Test(arguments: ["key", "INT", "TERM", "KILL"])
  func leavesTheTerminalAsItWas(_ end: String) async throws { _ = try await run("end", end) }

  @Test func isNotThereUnwanted() async throws { _ = try await run("plain") }
}
