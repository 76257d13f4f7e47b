import Simulation
import TestKit
import Testing

/// `align` on emulated sensors on one body, compared with their configuration. `Tools/simulate --align` runs
/// all recordings, and prints the table of the guide `Captures`.
@Suite(.timeLimit(.minutes(5))) struct AlignTrialTests {
  /// True offset and clock error are inside the reported ranges, which are no wider than the waits on a link
  /// explain.
  @Test(arguments: AlignTrials.some.filter { !$0.isHopeless }.map(\.name))
  func tellsRangesWithTheTruth(_ name: String) async throws {
    let outcome = try await outcome(name)
    let late = try #require(outcome.late, "\(outcome.text)")
    #expect(late.isInside && late.uncertainty < 160, "\(outcome.text)")
    #expect(!outcome.isWithoutRange && outcome.clock?.isInside != false, "\(outcome.text)")
  }

  /// A regular heart, and clock offsets beyond the searched range: nothing is reported.
  @Test(arguments: AlignTrials.some.filter(\.isHopeless).map(\.name))
  func tellsNothingWithoutEvidence(_ name: String) async throws {
    let outcome = try await outcome(name)
    #expect(outcome.late == nil && outcome.clock == nil && !outcome.why.isEmpty, "\(outcome.text)")
  }

  private func outcome(_ name: String) async throws -> AlignOutcome {
    let trial = try #require(AlignTrials.all.first { $0.name == name })
    return try await withFolder { folder in
      try await trial.record(in: folder)
      return try #require(AlignOutcome.all(of: "\(folder)/\(name)").first)
    }
  }
}
