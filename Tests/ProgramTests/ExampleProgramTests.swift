import Foundation
import TestKit
import Testing

/// The programs shown in the guides, built as a separate package and run against emulated devices.
@Suite(.timeLimit(.minutes(10))) struct ExampleProgramTests {
  /// HCI_Disconnect: opcode 0x0406, three bytes. Core 5.4, Vol 4, Part E, 7.1.6.
  private static let disconnect: [UInt8] = [0x01, 0x06, 0x04, 0x03]

  /// Emulates a device in another process, reached through a relay that records the traffic.
  ///
  /// - Parameter device: arguments of `ringtap emulate`.
  private func withDevice(_ device: [String], _ body: (StreamRelay) async throws -> Void) async throws {
    try await withFolder { folder in
      let emulation = try Ringtap.start(["emulate"] + device + ["--transport", "unix:\(folder)/far"])
      try await emulation.line(containing: "ready")
      try await body(StreamRelay(folder + "/near", to: folder + "/far"))
      emulation.send(SIGINT)
      _ = try await emulation.finish()
    }
  }

  private func times(_ lines: [some StringProtocol]) -> [Int64] {
    lines.compactMap { $0.split(separator: " ").first.flatMap { Int64($0) } }
  }

  /// 300 frames of three kinds in turn: a hundred ticks of a ring that sends a hundred a second.
  @Test func rawStream() async throws {
    let run = try await Examples.run("RawStream", ["virtual:ring,rate=300"])
    #expect(run.status == 0 && run.errors == "")
    let samples = run.outputLines.dropLast()
    #expect(samples.count == 300 && run.outputLines.last == "lost: 0")
    for kind in ["spo2", "ppg", "accelerometer"] {
      #expect(samples.count { $0.contains(" \(kind) ") } == 100)
    }
    // The emulation begins with frames of a real ring, whose values are in the guide "From ring to pulse".
    #expect(samples.first { $0.contains("ppg") }?.hasSuffix(" ppg 10625") == true)
    let times = times(Array(samples))
    #expect(times == times.sorted())
    let seconds = Double((times.last ?? 0) - (times.first ?? 0)) / 1e9
    // From the first of a hundred ticks to the last.
    #expect(seconds > 0.9 && seconds < 5)
  }

  /// When interrupted during the stream, it stops the ring and then disconnects.
  @Test func rawStreamIsInterrupted() async throws {
    try await withDevice(["ring", "--rate", "60"]) { relay in
      let program = try await Examples.start("RawStream", ["unix:" + relay.path])
      try await eventually("thirty frames") { relay.notificationCount >= 30 }
      program.send(SIGINT)
      let run = try await program.finish()
      #expect(run.status == 0 && run.errors == "" && run.outputLines.last == "lost: 0")
      #expect((1..<300).contains(run.outputLines.count - 1))
      try await eventually("the end of the stream") { relay.hasEnded }
      let said = relay.octetsFromHost
      // Reference `colmi-ring-protocol.md`, 5.4: A1 02, zeros, and the checksum as the last of sixteen bytes.
      let stop: [UInt8] = [0xA1, 0x02] + [UInt8](repeating: 0, count: 13) + [0xA3]
      let stopped = try #require(said.firstRange(of: stop), "the ring was not told to stop")
      let closed = try #require(said.firstRange(of: Self.disconnect), "the link was not closed")
      #expect(stopped.upperBound <= closed.lowerBound)
    }
  }

  @Test func whoIsThere() async throws {
    let run = try await Examples.run("WhoIsThere", ["1", "virtual:ring,devices=5"])
    #expect(run.status == 0)
    let wanted = (1...5).map { "70:CB:0D:00:00:0\($0) -55 dBm R02_000\($0)" }
    #expect(Set(run.outputLines) == Set(wanted))
  }

  /// The emulated heart beats at 64/min at first and at 80/min after half a minute. When interrupted, the
  /// program unsubscribes and then disconnects.
  @Test func heartRate() async throws {
    try await withDevice(["heart-rate", "--rate", "20"]) { relay in
      let program = try await Examples.start("HeartRate", ["unix:" + relay.path])
      try await eventually("forty values") { relay.notificationCount >= 40 }
      program.send(SIGINT)
      let run = try await program.finish()
      #expect(run.status == 0 && run.errors == "")
      #expect(run.outputLines.first == "strap at 70:CB:0D:00:18:0D")
      let values = run.outputLines.dropFirst().map { $0.split(separator: " ") }
      #expect(values.count >= 40)
      #expect(values.prefix(40).allSatisfy { $0.count > 1 && ["64", "65"].contains($0[1]) })
      // At 64 to 80 beats/min an interval is 750 to 938 ms.
      let interval = try #require(values.first { $0.count > 2 })
      #expect(interval.count == 4 && interval[3] == "ms" && (750...938).contains(Int(interval[2]) ?? 0))
      try await eventually("the end of the stream") { relay.hasEnded }
      // Write Request of 0000 to the descriptor to which 0100 (notifications) was written first. Core 5.4,
      // Vol 3, Part F, 3.4.5.1 and Part G, 3.3.3.3.
      let said = relay.octetsFromHost
      let begin = try #require(
        (0..<(said.count - 5)).first { said[$0] == 0x12 && said[($0 + 3)..<($0 + 5)] == [1, 0] })
      let handle = said[(begin + 1)..<(begin + 3)]
      let stopped = try #require(said.lastRange(of: [0x12] + handle + [0, 0]), "it was not told to stop")
      let closed = try #require(said.firstRange(of: Self.disconnect), "the link was not closed")
      #expect(stopped.upperBound <= closed.lowerBound)
    }
  }

  /// The link is lost after the sixth value, which is an error.
  @Test func anyDevice() async throws {
    let radio = "virtual:heart-rate,rate=20,disconnect-after=6"
    let run = try await Examples.run("AnyDevice", ["70:CB:0D:00:18:0D", "2a37", radio])
    #expect(run.status == 1 && run.errorLines == ["AnyDevice: the link was lost: the device went silent"])
    #expect(run.outputLines.first == "firmware 2.0.1")
    let values = run.outputLines.dropFirst().map { String($0.drop { $0 != " " }) }
    // Flags: an 8-bit rate, contact supported and detected, intervals. Heart Rate Service 1.0, 3.1.1.1.
    #expect(values == [String](repeating: " [22, 64]", count: 6))
  }

  @Test func hotPath() async throws {
    try await withDevice(["source", "--payload", "100", "--count", "1000"]) { relay in
      let program = try await Examples.start(
        "HotPath",
        ["70:CB:0D:00:50:C0", "7d1a0002-6f2b-4c58-9a3e-52494e475441", "unix:" + relay.path])
      try await eventually("all that it sends") { relay.notificationCount == 1000 }
      program.send(SIGINT)
      let run = try await program.finish()
      #expect(run.status == 0 && run.outputLines == ["1000 notifications, 100000 octets"])
      try await eventually("the end of the stream") { relay.hasEnded }
      #expect(relay.octetsFromHost.firstRange(of: Self.disconnect) != nil)
    }
  }

  /// A capture like the command's: samples of two seconds at a hundred ticks each.
  @Test func record() async throws {
    try await withFolder { folder in
      let directory = folder + "/walk"
      let run = try await Examples.run("Record", [directory, "2", "virtual:ring,rate=300"])
      let received = try #require(
        run.outputLines.first.flatMap { $0.split(separator: " ").first }.flatMap { Int($0) })
      #expect(run.status == 0 && run.outputLines == ["\(received) received, 0 lost, 0 gaps"])
      #expect((580...620).contains(received))
      let files = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
      let tables = ["accelerometer.csv", "ppg.csv", "samples.csv", "spo2.csv"]
      #expect(files == (tables + ["packets.btsnoop", "session.json"]).sorted())
      var rows = 0
      for table in tables where table != "samples.csv" {
        let text = try String(contentsOfFile: "\(directory)/\(table)", encoding: .utf8)
        rows += text.split(separator: "\n").count - 1
      }
      #expect(rows == received)
      let session = try JSONSerialization.jsonObject(
        with: Data(contentsOf: URL(filePath: directory + "/session.json")))
      let facts = try #require(session as? [String: Any])
      #expect(facts["endReason"] as? String == "duration over" && facts["received"] as? Int == received)
      #expect((facts["device"] as? [String: Any])?["name"] as? String == "R02_A1B2")
      let log = try await Examples.run("ReadLog", [directory + "/packets.btsnoop"])
      // 0xA1 is a raw frame.
      #expect(log.outputLines.count { $0.contains("[161, ") } == received)

      let again = try await Examples.run("Record", [directory, "2", "virtual:ring,rate=300"])
      #expect(again.status == 1 && again.errors.contains("already exists and is not empty"))
    }
  }

  /// The notifications that Wireshark finds in the same log: time, handle, value.
  @Test(arguments: ["virtual-ring.btsnoop", "bluetoothd-monitor.btsnoop.gz", "exclusive-monitor.pcapng"])
  func readLog(_ name: String) async throws {
    let base = name.prefix { $0 != "." }
    let decode = try String(contentsOfFile: Place.capture("\(base).tshark.txt"), encoding: .utf8)
    var wanted: [String] = []
    for line in decode.split(separator: "\n") {
      let fields = line.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
      guard fields.count == 8, fields[5] == "0x1b" else { continue }
      let handle = try #require(Int(fields[6].dropFirst(2), radix: 16))
      let time = fields[1].filter { $0 != "." }
      wanted.append("\(time) \(handle) \(octets(fields[7]))")
    }
    #expect(wanted.count >= 30)
    let run = try await Examples.run("ReadLog", [Place.capture(name)])
    #expect(run.status == 0 && run.outputLines == wanted)
  }

  private func octets(_ digits: String) -> [UInt8] {
    stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(digits.dropFirst($0).prefix(2), radix: 16) }
  }

  /// The belt's values by the formula in its file's comment: halves of a breath from 12 up, and 500 ml and
  /// more.
  @Test func ownSensor() async throws {
    let values = (0..<10).map { (12 + Double($0) / 2, 500 + $0) }
    let run = try await Examples.run("OwnSensor", [])
    #expect(run.status == 0 && run.errors == "")
    #expect(run.outputLines == values.map { "\($0) \($1)" })
    try await withFolder { folder in
      let directory = folder + "/belt"
      let run = try await Examples.run("OwnSensor", [directory])
      #expect(run.status == 0 && run.output.hasSuffix(" received, 0 lost\n"))
      let text = try String(contentsOfFile: directory + "/breaths.csv", encoding: .utf8)
      let rows = text.split(separator: "\n").map(String.init)
      #expect(rows.first == "time_ns,breaths_per_minute,depth_ml")
      #expect(rows.dropFirst().map { String($0.drop { $0 != "," }) } == values.map { ",\($0),\($1)" })
      let session = try JSONSerialization.jsonObject(
        with: Data(contentsOf: URL(filePath: directory + "/session.json")))
      #expect((session as? [String: Any])?["endReason"] as? String == "count reached")
      // The recording can be read again.
      let analysis = try await Ringtap.run(["analyse", directory])
      #expect(analysis.status == 0 && analysis.output.contains("breaths_per_minute 14.250 on average"))
      let lines = try await Ringtap.run(["convert", directory, "--to", "ndjson", "--output", "-"])
      #expect(lines.status == 0 && lines.outputLines.count == values.count)
      let source = Place.root + "/Tools/Examples/Programs/Sources/OwnSensor/OwnSensor.swift"
      #expect(try String(contentsOfFile: source, encoding: .utf8).split(separator: "\n").count <= 80)
    }
  }

  @Test func saysWhatIsNoRadio() async throws {
    let run = try await Examples.run("RawStream", ["virtual:rind"])
    #expect(run.status == 1 && run.output == "")
    #expect(run.errors.hasPrefix("RawStream: there is no virtual peripheral 'rind'; there are ring, "))
  }
}

extension [UInt8] {
  /// The last occurrence of these bytes.
  fileprivate func lastRange(of octets: [UInt8]) -> Range<Int>? {
    guard count >= octets.count else { return nil }
    return (0...(count - octets.count)).last { self[$0..<($0 + octets.count)].elementsEqual(octets) }
      .map { $0..<($0 + octets.count) }
  }
}
