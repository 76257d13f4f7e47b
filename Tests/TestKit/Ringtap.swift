/// The program under test.
package enum Ringtap {
  /// Starts it.
  ///
  /// - Parameter state: where devices and their keys are remembered; nowhere if not given.
  package static func start(
    _ arguments: [String], input: Program.Input = .nothing, state: String? = nil
  ) throws -> Program {
    try Program(Place.ringtap, arguments, input: input, environment: environment(state))
  }

  /// Runs it to its end.
  ///
  /// - Parameter state: where devices and their keys are remembered; nowhere if not given.
  package static func run(
    _ arguments: [String], input: Program.Input = .nothing, state: String? = nil
  ) async throws -> Program.Result {
    try await Program.run(Place.ringtap, arguments, input: input, environment: environment(state))
  }

  /// What decides where devices and their keys are remembered.
  package static func environment(_ state: String?) -> [String: String?] {
    state.map { ["XDG_STATE_HOME": $0, "RINGTAP_NO_REMEMBER": nil] } ?? [:]
  }
}
