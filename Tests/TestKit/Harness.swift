/// The program of `Tools/Harness`, whose commands only tests and benchmarks use.
package enum Harness {
  package static func start(_ arguments: [String]) throws -> Program { try Program(Place.harness, arguments) }

  /// Runs the program to its end.
  package static func run(_ arguments: [String]) async throws -> Program.Result {
    try await Program.run(Place.harness, arguments)
  }
}
