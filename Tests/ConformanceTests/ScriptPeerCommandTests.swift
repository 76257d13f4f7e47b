import BLESystem
import Foundation
import Synchronization
import TestPeer
import Testing

/// `ringtap script-peer` and `ringtap` as its client: two programs with a byte stream between them.
@Suite(.enabled(if: RingtapPrograms.file != nil, "the program is not built"), .timeLimit(.minutes(2)))
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
  ) async throws -> (peer: RingtapPrograms.Run, clients: [RingtapPrograms.Run]) {
    try await withFolder { folder in
      let (file, socket) = (folder + "/script.txt", "unix:" + folder + "/peer")
      try Data(script.utf8).write(to: URL(filePath: file))
      let peer = try RingtapPrograms.start(["script-peer", file, "--transport", socket] + options)
      await peer.lines.reaches(1)
      var runs: [RingtapPrograms.Run] = []
      for client in clients {
        let program = try RingtapPrograms.start(client + ["--transport", socket])
        runs.append(await program.end())
      }
      return (await peer.end(), runs)
    }
  }

  @Test func passes() async throws {
    let (peer, clients) = try await play([
      ["read", Self.address, "2a00", "--json"], ["write", Self.address, "0x0003", "A1 02"],
    ])
    #expect(clients.map(\.status) == [0, 0])
    #expect(clients[0].output.last?.contains(#""value":"010203""#) == true)
    #expect(peer.status == 0)
    #expect(peer.output.dropFirst() == ["passed read", "passed write"])
  }

  /// The database's tree, as of any device; a dialogue that was not asked for is not passed.
  @Test func showsItsTree() async throws {
    let (peer, clients) = try await play([["gatt", Self.address]], ["--dialogue", "read"])
    #expect(clients[0].status == 0)
    #expect(clients[0].output.count == 2)
    #expect(clients[0].output.last?.contains("0x0003") == true)
    #expect(peer.status == 1)
    #expect(
      peer.output.dropFirst() == ["failed read: line 9: the client ended the link; the dialogue has 0a0300"])
  }

  @Test func tellsTheFirstDifference() async throws {
    let (peer, clients) = try await play(
      [["write", Self.address, "0x0003", "A1 03"]], ["--dialogue", "write", "--json"])
    #expect(clients[0].status == 1)
    #expect(peer.status == 1)
    #expect(
      peer.output.dropFirst() == [
        #"{"event":"dialogue","name":"write","test":"","passed":false,"line":14,"expected":["120300a102"],"found":"120300a103"}"#,
        #"{"event":"end","passed":0,"failed":1,"notPlayed":0}"#,
      ])
    #expect(peer.messages == ["ringtap: 1 of 1 dialogues failed"])
  }

  @Test func refusesABadFile() async throws {
    try await withFolder { folder in
      let file = folder + "/script.txt"
      try Data("dialogue a\n> 0a03\n> 0x\n".utf8).write(to: URL(filePath: file))
      let bad = await (try RingtapPrograms.start(["script-peer", file, "--transport", "pty:"])).end()
      #expect(bad.status == 1)
      #expect(bad.messages.first?.hasPrefix("ringtap: \(file): line 3: '0x' is not hexadecimal") == true)
      let missing = await
        (try RingtapPrograms.start(["script-peer", folder + "/none", "--transport", "pty:"])).end()
      #expect(missing.status == 1)
      #expect(missing.messages.count == 1)
    }
  }
}

/// Runs of the program that is beside the tests.
enum RingtapPrograms {
  struct Run: Sendable {
    let output: [String]
    let messages: [String]
    let status: Int32
  }

  static let file: URL? = {
    let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(
      path: "ringtap")
    return FileManager.default.isExecutableFile(atPath: program.path) ? program : nil
  }()

  /// A program at work.
  final class Running: Sendable {
    /// Lines of its output until now.
    let lines = Counter()
    private let texts = Mutex<[String]>(["", ""])
    private let ends = Counter()
    private let status = Mutex<Int32>(-1)

    private let input = Mutex<Pipe?>(nil)

    fileprivate func keep(_ pipe: Pipe) { input.withLock { $0 = pipe } }

    /// Asks it to end, as Ctrl-C does.
    func interrupt() { kill(identifier.withLock { $0 }, SIGINT) }
    fileprivate let identifier = Mutex<pid_t>(0)

    fileprivate func take(_ data: Data, _ stream: Int) {
      let text = String(decoding: data, as: UTF8.self)
      texts.withLock { $0[stream] += text }
      if stream == 0 { lines.add(text.count { $0 == "\n" }) }
    }

    fileprivate func end(_ code: Int32?) {
      if let code { status.withLock { $0 = code } }
      ends.add()
    }

    /// Waits until it has ended and all of its output is there.
    func end() async -> Run {
      await ends.reaches(3)
      let texts = texts.withLock { $0.map { $0.split(separator: "\n").map(String.init) } }
      return Run(output: texts[0], messages: texts[1], status: status.withLock { $0 })
    }
  }

  /// - Parameters:
  ///   - program: another one that runs it.
  ///   - state: where devices and their keys are remembered; nowhere if not given.
  ///   - input: for its standard input.
  static func start(
    _ arguments: [String], by program: URL? = nil, state: String? = nil, input: String? = nil
  ) throws -> Running {
    let (process, running) = (Process(), Running())
    process.executableURL = program ?? file
    process.arguments = arguments
    let settings = state.map { ["XDG_STATE_HOME": $0] } ?? ["RINGTAP_NO_REMEMBER": "1"]
    process.environment = ProcessInfo.processInfo.environment
      .filter { $0.key != "RINGTAP_NO_REMEMBER" }.merging(settings) { $1 }
    process.standardInput = FileHandle.nullDevice
    if let input {
      let pipe = Pipe()
      try pipe.fileHandleForWriting.write(contentsOf: Data(input.utf8))
      // Left open: whoever passes it on must not take its end for the end of what is typed.
      running.keep(pipe)
      process.standardInput = pipe
    }
    let pipes = [Pipe(), Pipe()]
    process.standardOutput = pipes[0]
    process.standardError = pipes[1]
    process.terminationHandler = { running.end($0.terminationStatus) }
    try process.run()
    running.identifier.withLock { $0 = process.processIdentifier }
    for (number, pipe) in pipes.enumerated() {
      let descriptor = pipe.fileHandleForReading
      // Reading blocks, which no thread of the pool may.
      try SystemThread.start(named: "output") {
        while true {
          let data = descriptor.availableData
          if data.isEmpty { break }
          running.take(data, number)
        }
        running.end(nil)
      }
    }
    return running
  }
}

func withFolder<Value>(_ body: (String) async throws -> Value) async throws -> Value {
  let folder = FileManager.default.temporaryDirectory.appending(path: "ringtap-\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: folder) }
  return try await body(folder.path)
}
