import Foundation
import TestKit
import Testing

/// `--to ws:` as the Python library websockets and Chromium read it.
@Suite(.timeLimit(.minutes(3)), .serialized)
struct WebSocketOutputTests {
  private func start(_ arguments: String...) throws -> Program {
    try Program(
      Place.readersPython(), [Place.fixture("Readers/live.py")] + arguments, input: .nothing)
  }

  private func live(_ arguments: String...) async throws -> [String: Any] {
    let script = Place.fixture("Readers/live.py")
    return try object(try await Program.run(Place.readersPython(), [script] + arguments))
  }

  private func object(_ run: Program.Result) throws -> [String: Any] {
    try #require(run.status == 0, "\(run.errors)")
    return try #require(JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
  }

  private func capture(_ folder: String, _ sensor: String, _ arguments: [String]) throws -> Program {
    try Ringtap.start(["capture", "--transport", sensor, "--output", folder + "/walk"] + arguments)
  }

  /// Messages are the lines of `--to -`, and the last of them is the end.
  @Test func sendsTheLinesOfStandardOutput() async throws {
    try await withFolder { folder in
      let port = try freePort()
      // The reader connects as soon as the port is open.
      let reader = try start("lines", "ws://127.0.0.1:\(port)/")
      try await reader.line(on: .errors, containing: "ready")
      let program = try capture(
        folder, "virtual:ring,rate=100", ["--count", "900", "--to", "ws://:\(port)", "--to", "-"])
      let run = try await program.ended()
      let read = try object(try await reader.ended())
      #expect(
        run.status == 0 && run.errors.contains("live plots: http://127.0.0.1:\(port)/"), "\(run.errors)")
      #expect(!run.errors.contains("everyone"))
      let lines = try #require(read["lines"] as? [String])
      #expect(lines.count > 3 && Set(lines).isSubset(of: run.outputLines))
      #expect(
        lines.last == run.outputLines.last && lines.filter { $0.contains("\"stream\":\"table\"") }.count == 3)
      #expect(read["code"] as? Int == 1000 && read["pong"] as? Bool == true)
      #expect(read["reason"] as? String == "the recording has ended")
    }
  }

  @Test func isReadOnlyAndForItsOwnPages() async throws {
    try await withFolder { folder in
      let port = try freePort()
      let url = "ws://127.0.0.1:\(port)/"
      let program = try capture(
        folder, "virtual:heart-rate", ["heart-rate", "--to", "ws://:\(port)?origin=http://localhost:3000"])
      try await eventually("the port") { canConnect(port) }
      let written = try await live("write", url)
      #expect(written["code"] as? Int == 1008 && written["reason"] as? String == "this stream is read-only")
      #expect(try await live("lines", url, "http://evil.example")["status"] as? Int == 403)
      #expect(try await live("write", url)["code"] as? Int == 1008)
      program.send(SIGINT)
      let run = try await program.ended()
      // The latter if no value has arrived yet.
      #expect([0, 130].contains(run.status), "\(run.errors)")
    }
  }

  /// The page in a browser: plots of all tables, samples in order, no errors, no requests.
  @Test(arguments: [("virtual:ring,real-time", 3, "--light"), ("virtual:polar,real-time", 1, "--phone")])
  func page(_ sensor: String, _ plots: Int, _ look: String) async throws {
    _ = try Place.chromium()
    try await withFolder { folder in
      let port = try freePort()
      let kind = sensor.hasPrefix("virtual:polar") ? ["polar"] : []
      let program = try Ringtap.start(
        ["capture"] + kind + ["--transport", sensor, "--output", folder + "/walk", "--to", "ws://:\(port)"])
      try await eventually("the port") { canConnect(port) }
      let read = try await live("browse", "http://127.0.0.1:\(port)/", look, "--samples", "200")
      program.send(SIGINT)
      let run = try await program.ended()
      #expect(run.status == 0, "\(run.errors)")
      #expect(read["state"] as? String == "live")
      #expect(try #require(read["plots"] as? Int) >= plots)
      #expect(read["missed"] as? Int == 0)
      // A bound would depend on the load of this machine.
      print("\(sensor): delay in the browser, ms: p50 \(read["delay50"] ?? ""), p99 \(read["delay99"] ?? "")")
    }
  }

  /// A page that stands still for a while is told how many lines it missed, and shows it.
  @Test func tellsASlowPage() async throws {
    _ = try Place.chromium()
    try await withFolder { folder in
      let port = try freePort()
      // More in 25 s than a queue and all buffers hold.
      let program = try capture(
        folder, "virtual:heart-rate,rate=3000", ["heart-rate", "--to", "ws://:\(port)"])
      try await eventually("the port") { canConnect(port) }
      let read = try await live("browse", "http://127.0.0.1:\(port)/", "--stall", "25")
      #expect(try #require(read["missed"] as? Int) > 0)
      program.send(SIGINT)
      let run = try await program.ended()
      // A busy machine may lose values of so fast a sensor, whether or not there are readers.
      #expect([0, 3].contains(run.status), "\(run.errors)")
    }
  }
}
