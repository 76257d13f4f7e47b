import TestKit
import Testing

/// The Python package as users get it: `Python/run` makes the wheel of the program under test, installs it
/// into a new environment, and runs its tests there.
@Suite(.timeLimit(.minutes(10))) struct PythonPackageTests {
  @Test func wheel() async throws {
    let program = try Program(
      Place.fixture("ProgramTests/Python/run"), ["--program", Place.ringtap], input: .nothing)
    let run = try await program.finish(within: .seconds(540))
    let count = run.outputLines.last ?? "nothing"
    #expect(run.status == 0 && count.contains(" 0 failed"), "\(count)\n\(run.errors)")
  }
}
