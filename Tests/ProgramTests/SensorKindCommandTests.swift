import Foundation
import TestKit
import Testing

/// `ringtap capture KIND`, and the commands that print a kind of sensor.
@Suite(.timeLimit(.minutes(2))) struct SensorKindCommandTests {
  /// Settings in the text of a kind are in the requests to the sensor: the octets are those of the reference
  /// `sensor-services.md`, 2.3 and 5.3.
  @Test(
    arguments: [
      // Heart Rate Control Point: reset energy expended.
      ("heart-rate:reset-energy", "virtual:heart-rate,rate=50", "heart_rate.csv", [0x01]),
      // Start acceleration; sample rate 100.
      (
        "polar:acc,rate=100", "virtual:polar,rate=50", "accelerometer.csv",
        [0x02, 0x02, 0x00, 0x01, 0x64, 0x00]
      ),
      // Start PPG; sample rate 55.
      ("polar:ppg", "virtual:polar,rate=50", "ppg.csv", [0x02, 0x01, 0x00, 0x01, 0x37, 0x00]),
    ] as [(String, String, String, [UInt8])]) func capturesWithSettings(
      _ kind: String, _ device: String, _ table: String, _ octets: [UInt8]
    ) async throws
  {
    try await withFolder { folder in
      let capture = folder + "/capture"
      let run = try await Ringtap.run([
        "capture", kind, "--count", "20", "--output", capture, "--transport", device,
      ])
      #expect(run.status == 0, "\(run.errors)")
      #expect(FileManager.default.fileExists(atPath: "\(capture)/\(table)"))
      let log = [UInt8](try Data(contentsOf: URL(filePath: capture + "/packets.btsnoop")))
      // L2CAP's length and channel 4; a write request: opcode, handle, value.
      let isWritten = log.indices.dropLast(8).contains { place in
        let header = log[place..<place + 5]
        return header.dropFirst().elementsEqual([0x00, 0x04, 0x00, 0x12])
          && (octets.count > 1 || header[place] == 4)
          && log[(place + 7)...].starts(with: octets)
      }
      #expect(isWritten)
    }
  }

  @Test(arguments: [
    "polar:", "polar:emg", "polar:ecg,ecg", "polar:rate=100", "polar:acc,rate=0", "polar:acc,rate=1001",
    "polar:ecg,acc,rate=50", "polar:acc,rate=50,rate=50", "heart-rate:", "heart-rate:reset", "cycling:fast",
    "ring:,", "polar:emg@C4:12:34:56:78:9A",
  ]) func refusesUnknownSettings(_ kind: String) async throws {
    let run = try await Ringtap.run(["capture", kind, "--transport", "virtual:polar"])
    #expect(run.status == 2 && run.output.isEmpty)
    #expect(run.errors.contains("'\(kind)': settings are polar:ecg, acc or ppg"), "\(run.errors)")
  }

  /// The commands print, and their help says how to record; recording options still work.
  @Test(arguments: [
    ("heart-rate", "heart_rate"), ("thermometer", "temperature"), ("cycling", "cycling"), ("polar", "ecg"),
  ]) func printAndRecord(_ command: String, _ table: String) async throws {
    let help = try await Ringtap.run([command, "--help"]).outputLines
    #expect(help.contains { $0.hasPrefix("  ringtap capture \(command)") }, "\(help)")
    #expect(!help.contains { $0.contains("--format") || $0.hasPrefix("  -o, --output") })
    let reach = ["--transport", "virtual:\(command),rate=50", "--count", "3"]
    let printed = try await Ringtap.run([command] + reach)
    #expect(printed.status == 0 && printed.outputLines.count >= 3, "\(printed.errors)")
    try await withFolder { folder in
      let recorded = try await Ringtap.run([command, "--output", folder + "/capture"] + reach)
      #expect(recorded.status == 0, "\(recorded.errors)")
      #expect(FileManager.default.fileExists(atPath: "\(folder)/capture/\(table).csv"))
    }
  }
}
