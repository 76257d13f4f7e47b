/// The program of `Tools/Harness`, whose commands only tests and benchmarks use.
package enum Harness {
  /// A command line of ringtap, or that of `harness` which does the same without a kernel that has Bluetooth:
  /// `record` for `log record`.
  package static func line(for arguments: [String]) throws -> (program: String, arguments: [String]) {
    guard arguments.starts(with: ["log", "record"]) else { return (try Place.ringtap, arguments) }
    return (try Place.harness, Array(arguments.dropFirst()))
  }

  package static func start(_ arguments: [String]) throws -> Program { try Program(Place.harness, arguments) }

  /// Runs the program to its end.
  package static func run(_ arguments: [String]) async throws -> Program.Result {
    try await Program.run(Place.harness, arguments)
  }
}
