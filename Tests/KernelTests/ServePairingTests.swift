import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Centrals that pair with our device. The responder is the kernel's Security Manager in raw mode, and our
  /// own in exclusive mode. btvirt compares the keys of both ends.
  @Suite final class ServePairingTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    // MARK: google/bumble

    nonisolated struct Case: CustomTestStringConvertible, Sendable {
      let testDescription: String
      let own: [String]
      let peer: [String]
      var isAuthenticated: Bool { !own.isEmpty }
      /// We display the passkey, and bumble types it.
      var isTypedThere: Bool { peer.contains("keyboard") }

      init(_ name: String, _ own: [String], _ peer: String...) {
        (testDescription, self.own, self.peer) = (name, own, peer)
      }

      static let all = [
        Case("Just Works", []),
        Case("legacy Just Works", [], "--legacy"),
        Case("numeric comparison", ["--yes"], "--capability", "yes-no", "--mitm"),
        Case("passkey that we show", ["--display"], "--capability", "keyboard", "--mitm"),
        Case(
          "passkey that bumble shows", ["--passkey", "19283"], "--capability", "display", "--mitm",
          "--passkey", "19283"),
        Case("legacy passkey that we show", ["--display"], "--capability", "keyboard", "--mitm", "--legacy"),
      ]
    }

    /// Pairs and reconnects; then reconnects to another process, which only has the first one's file.
    @Test(arguments: ServeWay.modes, Case.all) func pairsWithBumble(_ way: ServeWay, _ pairing: Case)
      async throws
    {
      try scene.strapControllers(way, central: false)
      let program = try scene.serveStrap(way, pairing.own)
      let numbers = scene.path("number")
      let central = try await scene.bumbleCentral(
        ["hci-socket:0", "--numbers", numbers] + pairing.peer)
      try await central.expect("connected \(Scene.strapAddress)", for: "connect Strap")
      try await central.expect("refused 5", for: "read 0x0015")
      try central.tell("1 pair")
      if pairing.isTypedThere {
        try Data("\(try await passkey(shownBy: program))\n".utf8)
          .write(to: URL(filePath: numbers), options: .atomic)
      }
      #expect(try await central.next(["paired"]) == "paired")
      try await central.expect("read 010203", for: "read 0x0015")
      let checked = pairing.isAuthenticated ? "read 02" : "refused 5"
      try await central.expect(checked, for: "read 0x0018")
      if pairing.own == ["--yes"] {
        #expect(try await passkey(shownBy: program) == (try shownNumber(numbers)))
      }
      try await central.expect("disconnected 19", for: "disconnect")

      program.send(SIGTERM)
      let ended = try await program.ended()
      #expect(ended.status == 0)
      let isLegacy = pairing.peer.contains("--legacy")
      let notes = ended.errorLines.filter { $0.contains("paired without Secure Connections") }
      #expect(notes.count == (isLegacy ? 1 : 0), "\(way) \(notes)")
      if way.mode == "raw" { try scene.demand(Place.peer("kernel_keys.py"), ["1"]) }
      let second = try scene.serveStrap(way, pairing.own)
      try await central.expect("connected \(Scene.strapAddress)", for: "connect Strap")
      try await central.expect("encrypted", for: "encrypt")
      try await central.expect("read 010203", for: "read 0x0015")
      try await central.expect(checked, for: "read 0x0018")
      second.send(SIGTERM)
      let endedAgain = try await second.ended()
      #expect(endedAgain.status == 0)
      #expect(!endedAgain.errors.contains("without Secure Connections"))
    }

    // MARK: Private addresses

    /// Our own central, with the kernel's Security Manager and with our own, finds the device again behind
    /// its next address.
    @Test(arguments: ServeWay.all, ["raw", "exclusive"])
    func hidesFromAllButTheBonded(_ way: ServeWay, _ mode: String) throws {
      try scene.strapControllers(way, central: mode == "raw")
      try scene.hideStrap(way)
      func ringtap(_ command: String, _ words: String...) throws -> Program.Result {
        let options = ["--adapter", "hci0", "--mode", mode, "--json"]
        return try scene.demand(
          "env",
          ["-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("central"))", Place.ringtap, command]
            + words + options)
      }
      let program = try scene.serveStrap(way, ["--private"])
      let address = try #require(
        try ringtap("scan", "--duration", "2").objects(Found.self).first
      ).address
      #expect(address != Scene.strapAddress)
      _ = try ringtap("pair", address, "--address-type", "random")
      program.send(SIGTERM)
      #expect(try program.ended().status == 0)

      let again = try scene.serveStrap(way, ["--private"])
      #expect(try ringtap("read", Scene.strapAddress, "0x0015").output.contains("010203"))
      again.send(SIGTERM)
      #expect(try again.ended().status == 0)
    }

    /// The kernel's host has the key.
    @Test func hidesOnlyWhereTheKernelDoes() throws {
      try scene.strapControllers(ServeWay(mode: "raw"), central: false)
      let options = ["--private", "--adapter", "hci1", "--mode", "raw"]
      try scene.run(Place.ringtap, ["serve", try scene.strapFile()] + options)
        .expectFailure(saying: "the kernel does not hide the address of hci1", "privacy on KEY")
    }

    nonisolated private struct Found: Decodable {
      var address: String
    }

    /// The six digits that our device shows.
    private func passkey(shownBy program: Program) async throws -> String {
      let line = try await program.line(on: .errors, containing: "passkey ")
      return String(try #require(line.firstMatch(of: /[0-9]{6}/)).output)
    }

    private func shownNumber(_ path: String) throws -> String {
      let number = try String(contentsOfFile: path, encoding: .utf8)
      return String("000000\(number.trimmingCharacters(in: .whitespacesAndNewlines))".suffix(6))
    }
  }
}
