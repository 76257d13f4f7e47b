import Foundation
import TestKit
import Testing

/// `--lsl`: a recording is received by liblsl's own clients, and compared with its files by `LSL/lsl.py`.
@Suite(.timeLimit(.minutes(3)))
struct LabStreamingTests {
  /// An LSL network that is limited to this machine and to this test.
  private struct Laboratory {
    let folder: String
    let environment: [String: String?]

    init(_ folder: String) async throws {
      self.folder = folder
      let path = try Self.python
      let made = try await Program.run(path, [Self.script, "config", folder, "\(try freePort())"])
      #expect(made.status == 0, "\(made.errors)")
      let library = try await Program.output(of: path, [Self.script, "library"])
      environment = [
        "LSLAPICFG": folder + "/lsl_api.cfg",
        "RINGTAP_LIBLSL": library.trimmingCharacters(in: .whitespacesAndNewlines),
      ]
    }

    private static let script = Place.fixture("ProgramTests/LSL/lsl.py")
    private static var python: String { get throws { try Place.lslPython() } }

    /// Starts a receiver, and returns when it searches for streams, because a recording lasts only some
    /// seconds.
    func receiver(_ arguments: [String]) async throws -> Program {
      let program = try Program(Self.python, [Self.script] + arguments, environment: environment)
      try await program.line(containing: "looking")
      return program
    }

    func record(_ arguments: [String]) throws -> Program {
      try Program(
        Place.ringtap,
        arguments + ["--to", "lsl:", "--rows", "all", "--format", "npy", "--output", folder + "/walk"],
        input: .nothing,
        environment: environment)
    }

    /// Makes the receiver compare its samples with the finished recording.
    func comparison(_ receiver: Program) async throws -> [String: Any] {
      try await receiver.line(containing: "received")
      try receiver.type("compare")
      let run = try await receiver.finish()
      #expect(run.status == 0, "\(run.errors)")
      let object = try JSONSerialization.jsonObject(with: Data((run.outputLines.last ?? "").utf8))
      return try #require(object as? [String: Any])
    }
  }

  /// Result of the comparison for a stream of samples.
  private func stream(_ name: String, in result: [String: Any]) throws -> [String: Any] {
    try #require(result[name] as? [String: Any], "no \(name) in \(result.keys)")
  }

