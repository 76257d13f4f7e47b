import BLESensors
import BLEStack
import BLEWire
import SensorSessions
import TestKit
import Testing

/// Values that sensors broadcast in their advertisements, and advertisements written as events of a log.
@Suite struct AdvertisedReadingTests {
  /// Advertiser A1:A2:A3:A4:A5:A6, in wire order.
  private static let address = "a6a5a4a3a2a1"

  /// An LE Advertising Report of Core 5.4, Vol 4, Part E, 7.7.65.2: one report, ADV_NONCONN_IND, random address.
  private func readings(_ data: String) throws -> [AdvertisedReading] {
    let octets = octetsOf(data)
    let parameters = octetsOf("02010301" + Self.address) + [UInt8(octets.count)] + octets + [0xC4]
    var readings: [AdvertisedReading] = []
    try AdvertisingReports(validating: parameters.span).forEach { report in
      try? AdvertisedReading.forEach(in: report, at: ReceiveTime(nanoseconds: 7)) { reading, _ in
        readings.append(reading)
      }
    }
    return readings
  }

  /// Reference sensor-services.md, 2. `6B 00 3B 1B 54 52` from an H7 is 84 beats/min with contact. CORE sends
  /// 36.5 °C in thousandths. In a band's data the rate follows five bytes, and the band's address is at the
  /// end. 0x2A6E is in hundredths. The OH1 data is the example in polar-ble-sdk
  /// `BleAdvertisementContent.swift`: a block of six bytes, then flags, transmitter, rate.
  @Test(
    arguments: [
      ("07ff6b003b1b5452", "84 detected"), ("07ff6b00391b5452", "84 notDetected"),
      ("0eff6b0072067f443700000033003c", "60 detected"), ("0fff6b0072067f443700000033003c3d", "60 detected"),
      ("0cff6b00720071019939003c3d", "60 notDetected"),
      ("07fff60b0004948e", "36.5"), ("07fff60b0003948e", "nil"),
      ("1bff5701020304" + "63" + "0000000000000000000000000000" + "a1a2a3a4a5a6", "99 notSupported"),
      ("1bff5701020304" + "63" + "0000000000000000000000000000" + "a6a5a4a3a2a1", "99 notSupported"),
      ("0516372a004b", "75 notSupported"), ("05166e2ac409", "25.0"), ("05166e2a38ff", "-2.0"),
      ("05166e2a0080", "nil"), ("08161c2a006c0100ff", "36.4"),
    ])
  func reads(_ data: String, _ expected: String) throws {
    let told = try readings(data).map { reading in
      switch reading {
      case .heartRate(let sample):
        #expect(sample.time.nanoseconds == 7)
        return "\(sample.beatsPerMinute) \(sample.measurement.contact)"
      case .temperature(let sample):
        #expect(sample.time.nanoseconds == 7)
        return sample.degrees.map { "\($0)" } ?? "nil"
      }
    }
    #expect(told == [expected])
  }

  /// Another company; a Polar block without a rate; a band that shares no rate, or another band's address;
  /// other services; values that are too short; a truncated AD structure.
  @Test(
    arguments: [
      "05ffffff0102", "06ff6b00400102", "03ff6b00", "04fff60b00",
      "1bff5701020304ff0000000000000000000000000000a1a2a3a4a5a6",
      "1bff5701020304630000000000000000000000000000b1b2b3b4b5b6",
      "1aff57010203046300000000000000000000000000a1a2a3a4a5a6", "03160d18", "0416372a00", "04166e2ac4",
      "ff01", "0bff6b0072067f4437000000", "0cff6b0072087f443700000033", "0dff6b0072067f44370000003300",
      "1bff570100480967361d0078b09608774ca8df13e002" + "a1a2a3a4a5a6",
      "",
    ])
  func readsNothing(_ data: String) throws {
    #expect(try readings(data).isEmpty)
  }

  /// A report survives being written to a log as events, even if it is longer than one event holds.
  @Test(arguments: [0, 31, 229, 230, 1_650]) func isWrittenAsEvents(_ byteCount: Int) throws {
    let data = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    var pieces: [[UInt8]] = []
    // Written by hand: properties 0x0013 and 0x0000, random address, SID 5, TX power 4, RSSI −60.
    let first =
      octetsOf("0d0100000" + "1" + Self.address + "0100" + "05" + "04" + "c4")
      + [UInt8](repeating: 0, count: 9)
    try AdvertisingReports(validating: (first + [0]).span).forEach { report in
      AdvertisingReport(report, properties: report.properties, data: data.span).events { event in
        pieces.append(event.indices.map { event[$0] })
      }
    }
    #expect(pieces.count == max(1, (byteCount + 228) / 229))
    var assembler = AdvertisingReportAssembler()
    var whole: [[UInt8]] = []
    for piece in pieces {
      #expect(piece[0] == 0x3E && Int(piece[1]) == piece.count - 2)
      try AdvertisingReports(validating: piece.span.extracting(2...)).forEach { report in
        assembler.take(report) { report in
          whole.append(report.data.indices.map { report.data[$0] })
          #expect(report.properties.bits == 0 && "\(report.address)" == "A1:A2:A3:A4:A5:A6")
          #expect(report.rssi == -60 && report.txPower == 4 && report.advertisingSet == 5)
        }
      }
    }
    #expect(whole == [data])
  }
}
