import Foundation
import TestKit
import Testing

/// `ringtap emulate air`: hosts come and go at any time, in any order.
@Suite(.timeLimit(.minutes(2))) struct EmulateAirTests {
  /// As in the guide "Serving a device to others".
  private static let strap = """
    device Strap
    advertise 180d
      0x0001-0x0003 2800 0018
      0x0002 2803 02 0300 002a
      0x0003 2a00 5374726170
      0x0010-0x0015 2800 0d18
      0x0011 2803 10 1200 372a
      0x0012 2a37
      0x0013 2902 0000
      0x0014 2803 02 1500 382a
      0x0015 2a38 01

    """
  private static let address = "00:00:5E:00:53:01"

  @Test func letsHostsComeAndGo() async throws {
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try Data(Self.strap.utf8).write(to: URL(filePath: file))
      let (left, right) = ("unix:\(folder)/left", "unix:\(folder)/right")
      let air = try Ringtap.start(["emulate", "air", "--transport", left, "--transport", right])
      try await air.line(containing: "ready \(left),\(right)")
      // Longer than the 2 s in which a controller must answer its host.
      let alone = try await Ringtap.run(["scan", "--transport", right, "--duration", "3"])
      #expect(alone.status == 0 && alone.output.isEmpty, "\(alone.errors)")
      for _ in 0..<2 {
        let strap = try Ringtap.start(["serve", file, "--transport", left])
        try await strap.line(containing: "ready")
        for _ in 0..<10 {
          let read = try await Ringtap.run(["read", Self.address, "2a38", "--transport", right])
          #expect(read.output == "0x0015  01  Body Sensor Location: chest\n", "\(read.errors)")
        }
        strap.send(SIGINT)
        #expect(try await strap.finish().output.contains("end 10 connected"))
        let empty = try await Ringtap.run(["scan", "--transport", right, "--duration", "0.5"])
        #expect(empty.status == 0 && empty.output.isEmpty, "\(empty.errors)")
      }
      // The central first.
      let waiting = try Ringtap.start(["scan", "--transport", right, "--duration", "60"])
      let strap = try Ringtap.start(["serve", file, "--transport", left])
      try await waiting.line(containing: "Strap")
      for program in [waiting, strap, air] {
        program.send(SIGINT)
        _ = try await program.finish()
      }
    }
  }

  /// Two pairings: the second after both sides have removed the keys of the first. While one side still has
  /// them, the refusal says what to do.
  @Test func pairsTwice() async throws {
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try Data((Self.strap + "needs encrypted 0x0015\n").utf8).write(to: URL(filePath: file))
      let (left, right) = ("unix:\(folder)/left", "unix:\(folder)/right")
      let (server, client) = (folder + "/server", folder + "/client")
      let air = try Ringtap.start(["emulate", "air", "--transport", left, "--transport", right])
      try await air.line(containing: "ready")
      func run(_ words: [String]) async throws -> Program.Result {
        try await Ringtap.run(words + ["--transport", right], state: client)
      }
      for pairing in 1...2 {
        let strap = try Ringtap.start(["serve", file, "--transport", left], state: server)
        try await strap.line(containing: "ready")
        let refused = try await run(["read", Self.address, "2a38"])
        #expect(refused.status == 1 && refused.errors.contains("ringtap pair"), "\(refused.errors)")
        let paired = try await run(["pair", Self.address])
        #expect(paired.output.hasPrefix("paired with \(Self.address): "), "\(paired.errors)")
        let read = try await run(["read", Self.address, "2a38"])
        #expect(read.output == "0x0015  01  Body Sensor Location: chest\n", "\(read.errors)")
        if pairing == 1 {
          let again = try await run(["pair", Self.address])
          #expect(again.status == 1 && again.errors.contains("forget an earlier bond on both sides"))
        }
        strap.send(SIGINT)
        let served = try await strap.finish()
        let central = try #require(served.output.firstMatch(of: /connected 1 (\S+)/)).output.1
        for (state, peer) in [(server, String(central)), (client, Self.address)] {
          let forgotten = try await Ringtap.run(["pair", peer, "--forget"], state: state)
          #expect(forgotten.output == "removed the keys of \(peer)\n", "\(forgotten.errors)")
        }
      }
      air.send(SIGINT)
      _ = try await air.finish()
    }
  }
}
