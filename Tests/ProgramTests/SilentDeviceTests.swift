import Foundation
import TestKit
import Testing

/// Each command that connects, with a device that is connected and answers nothing: no ATT request, no
/// pairing, no link layer request.
@Suite(.timeLimit(.minutes(5)))
struct SilentDeviceTests {
  private static let address = "70:CB:0D:00:A1:B2"
  private static let strap = "70:CB:0D:00:18:0D"

  /// The emulated device, and the command.
  private static let commands: [(device: String, line: [String])] = [
    ("ring", ["gatt", address]), ("ring", ["read", address, "2a29"]),
    ("ring", ["write", address, "2a00", "41"]),
    ("ring", ["notify", address, "6e400003-b5a3-f393-e0a9-e50e24dcca9e"]), ("ring", ["link", address]),
    ("ring", ["pair", address, "--no-bond"]),
    ("ring", ["capture", address, "--patience", "0", "--output", "FOLDER/walk"]),
    ("heart-rate", ["capture", "heart-rate", "--patience", "0", "--output", "FOLDER/walk"]),
    ("ring", ["ring", "info"]), ("ring", ["ring", "battery"]), ("ring", ["ring", "time"]),
    ("ring", ["ring", "find"]),
    ("ring", ["ring", "settings"]), ("ring", ["ring", "activity", "watch"]),
    ("ring", ["ring", "realtime", "heart-rate"]),
    ("ring", ["ring", "raw", "--patience", "0"]), ("ring", ["ring", "steps"]),
    ("ring", ["ring", "heart-rate"]),
    ("ring", ["ring", "spo2"]), ("ring", ["ring", "stress"]), ("ring", ["ring", "hrv"]),
    ("ring", ["ring", "sleep"]),
    ("ring", ["ring", "temperature"]), ("ring", ["ring", "sync", "--output", "FOLDER/history"]),
    ("ring", ["ring", "power-off", "--yes"]), ("ring", ["ring", "reboot", "--yes"]),
    ("ring", ["ring", "factory-reset", "--yes"]),
    ("heart-rate", ["heart-rate", "--patience", "0"]), ("thermometer", ["thermometer", "--patience", "0"]),
    ("cycling", ["cycling", "--patience", "0"]), ("polar", ["polar", "--stream", "ecg", "--patience", "0"]),
    ("polar", ["polar", "--stream", "ecg", "--patience", "0", "--output", "FOLDER/ecg"]),
    ("ring", ["bench", "notify", address]), ("ring", ["bench", "requests", address]),
    ("ring", ["bench", "sweep", address]),
  ]

  /// Data of links, and the remote link layer's responses: Read Remote Version Information Complete, LE Read
  /// Remote Features Complete. Core 5.4, Vol 4, Part E, 7.7.12 and 7.7.65.4.
  @Sendable private static func isOfController(_ packet: [UInt8]) -> Bool {
    packet[0] == 0x04 && packet[1] != 0x0C && !(packet[1] == 0x3E && packet[3] == 0x04)
  }

  private func with(
    _ device: String, _ line: [String],
    passing passes: @escaping @Sendable ([UInt8]) -> Bool = Self.isOfController,
    _ body: (Program, StreamRelay, String) async throws -> Void
  ) async throws {
    try await withFolder { folder in
      let emulation = try Ringtap.start(["emulate", device, "--transport", "unix:" + folder + "/far"])
      try await emulation.line(containing: "ready")
      let relay = try StreamRelay(folder + "/near", to: folder + "/far", passing: passes)
      let arguments = line.map { $0.replacingOccurrences(of: "FOLDER", with: folder) }
      let program = try Ringtap.start(arguments + ["--transport", "unix:" + folder + "/near"])
      try await body(program, relay, folder)
      await emulation.end()
    }
  }

  /// The promised limit is a second; a busy machine may take longer, but nothing else ends that soon:
  /// --timeout is usually 20 s.
  private func interrupt(_ program: Program) async throws -> Program.Result {
    let begin = ContinuousClock.now
    program.send(SIGINT)
    let result = try await program.ended()
    #expect(ContinuousClock.now - begin < .seconds(5), "\(program.name)")
    return result
  }

  @Test func aSignalEndsEachCommand() async throws {
    try await forEach(Self.commands, atOnce: 4) { device, line in
      try await with(device, line) { program, relay, _ in
        try await eventually("it asks") { relay.heldBackCount > 0 }
        let result = try await interrupt(program)
        #expect(result.status == 130, "\(line): \(result.errors)")
        #expect(result.errorLines.last == "ringtap: interrupted", "\(line): \(result.errors)")
      }
    }
  }

  @Test func aTimeoutEndsEachCommand() async throws {
    try await forEach(Self.commands, atOnce: 4) { device, line in
      try await with(device, line + ["--timeout", "1"]) { program, relay, _ in
        let begin = ContinuousClock.now
        let result = try await program.ended()
        #expect(ContinuousClock.now - begin < .seconds(12), "\(line)")
        #expect(relay.heldBackCount > 0)
        #expect(result.status == 1, "\(line): \(result.errors)")
        #expect(result.errorLines.last?.contains("1 s") == true, "\(line): \(result.errors)")
      }
    }
  }

  @Test func aSecondSignalEndsAtOnce() async throws {
    try await with("ring", ["capture", Self.address, "--output", "FOLDER/walk"]) { program, relay, _ in
      try await eventually("it asks") { relay.heldBackCount > 0 }
      // Two different signals, because the kernel merges equal ones. Either may be delivered first.
      program.send(SIGINT)
      program.send(SIGTERM)
      let result = try await program.ended()
      #expect([130, 143].contains(result.status))
      #expect(!result.errors.contains("interrupted"), "whom the first signal alone ends says so")
    }
  }

  /// Interrupted while the stream runs and before its first value: the message does not blame the device.
  @Test(arguments: [["capture", "heart-rate", "--output", "FOLDER/walk"], ["heart-rate"]])
  func aSignalBeforeTheFirstValueIsTold(_ line: [String]) async throws {
    // All packets except notifications. Core 5.4, Vol 3, Part F, 3.4.7.1.
    let isNoValue: @Sendable ([UInt8]) -> Bool = { packet in
      packet[0] != 0x02 || packet.count < 10 || packet[7] != 0x04 || packet[9] != 0x1B
    }
    try await with("heart-rate", line, passing: isNoValue) { program, relay, _ in
      try await eventually("it streams") { relay.heldBackCount > 0 }
      let result = try await interrupt(program)
      #expect(result.status == 130, "\(line): \(result.errors)")
      #expect(
        result.errorLines.last?.contains("interrupted before the first value") == true, "\(result.errors)")
      #expect(!result.errors.contains("asleep"), "\(result.errors)")
    }
  }

  /// The data recorded before the device fell silent is complete.
  @Test func aRecordingEndsWhole() async throws {
    try await with(
      "ring", ["capture", Self.address, "--output", "FOLDER/walk", "--quiet"], passing: { _ in true }
    ) { program, relay, folder in
      try await eventually("it streams") { relay.notificationCount >= 9 }
      relay.pass(Self.isOfController)
      let result = try await interrupt(program)
      #expect(result.status == 0, "\(result.errors)")
      let session = try JSONSerialization.jsonObject(
        with: Data(contentsOf: URL(filePath: folder + "/walk/session.json")))
      let report = try #require(session as? [String: Any])
      #expect(report["endReason"] as? String == "interrupted")
      #expect(report["received"] as? Int ?? 0 >= 9)
    }
  }
}