  /// Every sample from the first that a receiver got to the last, including those of a second link, and the
  /// markers.
  @Test func eachSampleArrives() async throws {
    try await withFolder { folder in
      let laboratory = try await Laboratory(folder)
      let receiver = try await laboratory.receiver(["receive", "5", "1", folder + "/walk"])
      let capture = try laboratory.record([
        "capture", "--transport", "virtual:ring,rate=100,disconnect-after=500", "--count", "700",
      ])
      let run = try await capture.ended()
      #expect(run.status == 0 && run.errors.contains("streaming again"), "\(run.errors)")
      let result = try await laboratory.comparison(receiver)
      for table in ["accelerometer", "ppg", "spo2", "samples"] {
        let stream = try stream("ring 70:CB:0D:00:A1:B2 \(table)", in: result)
        #expect(stream["lost"] as? Int == 0 && stream["received"] as? Int ?? 0 > 100, "\(stream)")
        #expect(stream["manufacturer"] as? String == "Colmi" && stream["model"] as? String == "R02_A1B2")
        #expect(stream["format"] as? String == (table == "samples" ? "double64" : "float32"))
      }
      #expect(
        result["ring 70:CB:0D:00:A1:B2 events"] as? [String]
          == ["lost: the link was lost: the device went silent", "back", "end: count reached"])
    }
  }

  /// Each kind of sensor: a rate, words, missing values, columns that become known late.
  @Test func eachKindArrives() async throws {
    try await withFolder { folder in
      let laboratory = try await Laboratory(folder)
      let receiver = try await laboratory.receiver(["receive", "14", "5", folder + "/walk"])
      let capture = try laboratory.record([
        "capture", "ring", "heart-rate", "thermometer", "cycling", "polar", "--transport",
        "virtual:ring+heart-rate+thermometer+cycling+polar,real-time",
      ])
      try await receiver.line(containing: "ready", within: .seconds(60))
      capture.send(SIGINT)
      let run = try await capture.ended()
      // Five links may exceed the air time, so that the ring drops frames.
      #expect(
        run.status == 0 || run.status == 3 && run.output.contains("missing by the sensor's clock"),
        "\(run.errors)")
      let result = try await laboratory.comparison(receiver)
      let streams = result.values.compactMap { $0 as? [String: Any] }
      #expect(streams.count == 9 && streams.allSatisfy { $0["lost"] as? Int == 0 }, "\(streams)")
      let ecg = try stream("polar 70:CB:0D:00:5C:80 ecg", in: result)
      #expect(
        ecg["rate"] as? Double == 130 && ecg["type"] as? String == "ECG" && ecg["channels"] as? Int == 1)
      let others = streams.filter { $0["kind"] as? String != "polar" }
      #expect(others.allSatisfy { $0["rate"] as? Double == 0 })
    }
  }

  /// LabRecorder's file, read by pyxdf.
  @Test func labRecorderRecords() async throws {
    try await withFolder { folder in
      let laboratory = try await Laboratory(folder)
      let recorder = try await laboratory.receiver(["record", "50", folder + "/walk", folder + "/walk.xdf"])
      let capture = try laboratory.record(["capture", "--transport", "virtual:ring,rate=100,real-time"])
      try await recorder.line(containing: "received", within: .seconds(60))
      capture.send(SIGINT)
      let run = try await capture.ended()
      #expect(run.status == 0, "\(run.errors)")
      let result = try await laboratory.comparison(recorder)
      #expect(result.count == 4)
      for case let stream as [String: Any] in result.values {
        #expect(stream["received"] as? Int ?? 0 >= 50, "\(stream)")
      }
    }
  }

  /// A receiver that stops reading does not affect the recording, and hardly delays its end.
  @Test func aReceiverThatStandsStill() async throws {
    try await withFolder { folder in
      let laboratory = try await Laboratory(folder)
      let receiver = try await laboratory.receiver(["receive", "5", "1", folder + "/walk"])
      let capture = try laboratory.record(["capture", "--transport", "virtual:ring,rate=3000"])
      try await receiver.line(containing: "ready")
      receiver.send(SIGSTOP)
      let table = folder + "/walk/samples/tick.npy"
      try await eventually("more than the kernel takes for it") {
        let size = try? FileManager.default.attributesOfItem(atPath: table)[.size] as? Int
        return (size ?? 0) > 60_000
      }
      let before = ContinuousClock.now
      capture.send(SIGINT)
      let run = try await capture.ended()
      #expect(ContinuousClock.now - before < .seconds(5))
      #expect(
        run.status == 0 && (run.output.contains("0 lost of ") || run.output.contains("0 dropped here of ")),
        "\(run.errors)")
      await receiver.end()
    }
  }

  /// The description is valid XML, whatever the name.
  @Test func hostileNamesStayInTheirElements() async throws {
    let name = "R\u{1B}[2J</model>\u{FFFE}\u{9B}<&\"\u{7F}"
    try await withFolder { folder in
      let laboratory = try await Laboratory(folder)
      let reach = ["--transport", "unix:" + folder + "/ring"]
      let ring = try Ringtap.start(["emulate", "ring", "--rate", "100", "--name", name] + reach)
      try await ring.line(containing: "ready")
      let receiver = try await laboratory.receiver(["receive", "5", "1", folder + "/walk"])
      let capture = try laboratory.record(["capture", "--name", name] + reach)
      try await receiver.line(containing: "ready")
      capture.send(SIGINT)
      let run = try await capture.ended()
      #expect(run.status == 0, "\(run.errors)")
      let result = try await laboratory.comparison(receiver)
      let samples = try stream("ring 70:CB:0D:00:A1:B2 samples", in: result)
      #expect(samples["model"] as? String == "R\u{FFFD}[2J</model>\u{FFFD}\u{FFFD}<&\"\u{FFFD}")
      await ring.end()
    }
  }

  // MARK: Without

  /// Nothing is recorded, and the message gives the remedy: without the file, with one that is not a library,
  /// and with another library.
  @Test(arguments: [
    ("/nowhere/liblsl.so", "cannot open shared object file"), ("/etc/passwd", "invalid ELF header"),
    ("libm.so.6", "it has no lsl_local_clock"),
  ]) func saysWhatIsMissing(_ library: String, _ reason: String) async throws {
    try await withFolder { folder in
      let program = try Program(
        Place.ringtap,
        ["capture", "--transport", "virtual:ring", "--output", folder + "/walk", "--to", "lsl:"],
        input: .nothing, environment: ["RINGTAP_LIBLSL": library])
      let run = try await program.ended()
      #expect(run.status == 1)
      #expect(
        run.errors.contains("the Lab Streaming Layer needs liblsl (") && run.errors.contains(reason),
        "\(run.errors)")
      #expect(run.errors.contains("install it: ") && run.errors.contains("RINGTAP_LIBLSL=/"))
      #expect(!FileManager.default.fileExists(atPath: folder + "/walk"))
    }
  }

  @Test(arguments: ["heart-rate", "polar"]) func refusesWithoutARecording(_ command: String) async throws {
    let run = try await Ringtap.run([command, "--transport", "virtual:\(command)", "--to", "lsl:"])
    #expect(run.status == 2 && run.errors.contains("--to needs an --output directory"), "\(run.errors)")
  }
}
