import Foundation
import TestKit
import Testing

/// Logs of other programs replayed as a controller: our commands send other requests than those programs did.
@Suite(.timeLimit(.minutes(3))) struct ForeignReplayTests {
  private static let ring = Place.shared("captures/colmi-r12-qring-sync.btsnoop")

  /// bumble starts the stream without requesting the settings, and writes its own log. The samples have 24
  /// bits each, after ten bytes of type, time and frame type: reference sensor-services.md, 5.4 and 5.5.
  @Test func recordsAPolarSensorOfBumblesLog() async throws {
    try await withFolder { folder in
      let (place, log) = ("127.0.0.1:\(try freePort())", folder + "/bumble.btsnoop")
      let sensor = try Program(
        Place.ringtap, ["emulate", "polar", "--transport", "tcp-server:\(place)"])
      let name = "Polar H10 0A1B2C3D"
      try await sensor.line(containing: name)
      let told = try await Program.run(
        Place.bumblePython(), [Place.peer("bumble_polar_client.py"), "tcp-client:\(place)", name, "8", log])
      await sensor.end()
      #expect(told.status == 0, "\(told.errors)")
      let frames = told.outputLines.filter { $0.hasPrefix("frame ") }.map {
        octetsOf(String($0.dropFirst(6)))
      }
      let microvolts = try frames.flatMap(Self.samples)
      #expect(microvolts.count > 100)

      let result = try await Ringtap.run(
        ["polar", "--stream", "ecg", "--transport", "replay:\(log),speed=max"])
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("replay: unexpected: "))
      let rows = result.outputLines.dropFirst().compactMap {
        $0.split(separator: ",").last.flatMap { Int($0) }
      }
      #expect(Array(rows.prefix(microvolts.count)) == microvolts)

      let recorded = try await Ringtap.run(
        ["capture", "polar", "--transport", "replay:\(log),speed=max", "--output", folder + "/walk"])
      #expect(recorded.status == 0 && recorded.output.contains("0 lost of "), "\(recorded.errors)")

      // A frame that is not in the log, or was cut by its writer, to its headers or to nothing: its samples are
      // lost.
      let lost = try Self.samples(frames[3]).count
      for kept in [nil, 14, 0] as [Int?] {
        let short = folder + "/kept-\(kept ?? -1).btsnoop"
        try Self.leaveOut(frames[3], of: log, into: short, keeping: kept)
        let result = try await Ringtap.run(
          ["polar", "--stream", "ecg", "--transport", "replay:\(short),speed=max"])
        #expect(result.status == 3 && result.errors.contains("\(lost) samples"), "\(result.errors)")
        #expect(result.outputLines.dropFirst().count == rows.count - lost)
        let recorded = try await Ringtap.run(
          ["capture", "polar", "--transport", "replay:\(short),speed=max", "--output", short + "-walk"])
        #expect(recorded.status == 3, "\(recorded.errors)")
        #expect(
          recorded.output.contains(kept == nil ? "\n\(lost) lost " : "\n1 lost of "), "\(recorded.output)")
      }
    }
  }

  /// Copies a btsnoop log without the record of a frame, or with only the first octets of that record. Each
  /// record begins with its original and its included length; data follows after 24 octets.
  private static func leaveOut(
    _ frame: [UInt8], of log: String, into output: String, keeping kept: Int?
  ) throws {
    let octets = [UInt8](try Data(contentsOf: URL(filePath: log)))
    var (copy, place, edited) = (Array(octets[..<16]), 16, 0)
    while place < octets.count {
      let length = octets[place + 4..<place + 8].reduce(0) { $0 << 8 | Int($1) }
      var record = Array(octets[place..<place + 24 + length])
      place += record.count
      if record.count > frame.count, record.suffix(frame.count) == frame[...] {
        edited += 1
        guard let kept else { continue }
        record = Array(record[..<(24 + kept)])
        record.replaceSubrange(4..<8, with: [0, 0, 0, UInt8(kept)])
      }
      copy += record
    }
    try #require(edited == 1)
    try Data(copy).write(to: URL(filePath: output))
  }

  private static func samples(_ frame: [UInt8]) throws -> [Int] {
    try #require(frame.count > 10 && (frame.count - 10).isMultiple(of: 3) && frame[0] == 0)
    return stride(from: 10, to: frame.count, by: 3).map { place in
      let bits = Int(frame[place]) | Int(frame[place + 1]) << 8 | Int(frame[place + 2]) << 16
      return bits < 1 << 23 ? bits : bits - (1 << 24)
    }
  }

  /// A phone's log of a real ring. The phone knew the attributes and requested the rest in its own order. The
  /// values are those of the replies, as tshark shows them: 03 60 …, and 39 01 00 2a 00 29 00 27 … in steps
  /// of 30 minutes.
  @Test(
    .enabled(if: ring != nil, Place.noShared),
    arguments: [
      (["ring", "battery"], ["battery 96 %"]),
      (["ring", "hrv"], ["00:00  42 ms", "01:00  41 ms", "02:00  39 ms", "03:00  41 ms", "04:00  41 ms"]),
      (
        ["gatt", "32:35:47:33:B8:02"],
        [
          "0x000e–0x0013  service 6e40fff0-b5a3-f393-e0a9-e50e24dcca9e  Ring commands",
          "  0x000f  characteristic 6e400002-b5a3-f393-e0a9-e50e24dcca9e  value 0x0010  [writeWithoutResponse, write]  Ring command",
        ]
      ),
    ] as [([String], [String])])
  func asksARingOfAPhonesLog(_ command: [String], _ answer: [String]) async throws {
    let log = try #require(Self.ring)
    let result = try await Ringtap.run(command + ["--transport", "replay:\(log),speed=max"])
    #expect(result.status == 0, "\(result.errors)")
    #expect(Array(result.outputLines.prefix(answer.count)) == answer)
  }
}
