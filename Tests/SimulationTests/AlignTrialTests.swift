import Simulation
import TestKit
import Testing

/// What `align` tells of emulated sensors on one body, against what they were told to be. `Tools/simulate --align` tries all recordings, and
/// prints the table of the guide `Captures`.
@Suite(.timeLimit(.minutes(5))) struct AlignTrialTests {
  /// Offset and clock lie in their ranges, which are no wider than a link's waits explain.
  @Test(arguments: AlignTrials.some.filter { !$0.isHopeless }.map(\.name))
  func tellsRangesWithTheTruth(_ name: String) async throws {
    let outcome = try await outcome(name)
    let late = try #require(outcome.late, "\(outcome.text)")
    #expect(late.isInside && late.uncertainty < 160, "\(outcome.text)")
    #expect(!outcome.isWithoutRange && outcome.clock?.isInside != false, "\(outcome.text)")
  }

  /// A regular heart, and clocks that are further apart than is searched: nothing is told.
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
