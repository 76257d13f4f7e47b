/// The program under test.
package enum Ringtap {
  /// Starts the program.
  ///
  /// - Parameter state: folder in which devices and their keys are stored; if `nil`, nothing is stored.
  package static func start(
    _ arguments: [String], input: Program.Input = .nothing, state: String? = nil
  ) throws -> Program {
    try Program(Place.ringtap, arguments, input: input, environment: environment(state))
  }

  /// Runs the program until it exits.
  ///
  /// - Parameter state: folder in which devices and their keys are stored; if `nil`, nothing is stored.
  package static func run(
    _ arguments: [String], input: Program.Input = .nothing, state: String? = nil
  ) async throws -> Program.Result {
    try await Program.run(Place.ringtap, arguments, input: input, environment: environment(state))
  }

  /// Environment variables for the storage of devices and their keys.
  package static func environment(_ state: String?) -> [String: String?] {
    state.map { ["XDG_STATE_HOME": $0, "RINGTAP_NO_REMEMBER": nil] } ?? [:]
  }
}
