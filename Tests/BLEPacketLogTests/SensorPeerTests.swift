import BLESensors
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Heart rates and temperatures with every combination of flags, decoded by us, by tshark and by bumble. Each
/// of them runs once for the whole set.
@Suite @MainActor struct SensorPeerTests {
  /// Every flags byte, including reserved bits, with the fields that it announces, and more than one
  /// interval.
  private static let heartRates: [[UInt8]] = {
    var generator = SeededGenerator(state: 0x2A37)
    var values: [[UInt8]] = []
    for flags in UInt8.min...UInt8.max {
      for count in flags & 16 == 0 ? 0...0 : 1...3 {
        let byteCount = (flags & 1 == 0 ? 1 : 2) + (flags & 8 == 0 ? 0 : 2) + 2 * count
        values.append([flags] + (0..<byteCount).map { _ in .random(in: 0...255, using: &generator) })
      }
    }
    return values
  }()

  /// The same for temperatures, with valid dates.
  private static let temperatures: [[UInt8]] = {
    var generator = SeededGenerator(state: 0x2A1C)
    return (UInt8.min...UInt8.max).map { flags in
      var value = [flags] + (0..<3).map { _ in UInt8.random(in: 0...255, using: &generator) } + [0xFE]
      if flags & 2 != 0 {
        value += [0xE8, 0x07, .random(in: 1...12, using: &generator), .random(in: 1...28, using: &generator)]
        value += [.random(in: 0...23, using: &generator)]
        value += (0..<2).map { _ in .random(in: 0...59, using: &generator) }
      }
      return flags & 4 != 0 ? value + [.random(in: 1...9, using: &generator)] : value
    }
  }()

  /// A log in which two attributes are discovered and then notify and indicate these values.
  private static func log() -> [UInt8] {
    func packet(_ direction: HCIDirection, _ pdu: [UInt8]) -> LoggedPacket {
      let start: UInt8 = direction == .hostToController ? 0x00 : 0x20
      return LoggedPacket(
        type: .acl, direction: direction,
        octets: [0x40, start, UInt8(pdu.count + 4), 0, UInt8(pdu.count), 0, 4, 0] + pdu)
    }
    var packets = [
      packet(.hostToController, octetsOf("04 1200 1200")),
      packet(.controllerToHost, octetsOf("05 01 1200 372a")),
      packet(.hostToController, octetsOf("04 1400 1400")),
      packet(.controllerToHost, octetsOf("05 01 1400 1c2a")),
    ]
    packets += heartRates.map { packet(.controllerToHost, [0x1B, 0x12, 0] + $0) }
    packets += temperatures.map { packet(.controllerToHost, [0x1D, 0x14, 0] + $0) }
    return LogKit.log(packets)
  }

  @Test func agreesWithTshark() throws {
    let tool = ExternalTool("tshark")
    let rate = "btatt.heart_rate_measurement"
    let fields =
      [".value.8", ".value.16", ".energy_expended", ".rr_interval", ".flags.sensor_contact_status.support"]
      .map { rate + $0 } + [rate + ".flags.sensor_contact_status.contact"]
      + ["flags", "year", "month", "day", "hours", "minutes", "seconds", "temperature_type"].map {
        $0 == "flags" ? "btatt.temperature_measurement.flags" : "btatt." + $0
      }
    let arguments =
      ["-T", "fields", "-E", "separator=|", "-E", "occurrence=a"] + fields.flatMap { ["-e", $0] } + ["-r"]
    let lines = try tool.output(arguments, of: Self.log()).split(separator: "\n")
      .map { $0.split(separator: "|", omittingEmptySubsequences: false).map(String.init) }
    try #require(lines.count == 4 + Self.heartRates.count + Self.temperatures.count)
    for (octets, their) in zip(Self.heartRates, lines.dropFirst(4)) {
      let our = try HeartRateMeasurement(decoding: octets.span)
      let is16Bit = our.flags.contains(.rateIs16Bit)
      #expect(their[is16Bit ? 1 : 0] == "\(our.beatsPerMinute)" && their[is16Bit ? 0 : 1].isEmpty)
      #expect(their[2] == our.energyExpendedKilojoules.map { "\($0)" } ?? "")
      #expect(their[3] == our.rrIntervals.indices.map { "\(our.rrIntervals[$0])" }.joined(separator: ","))
      let contact = (their[4], their[5])
      switch our.contact {
      case .notSupported: #expect(contact.0 == "0")
      case .notDetected: #expect(contact == ("1", "0"))
      case .detected: #expect(contact == ("1", "1"))
      }
      #expect(our.trailingByteCount == 0)
      #expect(our.octets == octets)
    }
    // The temperature itself is not compared: tshark 4.0.17 prints 0 for every FLOAT.
    for (octets, their) in zip(Self.temperatures, lines.dropFirst(4 + Self.heartRates.count)) {
      let our = try TemperatureMeasurement(decoding: octets.span)
      let time = our.timestamp.map {
        [Int($0.year), Int($0.month), Int($0.day), Int($0.hour), Int($0.minute), Int($0.second)]
      }
      #expect(UInt8(their[6].dropFirst(2), radix: 16) == our.flags.rawValue)
      #expect(their[7...12].compactMap { Int($0) } == time ?? [])
      #expect(UInt8(their[13].dropFirst(2), radix: 16) == our.type?.rawValue)
      #expect(our.trailingByteCount == 0)
      #expect(our.octets == octets)
    }
  }

  /// bumble's decode of a heart rate.
  private struct Measurement: Decodable {
    var rate: Int
    var contact: Bool?
    var energy: Int?
    var ticks: [Int]
  }

  private static let program = """
    import json, sys
    from bumble.profiles.heart_rate_service import HeartRateService
    for line in open(sys.argv[1]):
        m = HeartRateService.HeartRateMeasurement.from_bytes(bytes.fromhex(line))
        ticks = [round(seconds * 1024) for seconds in m.rr_intervals or []]
        print(json.dumps({
            "rate": m.heart_rate, "contact": m.sensor_contact_detected, "energy": m.energy_expended, "ticks": ticks}))
    """

  @Test func agreesWithBumble() throws {
    let python = try Place.bumblePython()
    let output = try withFolder { folder in
      let file = URL(filePath: folder + "/values")
      let lines = Self.heartRates.map { $0.map { String(format: "%02x", $0) }.joined() + "\n" }
      try Data(lines.joined().utf8).write(to: file)
      let run = try Program.run(python, ["-c", Self.program, file.path])
      try #require(run.status == 0, "\(run.errors)")
      return run.output
    }
    let theirs = try output.split(separator: "\n").map {
      try JSONDecoder().decode(Measurement.self, from: Data($0.utf8))
    }
    try #require(theirs.count == Self.heartRates.count)
    for (octets, their) in zip(Self.heartRates, theirs) {
      let our = try HeartRateMeasurement(decoding: octets.span)
      #expect(Int(our.beatsPerMinute) == their.rate)
      #expect(our.energyExpendedKilojoules.map(Int.init) == their.energy)
      #expect(our.rrIntervals.indices.map { Int(our.rrIntervals[$0]) } == their.ticks)
      let contact: Bool? = our.contact == .notSupported ? nil : our.contact == .detected
      #expect(contact == their.contact)
    }
  }
}
