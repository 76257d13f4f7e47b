import Foundation
import TestKit
import Testing

/// Runs the program against the odd devices of `../shared/trials`: a controller and a strap from an
/// independent program. The same devices are in `Dialogues/odd.txt` and `OddDeviceTests`, for a checkout
/// without that folder.
@Suite(.timeLimit(.minutes(2))) struct TrialPeerTests {
  private static let folder = Place.shared("trials/peer.py").map {
    URL(filePath: $0).deletingLastPathComponent().path
  }

  /// 40 values in four seconds; a few less with a controller that fails in between.
  @Test(
    .enabled(if: folder != nil, "no shared trials: set RINGTAP_SHARED to their folder"),
    arguments: [
      ("Plain", 35, ""), ("TwiceMTU", 35, "belongs to no request"), ("LateError", 35, "belong to no request"),
      ("EndsAtMTU", 30, "asked for its MTU; it is not asked again"),
      ("NoCCCD", 35, "no descriptor that turns its values on"), ("TwoServices", 35, ""),
      ("HardwareError", 30, "the adapter failed and was reset"),
    ])
  func givesItsValues(_ name: String, _ least: Int, _ told: String) async throws {
    let port = try freePort()
    let folder = try #require(Self.folder)
    let peer = try Program(
      try Place.tool("python3"), ["-u", folder + "/peer.py", "\(port)", "odd_give", name],
      environment: ["PYTHONPATH": folder])
    try await peer.line(containing: "ready")
    let result = try await Ringtap.run([
      "heart-rate", "--duration", "4", "--timeout", "6", "--transport", "tcp-client:127.0.0.1:\(port)",
    ])
    await peer.end()
    #expect(result.status == 0, "\(result.errors)")
    let count = result.outputLines.count { $0.contains("bpm") }
    #expect((least...42).contains(count))
    #expect(told.isEmpty || result.errors.contains(told), "\(result.errors)")
  }
}
