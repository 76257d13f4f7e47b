import TestKit

/// The program under test.
enum RingtapProgram {
  struct Run {
    var lines: [String]
    var messages: [String]
    var status: Int32
  }

  /// Runs it to its end.
  ///
  /// - Parameters:
  ///   - input: standard input, a line each.
  ///   - state: where it keeps what it remembers; `nil`: it remembers nothing.
  static func run(
    _ arguments: [String], input: [String] = [], state: String? = nil
  ) async throws -> Run {
    try await withFolder { folder in
      let run = try await Program.run(
        Place.ringtap, arguments, input: .text(input.joined(separator: "\n") + "\n"),
        environment: ["XDG_STATE_HOME": state ?? folder, "RINGTAP_NO_REMEMBER": state == nil ? "1" : nil])
      return Run(lines: run.outputLines, messages: run.errorLines, status: run.status)
    }
  }
}
