import Foundation
import TestKit
import Testing

/// `ringtap scan --output`: advertisements on the disk, and the values that sensors advertise.
@Suite(.timeLimit(.minutes(3))) struct ScanOutputTests {
  /// Wireshark reads as many advertisements as were reported, each with the fields of the emulated sensors.
  /// The tables have the advertised values, and other commands accept the directory.
  @Test func recordsWhatSensorsTell() async throws {
    try await withFolder { folder in
      let place = folder + "/gym"
      let result = try await Ringtap.run([
        "scan", "--transport", "virtual:polar+core+ring,real-time", "--duration", "3", "--output", place,
        "--json",
      ])
      #expect(result.status == 0, "\(result.errors)")
      let count = try #require(
        result.errorLines.first { $0.hasSuffix(" reports in \(place)/packets.pcapng") }
          .flatMap { Int($0.split(separator: " ")[1]) })
      let seen = try await Program.run(
        Place.tool("tshark"),
        [
          "-r", place + "/packets.pcapng", "-T", "fields", "-e", "bthci_evt.bd_addr", "-e",
          "btcommon.eir_ad.entry.data",
        ])
      #expect(seen.status == 0)
      let lines = seen.output.split(separator: "\n").map { $0.lowercased() }
      #expect(lines.count == count && count > 30)
      for address in ["70:cb:0d:00:5c:80", "70:cb:0d:00:21:00", "70:cb:0d:00:a1:b2"] {
        #expect(lines.contains { $0.hasPrefix(address) })
      }
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: place).sorted() == [
          "70-CB-0D-00-21-00", "70-CB-0D-00-5C-80", "packets.pcapng",
        ])
      // 36.500 °C, the emulated CORE's constant value; no contact, like the emulated Polar sensor.
      let temperatures = try rows(place + "/70-CB-0D-00-21-00/temperature.csv")
      #expect(temperatures.count >= 2 && temperatures.allSatisfy { $0.hasSuffix(",measured,36.500,,,,") })
      let rates = try rows(place + "/70-CB-0D-00-5C-80/heart_rate.csv")
      #expect(rates.count >= 2 && rates.allSatisfy { $0.hasSuffix(",,0,") })
      let analysis = try await Ringtap.run(["analyse", place])
      #expect(analysis.status == 0 && analysis.output.contains("36.5"), "\(analysis.errors)")
      let again = try await Ringtap.run([
        "scan", "--transport", "virtual:core", "--duration", "1", "--output", place,
      ])
      #expect(again.status == 1 && again.errors.contains("already exists and is not empty"))
    }
  }

  private func rows(_ path: String) throws -> [String] {
    try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").dropFirst().map(String.init)
  }

  /// The log of another program has them, too: the reference's 6B 00 3B 1B 54 52, once a second, and again in
  /// between.
  @Test func importsWhatAPolarSensorAdvertised() async throws {
    try await withFolder { folder in
      let packets = (0..<6).map { number -> [UInt8] in
        octetsOf("043e14020103" + "01" + "a6a5a4a3a2a1" + "08" + "07ff6b003b1b") + [
          UInt8(0x54 + number / 2), 0x52, 0xC4,
        ]
      }
      var log = Array("btsnoop\0".utf8) + [0, 0, 0, 1, 0, 0, 0x03, 0xEA]
      func number<Number: FixedWidthInteger>(_ value: Number) {
        withUnsafeBytes(of: value.bigEndian) { log += $0 }
      }
      for (place, packet) in packets.enumerated() {
        for value in [UInt32(packet.count), UInt32(packet.count), 3, 0] { number(value) }
        // Microseconds since the year 0: 2023-11-14, every half second.
        number(Int64(0x00DC_DDB3_0F2F_8000) + 1_700_000_000_000_000 + Int64(place) * 500_000)
        log += packet
      }
      try Data(log).write(to: URL(filePath: folder + "/log"))
      let result = try await Ringtap.run(["import", folder + "/log", "--output", folder + "/walk"])
      #expect(result.status == 0, "\(result.errors)")
      #expect(
        try rows(folder + "/walk/heart_rate.csv") == [
          "1700000000000000000,84,1,", "1700000001000000000,85,1,", "1700000002000000000,86,1,",
        ])
    }
  }

  @Test func saysWhereNobodyTellsAnything() async throws {
    try await withFolder { folder in
      let result = try await Ringtap.run([
        "scan", "--transport", "virtual:ring", "--duration", "1", "--output", folder + "/quiet",
      ])
      #expect(result.status == 0, "\(result.errors)")
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/quiet") == ["packets.pcapng"])
    }
  }

  /// Services and companies are printed with the names that the SIG assigned (Assigned Numbers, 3.4 and 7.1).
  @Test func namesServicesAndCompanies() async throws {
    let scan = ["scan", "--transport", "virtual:polar", "--duration", "1"]
    let text = try await Ringtap.run(scan)
    #expect(text.output.contains("Heart Rate (180d)") && text.output.contains("Polar Electro OY (0x006b): "))
    let json = try await Ringtap.run(scan + ["--json"])
    #expect(json.output.contains(#""serviceNames":["Heart Rate"]"#))
    #expect(json.output.contains(#""manufacturerNames":{"0x006b":"Polar Electro OY"}"#))
  }
}
