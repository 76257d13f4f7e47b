import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

@testable import BLEHost

/// Bytes of an LE Advertising Report with one report. Core 5.4, Vol 4, Part E, 7.7.65.2.
private func legacyReport(_ type: UInt8, _ data: String, rssi: Int8 = -60, address: String = "0a00e5c09800")
  -> [UInt8]
{
  let data = octetsOf(data)
  return [0x02, 0x01, type, 0x01] + octetsOf(address) + [UInt8(data.count)] + data + [UInt8(bitPattern: rssi)]
}

private let advertisement: UInt8 = 0
private let nonConnectable: UInt8 = 3
private let scanResponse: UInt8 = 4

@Suite struct AdvertiserTests {
  private func merge(_ events: [UInt8]...) throws -> Advertiser {
    var advertiser = Advertiser(address: .any)
    for (index, event) in events.enumerated() {
      try AdvertisingReports(validating: event.span).forEach { report in
        _ = try? advertiser.merge(report, at: ReceiveTime(nanoseconds: Int64(index + 1)))
      }
    }
    return advertiser
  }

  /// Bluetooth Assigned Numbers, 2.3, and layouts of the Core Specification Supplement, Part A.
  @Test func readsEveryType() throws {
    let advertiser = try merge(
      legacyReport(
        advertisement,
        """
        02 01 06  03 02 0d18  03 03 0f18  05 04 78563412  05 05 efbeadde
        02 0a f8  03 19 4103
        """),
      legacyReport(
        advertisement,
        "11 06 fb349b5f80000080001000001a180000  11 07 9ecadc240ee5a9e093f3a3b5f0ff406e"),
      legacyReport(
        scanResponse, "05 16 0d18 0102  07 20 78563412 03 04  06 ff 4c00 0215aa  04 08 523032"),
      legacyReport(scanResponse, "12 21 9ecadc240ee5a9e093f3a3b5f0ff406e 05  09 09 5230325f33343143"))
    #expect(
      advertiser.services.map(\.description) == [
        "0000180d-0000-1000-8000-00805f9b34fb", "0000180f-0000-1000-8000-00805f9b34fb",
        "12345678-0000-1000-8000-00805f9b34fb", "deadbeef-0000-1000-8000-00805f9b34fb",
        "0000181a-0000-1000-8000-00805f9b34fb", "6e40fff0-b5a3-f393-e0a9-e50e24dcca9e",
      ])
    #expect(advertiser.flags == 0x06)
    #expect(advertiser.txPower == -8)
    #expect(advertiser.appearance == 0x0341)
    #expect(advertiser.name == "R02_341C")
    #expect(advertiser.isNameComplete)
    #expect(advertiser.manufacturerData == [0x004C: [0x02, 0x15, 0xAA]])
    #expect(
      advertiser.serviceData == [
        BluetoothUUID(0x180D): [1, 2], BluetoothUUID(short32: 0x1234_5678): [3, 4],
        BluetoothUUID(high: 0x6E40_FFF0_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E): [5],
      ])
    #expect(advertiser.isConnectable)
    #expect(advertiser.rssi == -60)
    #expect(advertiser.latest == ReceiveTime(nanoseconds: 4))
  }

  /// A shortened name after the complete one does not replace it.
  @Test func keepsTheCompleteName() throws {
    let advertiser = try merge(
      legacyReport(advertisement, "04 08 523032"), legacyReport(scanResponse, "05 09 52303258"),
      legacyReport(advertisement, "04 08 523032"))
    #expect(advertiser.name == "R02X")
  }

  @Test func stripsPaddingFromNames() throws {
    #expect(try merge(legacyReport(advertisement, "06 09 5230320000")).name == "R02")
  }

  /// Too short for their type: skipped, and the rest is read.
  @Test(arguments: [
    "01 01", "01 0a", "02 19 41", "02 ff 4c", "02 16 0d", "04 20 785634", "03 21 9eca", "02 03 0d",
  ])
  func leavesOutWhatIsTooShort(_ structure: String) throws {
    let advertiser = try merge(legacyReport(advertisement, structure + "03 03 0f18"))
    #expect(advertiser.services == [BluetoothUUID(0x180F)])
    #expect(advertiser.flags == nil && advertiser.txPower == nil && advertiser.appearance == nil)
    #expect(advertiser.manufacturerData.isEmpty && advertiser.serviceData.isEmpty)
  }

  /// ADV_IND is connectable; ADV_NONCONN_IND is not; a scan response does not say.
  @Test func tellsWhoConnects() throws {
    #expect(try merge(legacyReport(advertisement, "")).isConnectable)
    #expect(try !merge(legacyReport(nonConnectable, "")).isConnectable)
    #expect(try !merge(legacyReport(nonConnectable, ""), legacyReport(scanResponse, "")).isConnectable)
    #expect(try merge(legacyReport(advertisement, ""), legacyReport(scanResponse, "")).isConnectable)
  }

  @Test func doesNotKnowAnUnknownStrength() throws {
    #expect(try merge(legacyReport(advertisement, "", rssi: 127)).rssi == nil)
  }
}

