import TestKit
import Testing

/// The modules that firmware uses compile without an operating system. `Tools/check` compiles them for every
/// processor, and BLEWire without allocations.
@Suite(.timeLimit(.minutes(5))) struct EmbeddedCompileTests {
  @Test func compilesForFirmware() async throws {
    let run = try await Program.run(Place.root + "/Tools/check", ["--embedded", "armv7em-none-none-eabi"])
    #expect(run.status == 0, "\(run.output)\n\(run.errors)")
    #expect(run.errors.contains("armv7em-none-none-eabi: BLEStack\n"))
  }
}
