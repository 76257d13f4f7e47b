import BLEStack
import BLEWire
import TestKit
import Testing

/// Core 5.4, Vol 4, Part E, 7.7.65.13: data status 00 complete, 01 more to come, 10 truncated, in bits 5 and 6 of the
/// event type.
@Suite struct AdvertisingReportAssemblerTests {
  private final class Bench {
    private let bench: HCIHostBench

    init() throws {
      bench = HCIHostBench()
      try bench.setUp()
    }

    var reports: [String] { bench.reports }
    var dropped: Int { bench.host.statistics.droppedReports }
    var unfinished: Int { bench.host.unfinishedReports }

    /// - Parameters:
    ///   - type: Event_Type.
    ///   - address: the last byte in printed order; the others are those of F0:F1:F2:F3:F4:00.
    func receive(_ type: UInt8, _ data: String, set: UInt8 = 1, address: UInt8 = 0xF5) throws {
      let octets = octetsOf(data)
      let header = [0x0D, 0x01, type, 0x00, 0x01, address] as [UInt8]
      let parameters =
        header + octetsOf("f4f3f2f1f0 01 02") + [set] + octetsOf("7f d6 0000 00 000000000000")
        + [UInt8(octets.count)] + octets
      try bench.receive([0x04, 0x3E, UInt8(parameters.count)] + parameters)
    }

    func startScan() { _ = bench.host.submit(LESetExtendedScanEnable(.reportAll)) }
  }

  private static let address = "F0:F1:F2:F3:F4:F5"

  @Test func lendsWholeReportsOn() throws {
    let bench = try Bench()
    try bench.receive(0x01, "020106")
    try bench.receive(0x41, "020106")
    try bench.receive(0x13, "020106")
    #expect(
      bench.reports == ["\(Self.address) 1 020106", "\(Self.address) 41 020106", "\(Self.address) 13 020106"])
  }

  @Test func putsFragmentsTogether() throws {
    let bench = try Bench()
    try bench.receive(0x21, "0102")
    try bench.receive(0x21, "03")
    #expect(bench.reports.isEmpty)
    try bench.receive(0x01, "0405")
    #expect(bench.reports == ["\(Self.address) 1 0102030405"])
    // The controller had no room for the rest.
    try bench.receive(0x21, "0102")
    try bench.receive(0x41, "03")
    #expect(bench.reports.last == "\(Self.address) 41 010203")
    try bench.receive(0x01, "06")
    #expect(bench.reports.last == "\(Self.address) 1 06")
  }

  /// Other advertisers, other sets of the same one, and scan responses are interleaved.
  @Test func tellsAdvertisersAndSetsApart() throws {
    let bench = try Bench()
    try bench.receive(0x21, "a1")
    try bench.receive(0x21, "b1", set: 2)
    try bench.receive(0x21, "c1", address: 0xF6)
    try bench.receive(0x29, "d1")
    try bench.receive(0x13, "ee")
    try bench.receive(0x01, "ff", set: 3)
    try bench.receive(0x01, "b2", set: 2)
    try bench.receive(0x01, "a2")
    try bench.receive(0x09, "d2")
    try bench.receive(0x01, "c2", address: 0xF6)
    #expect(
      bench.reports == [
        "\(Self.address) 13 ee", "\(Self.address) 1 ff", "\(Self.address) 1 b1b2", "\(Self.address) 1 a1a2",
        "\(Self.address) 9 d1d2", "F0:F1:F2:F3:F4:F6 1 c1c2",
      ])
    #expect(bench.dropped == 0)
  }

  /// The maximum is 1,650 bytes; anything beyond is cut off.
  @Test func boundsAnAdvertisement() throws {
    let bench = try Bench()
    let fragment = String(repeating: "5a", count: 200)
    for _ in 0..<8 { try bench.receive(0x21, fragment) }
    try bench.receive(0x01, String(repeating: "a5", count: 50))
    let whole = String(repeating: "5a", count: 1600) + String(repeating: "a5", count: 50)
    #expect(bench.reports == ["\(Self.address) 1 \(whole)"])
    for _ in 0..<100 { try bench.receive(0x21, fragment) }
    try bench.receive(0x01, "01")
    #expect(bench.reports.last == "\(Self.address) 41 \(String(repeating: "5a", count: 1650))")
    #expect(bench.dropped == 1)
  }

  @Test func boundsTheAdvertisersUnderWay() throws {
    let bench = try Bench()
    for address in 0..<17 as Range<UInt8> { try bench.receive(0x21, "01", address: address) }
    #expect(bench.dropped == 1)
    // The oldest one was dropped, so its rest stands alone.
    for address in 0..<17 as Range<UInt8> { try bench.receive(0x01, "02", address: address) }
    #expect(bench.reports.first == "F0:F1:F2:F3:F4:00 1 02")
    #expect(bench.reports.dropFirst().allSatisfy { $0.hasSuffix(" 1 0102") })
    #expect(bench.reports.count == 17)
    #expect(bench.unfinished == 1)
  }

  @Test func startsAnewWithTheScan() throws {
    let bench = try Bench()
    try bench.receive(0x21, "01")
    bench.startScan()
    try bench.receive(0x01, "02")
    #expect(bench.reports == ["\(Self.address) 1 02"])
    #expect(bench.unfinished == 1)
  }

  /// Each is counted once, whether it was evicted, discarded by a new scan, or may still be completed.
  @Test func countsThoseThatNeverComeWhole() throws {
    let bench = try Bench()
    for address in 0..<100 as Range<UInt8> { try bench.receive(0x21, "01", address: address) }
    #expect(bench.unfinished == 100)
    bench.startScan()
    for address in 100..<200 as Range<UInt8> { try bench.receive(0x21, "01", address: address) }
    #expect(bench.unfinished == 200)
    #expect(bench.reports.isEmpty)
  }
}