@Suite(.timeLimit(.minutes(1))) struct CollectorTests {
  private final class Seen: Sendable {
    private let state = Mutex<[Advertiser]>([])
    var all: [Advertiser] { state.withLock { $0 } }
    func add(_ advertiser: Advertiser) { state.withLock { $0.append(advertiser) } }
  }

  private func feed(_ collector: Collector, _ event: [UInt8], at time: Int64 = 1) throws {
    try AdvertisingReports(validating: event.span).forEach { report in
      collector.take(report, ReceiveTime(nanoseconds: time))
    }
  }

  @Test func mergesTheScanResponse() throws {
    let seen = Seen()
    let collector = Collector(reportsAll: false) {
      seen.add($0)
      return .goOn
    }
    try feed(collector, legacyReport(advertisement, "02 01 06"))
    try feed(collector, legacyReport(scanResponse, "04 09 523032"))
    try feed(collector, legacyReport(advertisement, "02 01 06", rssi: -40))
    try feed(collector, legacyReport(scanResponse, "04 09 523032"))
    #expect(seen.all.map(\.name) == [nil, "R02"], "strength alone is no news")
    #expect(seen.all.map(\.flags) == [6, 6])
    #expect(seen.all.map(\.isConnectable) == [true, true])
  }

  @Test func reportsAllWhenAsked() throws {
    let seen = Seen()
    let collector = Collector(reportsAll: true) {
      seen.add($0)
      return .goOn
    }
    for rssi in [-60, -50, -40] as [Int8] { try feed(collector, legacyReport(advertisement, "", rssi: rssi)) }
    #expect(seen.all.map(\.rssi) == [-60, -50, -40])
  }

  @Test func keepsDevicesApart() throws {
    let seen = Seen()
    let collector = Collector(reportsAll: false) {
      seen.add($0)
      return .goOn
    }
    try feed(collector, legacyReport(advertisement, "", address: "010000000000"))
    try feed(collector, legacyReport(advertisement, "", address: "020000000000"))
    #expect(seen.all.map(\.address.bits) == [1, 2])
  }

  /// Firmware often leaves garbage after the last structure: the name before it is still valid.
  @Test func takesANameBeforeABadStructure() throws {
    let seen = Seen()
    let collector = Collector(reportsAll: false) {
      seen.add($0)
      return .goOn
    }
    try feed(collector, legacyReport(advertisement, "02 01 06"))
    try feed(collector, legacyReport(scanResponse, "04 09 523032 ff"))
    try feed(collector, legacyReport(scanResponse, "04 09 523032 ff"))
    #expect(seen.all.map(\.name) == [nil, "R02"])
    #expect(collector.report.malformed == 2)
  }

  @Test func stopsWhenToldTo() async throws {
    let seen = Seen()
    let collector = Collector(reportsAll: true) {
      seen.add($0)
      return .stop
    }
    let waiting = Task { await collector.wait(for: nil) }
    for _ in 0..<3 { try feed(collector, legacyReport(advertisement, "")) }
    await waiting.value
    #expect(seen.all.count == 1, "nothing after the verdict")
    await collector.wait(for: nil)
  }

  @Test func stopsInTime() async {
    await Collector(reportsAll: false) { _ in .goOn }.wait(for: .milliseconds(5))
  }

  @Test func stopsWhenCancelled() async {
    for _ in 0..<200 {
      let collector = Collector(reportsAll: false) { _ in .goOn }
      let started = Counter()
      let waiting = Task {
        started.add()
        await collector.wait(for: nil)
      }
      await started.reaches(1)
      waiting.cancel()
      await waiting.value
    }
  }
}
