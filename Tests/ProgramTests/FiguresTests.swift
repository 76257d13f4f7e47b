import TestKit
import Testing

/// Figures in the guides come from `Tools/Benchmarks/results.json`.
@Suite struct FiguresTests {
  @Test func guidesHaveTheMeasuredFigures() async throws {
    let run = try await Program.run(Place.root + "/Tools/Benchmarks/figures", [])
    #expect(run.status == 0, "\(run.output)\(run.errors)")
    #expect(run.output.contains("claims agree with results.json"))
  }
}
