import Foundation
import TestKit
import Testing

/// The program with a controller that floods it, as in `Tools/flood`: a separate Python script behind a
/// socket.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct FloodTests {
  private struct Run: Decodable {
    var sent: Int
    var recorded: Int
    var counted: Int
    var right: Bool
    var ended: Bool
    var megabytes: Double
    var status: Int32
  }

  @Test(arguments: [
    ("companies", "scan"), ("companies", "duplicates"), ("services", "scan"), ("addresses", "scan"),
    ("both", "duplicates"), ("long", "duplicates"), ("pieces", "scan"), ("names", "stuck"), ("names", "slow"),
    ("addresses", "capture"), ("long", "capture"), ("pieces", "capture"),
  ])
  func keepsLittleCountsAllAndEnds(_ kind: String, _ command: String) async throws {
    let result = try await Program.run(
      "python3",
      [
        Place.root + "/Tools/flood", "--json", "--seconds", "1.5", "--kinds", kind, "--commands", command,
        "--program", try Place.ringtap,
      ])
    let run = try JSONDecoder().decode(Run.self, from: Data(result.output.utf8))
    #expect(run.sent > 2_000, "\(result.output)")
    #expect(run.ended, "by itself, after SIGINT: \(result.output)")
    #expect(run.right, "recorded and counted are what was sent: \(result.output)")
    #expect(run.megabytes <= 64, "\(result.output)")
  }
}
