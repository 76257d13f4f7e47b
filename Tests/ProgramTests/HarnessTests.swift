import TestKit
import Testing

/// `Tools/Harness`, as benchmarks and tools start it. What it measures is compared in the benchmarks.
@Suite(.timeLimit(.minutes(1))) struct HarnessTests {
  /// Notifications of 244 bytes on LE 2M: a packet of 251 bytes takes 1,060 µs, an empty one 44 µs, and T_IFS twice
  /// 150 µs. Core 5.4, Vol 6, Part B, 2.1 and 4.1.1: 287 in an interval of 400 ms.
  @Test func air() async throws {
    let run = try await Harness.run(["air", "--duration", "0.1", "--json"])
    #expect(run.status == 0 && run.output.contains(#""allowedPerSecond":717.5"#), "\(run.errors)")
  }

  @Test func captures() async throws {
    try await withFolder { folder in
      let words = ["capture", "--count", "300", "--transport", "virtual:ring,rate=300", "--json"]
      let run = try await Harness.run(words + ["--output", folder + "/walk"])
      #expect(run.status == 0 && run.output.contains(#""received":300,"lost":0"#), "\(run.errors)")
    }
  }

  /// The messages and exit statuses are those of `ringtap`.
  @Test func refuses() async throws {
    let socket = try await Harness.run(["socket", "--descriptor", "99"])
    #expect(socket.status == 1 && socket.errorLines == ["ringtap: descriptor 99 is not open"])
    let air = try await Harness.run(["air", "--data-length", "30"])
    #expect(air.status == 2 && air.errorLines.first == "Error: --data-length must be 27 or 251")
    // It is no command of the product.
    for words in [["script-peer"], ["bench", "socket"], ["bench", "capture"], ["emulate", "measure"]] {
      let run = try await Ringtap.run(words)
      #expect(run.status == 2, "\(words): \(run.output)")
    }
  }
}
