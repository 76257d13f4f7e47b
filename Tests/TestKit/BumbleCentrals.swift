import Foundation
import Synchronization
package import Testing

/// Centrals of google/bumble that are controlled by commands. Our host connects to their port.
package final class BumbleCentrals: Sendable {
  /// Port for the device's host; 0 if the central has its own controller.
  package let port: UInt16
  package let addresses: [String]
  private let program: Program
  /// Number of output lines that were already read.
  private let taken = Mutex(0)

  package static func start(_ options: [String] = []) async throws -> BumbleCentrals {
    try await adopt(try Program(Place.bumblePython(), [Place.peer("bumble_user.py")] + options))
  }

  /// Uses a program that the caller has started and will end.
  package static func adopt(_ program: Program) async throws -> BumbleCentrals {
    do {
      return try BumbleCentrals(program, await program.line(containing: "ready "))
    } catch {
      program.send(SIGKILL)
      throw error
    }
  }

  private init(_ program: Program, _ line: String) throws {
    let words = line.split(separator: " ")
    port = UInt16(words[1]) ?? 0
    addresses = words.dropFirst(port == 0 ? 1 : 2).map(String.init)
    self.program = program
  }

  deinit { program.send(SIGKILL) }

  package func tell(_ command: String) throws { try program.type(command) }

  /// Sends a command to a central, and waits for an output line that begins with one of these words.
  ///
  /// - Returns: The line without the central's number.
  @discardableResult
  package func ask(
    _ command: String, _ words: String..., central: Int = 1
  ) async throws -> String {
    try tell("\(central) \(command)")
    return try await next(words, central: central)
  }

  /// Sends a command to a central, and expects this answer.
  package func expect(
    _ answer: String, for command: String, central: Int = 1, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try tell("\(central) \(command)")
    let word = answer.split(separator: " ").first.map(String.init) ?? ""
    let found = try await next(word == "refused" ? Self.answers : [word], central: central)
    #expect(found == answer, sourceLocation: location)
  }

  /// First words of answers to commands that succeed.
  private static let answers = ["read", "written", "prepared", "subscribed", "paired", "encrypted"]

  /// Returns the next line of a central that begins with one of these words, or reports an error. Skips
  /// earlier lines.
  package func next(_ words: [String], central: Int = 1) async throws -> String {
    let begins = (words + ["refused", "failed"]).map { "\(central) \($0)" }
    let start = taken.withLock { $0 }
    func index() -> Int? {
      let lines = lines
      return lines.indices.dropFirst(start).first { index in begins.contains { lines[index].hasPrefix($0) } }
    }
    try await eventually("one of \(begins)") { index() != nil }
    let found = try #require(index())
    taken.withLock { $0 = found + 1 }
    return lines[found].split(separator: " ").dropFirst().joined(separator: " ")
  }

  /// Complete lines of all centrals so far.
  private var lines: [String] {
    program.output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
  }

  /// All values that a central received by notification or indication so far.
  package func values(central: Int = 1) -> [String] {
    lines.filter { $0.hasPrefix("\(central) value ") }
      .map { $0.split(separator: " ").dropFirst(2).joined(separator: " ") }
  }

  /// All lines of a central so far.
  package func lines(central: Int = 1) -> [String] {
    lines.filter { $0.hasPrefix("\(central) ") }.map { String($0.dropFirst(2)) }
  }
}
