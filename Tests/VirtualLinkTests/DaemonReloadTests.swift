import BLELinux
import Foundation
import TestKit
import Testing

/// A daemon that reloads its file.
@Suite(.timeLimit(.minutes(2))) struct DaemonReloadTests {
  private struct Scene {
    let folder: String
    var file: String { folder + "/ringtap.json" }

    func write(_ text: String) throws {
      try text.replacing("FOLDER", with: folder).write(toFile: file, atomically: true, encoding: .utf8)
    }

    var captures: [String] {
      Files.names(in: folder + "/captures/left").filter { !$0.hasPrefix(".") }.sorted()
    }

    /// Size of the table that is being written.
    var byteCount: Int {
      captures.last.flatMap { Files.byteCount(of: "\(folder)/captures/left/\($0)/ppg.csv") } ?? 0
    }
  }

  private static let good = """
    {"directory": "FOLDER/captures", "statusSocket": "FOLDER/status",
     "radio": {"transport": "virtual:ring,rate=300,real-time"},
     "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring",
                  "link": {"interval": "30-50", "supervision-timeout": 4000}}]}
    """

  /// Files that differ only in layout, order or numbers as strings, then files that are rejected. The capture
  /// continues through all of it.
  @Test func aCaptureGoesOn() async throws {
    try await withFolder { folder in
      let scene = Scene(folder: folder)
      try scene.write(Self.good)
      let daemon = try Ringtap.start(["daemon", scene.file])
      try await eventually("it records") { scene.byteCount > 500 }
      let captures = scene.captures

      let reformatted = Self.good.replacing(", ", with: ",\n\n").replacing(": 4000", with: ":\n\"4000\"")
      try scene.write(reformatted)
      daemon.send(SIGHUP)
      _ = try await daemon.line(on: .errors, containing: "reloaded, 1 device")

      for (wrong, line) in [
        (#""interval": "fast""#, 4), (#""interval": "30-50", "latency": 65535"#, 4),
        (#""interval": "0""#, 4), (#""interval": "1e300""#, 4), (#""data-length": -1"#, 4),
        ("\"interval\": \"30-50\",\n\"supervision-timeout\": 65530", 5),
        ("\"interval\": \"30-50\",\n\n\"phy\": \"5g\"", 6),
      ] {
        try scene.write(
          Self.good.replacing(#""interval": "30-50", "supervision-timeout": 4000"#, with: wrong)
            .replacing(#""left""#, with: #""right""#))
        daemon.send(SIGHUP)
        _ = try await daemon.line(on: .errors, containing: "\(scene.file):\(line): link of right: ")
        _ = try await daemon.line(on: .errors, containing: "configuration unchanged")
      }

      let byteCount = scene.byteCount
      try await eventually("it still records") { scene.byteCount > byteCount + 500 }
      #expect(scene.captures == captures && !Files.exists(folder + "/captures/right"))
      daemon.send(SIGTERM)
      let result = try await daemon.finish()
      #expect(result.status == 0, "\(result.errorLines)")
      #expect(scene.captures == captures)
    }
  }

  /// Another radio in the file ends the captures and starts the next ones on the new radio.
  @Test func anotherRadioIsOpened() async throws {
    try await withFolder { folder in
      let scene = Scene(folder: folder)
      try scene.write(Self.good)
      let daemon = try Ringtap.start(["daemon", scene.file])
      try await eventually("it records") { scene.byteCount > 500 }
      let first = try #require(scene.captures.last)

      try scene.write(Self.good.replacing("rate=300", with: "rate=150"))
      daemon.send(SIGHUP)
      _ = try await daemon.line(on: .errors, containing: "the radio changed")
      try await eventually("it records again") {
        scene.captures.last != first && scene.byteCount > 500
      }
      #expect(Files.exists("\(folder)/captures/left/\(first)/session.json"))
      daemon.send(SIGTERM)
      #expect(try await daemon.finish().status == 0)
    }
  }

  /// A radio that disappears is opened again when it is back.
  @Test func aLostRadioIsOpenedAgain() async throws {
    try await withFolder { folder in
      let scene = Scene(folder: folder)
      let words = ["emulate", "ring", "--rate", "300", "--real-time", "--transport", "unix:\(folder)/radio"]
      let radio = try Ringtap.start(words)
      try scene.write(Self.good.replacing("virtual:ring,rate=300,real-time", with: "unix:FOLDER/radio"))
      let daemon = try Ringtap.start(["daemon", scene.file])
      try await eventually("it records") { scene.byteCount > 500 }
      let first = try #require(scene.captures.last)

      radio.send(SIGKILL)
      _ = try await daemon.line(on: .errors, containing: "reopening the adapter")
      _ = try await radio.finish()
      // The killed process left its socket, whose path the next one needs.
      try? Files.remove("\(folder)/radio")
      let second = try Ringtap.start(words)
      try await eventually("it records again") {
        scene.captures.last != first && scene.byteCount > 500
      }
      daemon.send(SIGTERM)
      #expect(try await daemon.finish().status == 0)
      second.send(SIGINT)
      _ = try await second.finish()
    }
  }
}
