import Foundation
import TestKit
import Testing

/// `ringtap relay`, with google/bumble's host as the bike computer.
@Suite(.timeLimit(.minutes(3))) struct RelayCommandTests {
  private struct Event: Decodable {
    struct Delay: Decodable {
      struct Part: Decodable {
        let p50Ms: Double
        let p99Ms: Double
      }
      var estimator: Part?
      var transport: Part?
      var total: Part?
    }

    let event: String
    var kind: String?
    var bpm: Int?
    var contact: Bool?
    var rr_1024ths: [UInt16]?
    var values: Int?
    var notified: Int?
    var dropped: Int?
    var gaps: Int?
    var delay: Delay?
  }

  private func events(_ output: String) throws -> [Event] {
    try output.split(separator: "\n").map { try JSONDecoder().decode(Event.self, from: Data($0.utf8)) }
  }

  private func start(_ arguments: [String], _ peer: BumbleCentrals) throws -> Program {
    try Ringtap.start(
      ["relay"] + arguments + [
        "--name", "Relay", "--json", "--advertise-on", "tcp-client:127.0.0.1:\(peer.port)",
      ])
  }

  /// Handle of an attribute's value, by its type.
  private func handle(_ type: String, _ peer: BumbleCentrals) throws -> String {
    let line = try #require(
      peer.lines().first { $0.hasPrefix("attribute 0x") && $0.hasSuffix(" " + type) }, "\(type)")
    return String(line.split(separator: " ")[1])
  }

  /// Discovers the handles with bumble.
  private func connect(_ peer: BumbleCentrals) async throws {
    #expect(try await peer.ask("find Relay", "found").hasSuffix(" Relay 180D"))
    try await peer.ask("connect Relay", "connected")
    try await peer.ask("attributes", "attributes")
  }

  /// Rate, intervals, battery and device information equal the strap's.
  @Test func isTheStrapThatItHears() async throws {
    let peer = try await BumbleCentrals.start()
    let program = try start(["heart-rate", "--transport", "virtual:heart-rate,rate=20"], peer)
    _ = try await program.line(containing: "ready")
    try await connect(peer)
    // As the emulated strap is configured: on the chest, 84 %, model "strap" by "ringtap".
    try await peer.expect("read 01", for: "read \(try handle("2a38", peer))")
    try await peer.expect("read 54", for: "read \(try handle("2a19", peer))")
    try await peer.expect("read \(hexOf(Array("strap".utf8)))", for: "read \(try handle("2a24", peer))")
    let measurement = try handle("2a37", peer)
    try await peer.expect("subscribed", for: "subscribe \(measurement) notify")
    try await eventually("40 values") { peer.values().count >= 40 }
    program.send(SIGTERM)
    #expect(try await peer.next(["disconnected"]) == "disconnected 19")
    let result: Program.Result = try await program.ended()
    #expect(result.status == 0, "\(result.errors)")
    let told = try events(result.output)
    // Flags: contact, and intervals if there are any; no energy. Heart Rate Service 1.0, 3.1.
    let sent = told.filter { $0.kind == "heartRate" }.map { event in
      let intervals = event.rr_1024ths ?? []
      let octets = intervals.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
      return "\(measurement) "
        + hexOf([intervals.isEmpty ? 0x06 : 0x16, UInt8(event.bpm ?? 0)] + octets) + " notification"
    }
    let heard = peer.values()
    #expect(heard.count >= 40 && sent.joined(separator: "\n").contains(heard.joined(separator: "\n")))
    let end = try #require(told.last)
    #expect(end.event == "end" && end.dropped == 0 && end.gaps == 0)
    #expect(try #require(end.notified) >= 40)
    #expect(end.delay?.estimator?.p99Ms == 0)
    #expect(try #require(end.delay?.transport?.p99Ms) > 0)
  }

  /// The ring's own measurement: nothing while it warms up, then 78 to 80, as emulated; the relay ends it.
  @Test func asksTheRing() async throws {
    let peer = try await BumbleCentrals.start()
    let program = try start(["ring", "--source", "ring", "--transport", "virtual:ring"], peer)
    _ = try await program.line(containing: "ready")
    try await connect(peer)
    try await peer.expect("read 03", for: "read \(try handle("2a38", peer))")
    // 64 %.
    try await peer.expect("read 40", for: "read \(try handle("2a19", peer))")
    try await peer.expect("subscribed", for: "subscribe \(try handle("2a37", peer)) notify")
    try await eventually("4 values") { peer.values().count >= 4 }
    program.send(SIGINT)
    let result: Program.Result = try await program.ended()
    #expect(result.status == 0, "\(result.errors)")
    let rates = peer.values().compactMap { UInt8($0.split(separator: " ")[1].suffix(2), radix: 16) }
    #expect(rates.allSatisfy { (78...80).contains($0) }, "\(rates)")
  }

  /// In real time: the emulated heart beats at 72/min.
  @Test func findsThePulseInLight() async throws {
    let peer = try await BumbleCentrals.start()
    let program = try start(["ring", "--transport", "virtual:ring,rate=75,quiet"], peer)
    _ = try await program.line(containing: "ready")
    try await connect(peer)
    try await peer.expect("subscribed", for: "subscribe \(try handle("2a37", peer)) notify")
    try await eventually("5 values") { peer.values().count >= 5 }
    program.send(SIGTERM)
    let result: Program.Result = try await program.ended()
    #expect(result.status == 0, "\(result.errors)")
    let values = peer.values().map { $0.split(separator: " ")[1] }
    #expect(values.allSatisfy { ["0647", "0648", "0649"].contains($0) }, "\(values)")
    let delay = try #require(try events(result.output).last?.delay)
    print("relay of a ring by real time: \(delay)")
  }

  /// No pulse can be found in the stock firmware's one sample a second.
  @Test func saysWhereThereIsNoPulse() async throws {
    let peer = try await BumbleCentrals.start()
    let program = try start(["ring", "--transport", "virtual:ring,rate=45,quiet"], peer)
    let result: Program.Result = try await program.ended()
    #expect(result.status == 1)
    #expect(result.errors.contains("too few for a pulse"), "\(result.errors)")
    #expect(result.errors.contains("--source ring"))
  }

  /// Logs of a real ring and of a real treadmill. The ring was never asked for its optical stream or its
  /// pulse, and a treadmill is not a strap. This is reported, and no pulse is made up.
  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared),
    arguments: [
      (["ring"], "colmi-r12-qring-sync", "check that it contains what the command asks for"),
      (["ring", "--source", "ring"], "colmi-r12-qring-sync", "does not measure the heart rate"),
      (["heart-rate"], "android-treadmill", "has no heart-rate service"),
    ]) func makesNothingUp(_ sensor: [String], _ log: String, _ reason: String) async throws
  {
    let path = try #require(Place.shared("captures/\(log).btsnoop"))
    let peer = try await BumbleCentrals.start()
    let program = try start(sensor + ["--transport", "replay:\(path),speed=100x"], peer)
    let result: Program.Result = try await program.ended()
    #expect(result.status == 1)
    #expect(result.errorLines.last?.contains(reason) == true, "\(result.errors)")
    #expect(!result.output.contains("\"value\""))
  }

  @Test func relaysAndRecords() async throws {
    let peer = try await BumbleCentrals.start()
    try await withFolder { folder in
      let program = try start(
        [
          "heart-rate", "--transport", "virtual:heart-rate,rate=20", "--also-record", folder + "/ride",
          "--duration", "4",
        ], peer)
      _ = try await program.line(containing: "ready")
      try await connect(peer)
      try await peer.expect("subscribed", for: "subscribe \(try handle("2a37", peer)) notify")
      let result: Program.Result = try await program.ended()
      #expect(result.status == 0, "\(result.errors)")
      let told = try events(result.output).filter { $0.kind == "heartRate" }
      #expect(peer.values().count >= 10)
      let table = try String(contentsOfFile: folder + "/ride/rr_intervals.csv", encoding: .utf8)
      let recorded = table.split(separator: "\n").dropFirst().map { UInt16($0.split(separator: ",")[1]) }
      #expect(told.flatMap { $0.rr_1024ths ?? [] } == recorded)

      // The recording can be used as a sensor, too.
      let again = try Ringtap.start([
        "relay", folder + "/ride", "--speed", "1x", "--name", "Relay", "--json", "--transport",
        "tcp-client:127.0.0.1:\(peer.port)",
      ])
      _ = try await again.line(containing: "ready")
      try await connect(peer)
      try await peer.expect("subscribed", for: "subscribe \(try handle("2a37", peer)) notify")
      let replayed: Program.Result = try await again.ended()
      let retold = try events(replayed.output).filter { $0.kind == "heartRate" }
      #expect(retold.flatMap { $0.rr_1024ths ?? [] } == recorded, "\(replayed.errors)")
      #expect(replayed.status == 0, "\(replayed.errors)")
    }
  }

  @Test(arguments: [
    (["relay", "rnig"], "neither the directory of a recording nor a sensor"),
    (["relay", "ring", "--quality", "2"], "it must be 0 to 1"),
    (["relay", "ring", "--speed", "1x"], "directory of a recording"),
    (["relay", "ring", "--advertise-on", "tcp-client:"], "is not a transport"),
  ]) func refuses(_ arguments: [String], _ reason: String) async throws {
    let run = try await Ringtap.run(arguments)
    #expect(run.status == 2 && run.errors.contains(reason), "\(run.status) \(run.errors)")
  }
}
