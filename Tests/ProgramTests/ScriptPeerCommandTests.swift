import Foundation
import TestKit
import Testing

/// `harness script-peer` and `ringtap` as its client: two programs with a byte stream between them.
@Suite(.timeLimit(.minutes(2)))
struct ScriptPeerCommandTests {
  private static let script = """
    database two
      0x0001-0x0003 2800 0118
      0x0002 2803 02 0300 002a
      0x0003 2a00 41
    dialogue read
      test GATT/CL/GAR/BV-01-C
      mtu 512
      with two
      > 0a0300
      < 0b 010203
    dialogue write
      mtu 512
      with two
      > 120300a102
      < 13
    """
  private static let address = "70:CB:0D:00:5C:01"

  /// Plays the script for clients with these arguments, one after the other.
  private func play(
    _ clients: [[String]], _ options: [String] = [], script: String = script
  ) async throws -> (peer: Program.Result, clients: [Program.Result]) {
    try await withFolder { folder in
      let (file, socket) = (folder + "/script.txt", "unix:" + folder + "/peer")
      try Data(script.utf8).write(to: URL(filePath: file))
      let peer = try Harness.start(["script-peer", file, "--transport", socket] + options)
      try await peer.line(containing: "ready")
      var runs: [Program.Result] = []
      for client in clients {
        let program = try Ringtap.start(client + ["--transport", socket])
        runs.append(try await program.finish())
      }
      return (try await peer.finish(), runs)
    }
  }

  @Test func passes() async throws {
    let (peer, clients) = try await play([
      ["read", Self.address, "2a00", "--json"], ["write", Self.address, "0x0003", "A1 02"],
    ])
    #expect(clients.map(\.status) == [0, 0])
    #expect(clients[0].outputLines.last?.contains(#""value":"010203""#) == true)
    #expect(peer.status == 0)
    #expect(peer.outputLines.dropFirst() == ["passed read", "passed write"])
  }

  /// The database's tree is shown like any device's; a dialogue that was not requested does not pass.
  @Test func showsItsTree() async throws {
    let (peer, clients) = try await play([["gatt", Self.address]], ["--dialogue", "read"])
    #expect(clients[0].status == 0)
    #expect(clients[0].outputLines.count == 2)
    #expect(clients[0].outputLines.last?.contains("0x0003") == true)
    #expect(peer.status == 1)
    #expect(
      peer.outputLines.dropFirst() == [
        "failed read: line 9: the client ended the link; the dialogue has 0a0300"
      ])
  }

  /// The device has other attributes when the second program connects: the remembered ones are dropped.
  @Test func discoversAnewWhatHasMoved() async throws {
    try await withFolder { folder in
      let script = """
        database one
          0x0001-0x0003 2800 0018
          0x0002 2803 02 0300 002a
          0x0003 2a00 41
        database two
          0x0001-0x0005 2800 0018
          0x0002 2803 02 0300 012a
          0x0003 2a01 0000
          0x0004 2803 02 0500 002a
          0x0005 2a00 42
        dialogue first
          with one values
        dialogue second
          with one values
        dialogue third
          with two values
          > 0a0300
          < 01 0a 0300 02
        """
      let file = folder + "/script.txt"
      try Data(script.utf8).write(to: URL(filePath: file))
      let socket = "unix:" + folder + "/peer"
      let peer = try Harness.start(["script-peer", file, "--transport", socket])
      try await peer.line(containing: "ready")
      var values: [String] = []
      for command in ["gatt", "read", "read"] {
        let arguments = [command, Self.address] + (command == "read" ? ["2a00"] : [])
        let result = try await Ringtap.run(arguments + ["--transport", socket], state: folder)
        #expect(result.status == 0, "\(result.errors)")
        values.append(result.outputLines.last ?? "")
        if values.count == 3 {
          #expect(result.errors.contains("differ from the stored ones"), "\(result.errors)")
        }
      }
      #expect(values[1] != values[2])
      let played = try await peer.finish()
      #expect(played.status == 0, "\(played.outputLines)")
    }
  }

  @Test func tellsTheFirstDifference() async throws {
    let (peer, clients) = try await play(
      [["write", Self.address, "0x0003", "A1 03"]], ["--dialogue", "write", "--json"])
    #expect(clients[0].status == 1)
    #expect(peer.status == 1)
    #expect(
      peer.outputLines.dropFirst() == [
        #"{"event":"dialogue","name":"write","test":"","passed":false,"line":14,"expected":["120300a102"],"found":"120300a103"}"#,
        #"{"event":"end","passed":0,"failed":1,"notPlayed":0}"#,
      ])
    #expect(peer.errorLines == ["ringtap: 1 of 1 dialogue failed"])
  }

  @Test func refusesABadFile() async throws {
    try await withFolder { folder in
      let file = folder + "/script.txt"
      try Data("dialogue a\n> 0a03\n> 0x\n".utf8).write(to: URL(filePath: file))
      let bad = try await Harness.start(["script-peer", file, "--transport", "pty:"]).finish()
      #expect(bad.status == 1)
      #expect(bad.errorLines.first?.hasPrefix("ringtap: \(file): line 3: '0x' is not hexadecimal") == true)
      let missing = try await Harness.start(
        ["script-peer", folder + "/none", "--transport", "pty:"]
      ).finish()
      #expect(missing.status == 1)
      #expect(missing.errorLines.count == 1)
    }
  }
}
