import BLELinux
import BLEStack
import BLEWire
import Synchronization
import TestKit
import Testing

@testable import BLEHost

/// Devices in range may advertise without limit: a scan stores a limited amount and counts what it does not
/// store.
@Suite(.timeLimit(.minutes(2))) struct ScanFloodTests {
  /// Enough to replace each table's entries many times, in a few seconds of a debug build.
  private static let count = 200_000

  private final class News: Sendable {
    private let state = Mutex<(count: Int, latest: Advertiser?)>((0, nil))
    var count: Int { state.withLock(\.count) }
    var latest: Advertiser? { state.withLock(\.latest) }
    func take(_ advertiser: Advertiser) { state.withLock { $0 = ($0.count + 1, advertiser) } }
  }

  /// LE Advertising Reports with one AD structure each. Core 5.4, Vol 4, Part E, 7.7.65.2.
  private struct Flood {
    private var event: [UInt8]

    /// - Parameter structure: including its length byte.
    init(_ structure: String) {
      let data = octetsOf(structure)
      event = octetsOf("02 01 00 01 0000000000c0") + [UInt8(data.count)] + data + [0xC4]
    }

    mutating func send(to collector: Collector, _ change: (inout [UInt8]) -> Void) throws {
      change(&event)
      try AdvertisingReports(validating: event.span).forEach { report in
        collector.take(report, ReceiveTime(nanoseconds: 1))
      }
    }

    /// Offsets of the address and of the structure's value.
    static let (address, value) = (4, 13)
  }

  /// Writes the bytes of a number, least significant first.
  private func put(_ number: Int, _ byteCount: Int, at offset: Int, _ event: inout [UInt8]) {
    for index in 0..<byteCount { event[offset + index] = UInt8(truncatingIfNeeded: number >> (8 * index)) }
  }

  @Test func keepsSixteenCompaniesOfOneAdvertiser() throws {
    let news = News()
    let collector = Collector(reportsAll: false) {
      news.take($0)
      return .goOn
    }
    var flood = Flood("07 ff 0000 00000000")
    for number in 0..<Self.count {
      try flood.send(to: collector) {
        put(number, 2, at: Flood.value, &$0)
        put(number, 4, at: Flood.value + 2, &$0)
      }
    }
    #expect(collector.count == 1)
    #expect(news.latest?.manufacturerData.count == 16)
    let report = collector.report
    #expect(report.reports == Self.count)
    // Each had new data; those of the first 16 companies repeat after 65,536.
    #expect(news.count == 16 * 4)
    #expect(report.leftOut == Self.count - 16 * 4)
    #expect(report.forgotten == 0)
  }

  @Test func keeps32ServicesOfOneAdvertiser() throws {
    let news = News()
    let collector = Collector(reportsAll: false) {
      news.take($0)
      return .goOn
    }
    var flood = Flood("11 07 00000000000000000000000000000000")
    for number in 0..<Self.count {
      try flood.send(to: collector) { put(number, 4, at: Flood.value, &$0) }
    }
    #expect(news.latest?.services.count == 32)
    #expect(collector.report.leftOut == Self.count - 32)
  }

  @Test func keeps4096Advertisers() throws {
    let news = News()
    let collector = Collector(reportsAll: false) {
      news.take($0)
      return .goOn
    }
    var flood = Flood("02 01 06")
    for number in 0..<Self.count {
      try flood.send(to: collector) { put(number, 4, at: Flood.address, &$0) }
    }
    #expect(collector.count == 4096)
    #expect(collector.report.forgotten == Self.count - 4096)
    #expect(news.count == Self.count, "each is new")
    // The last ones are stored: receiving them again is not news.
    for number in Self.count - 4096..<Self.count {
      try flood.send(to: collector) { put(number, 4, at: Flood.address, &$0) }
    }
    #expect(news.count == Self.count)
    #expect(collector.report.forgotten == Self.count - 4096)
  }

  /// 8,192 in turn: each time the next one is the one that was just evicted.
  @Test func keepsLittleOfManyThatSayMuch() throws {
    let collector = Collector(reportsAll: true) { _ in .goOn }
    var flood = Flood("07 ff 0000 00000000")
    for number in 0..<Self.count {
      try flood.send(to: collector) {
        put(number % 8192, 4, at: Flood.address, &$0)
        put(number, 2, at: Flood.value, &$0)
      }
    }
    #expect(collector.count == 4096)
    #expect(collector.report.forgotten == Self.count - 4096)
  }

  @Test func aSearchKeepsWhatItIsToldTo() throws {
    let collector = Collector(reportsAll: false, keeping: Scanner.searched.count) { _ in .goOn }
    var flood = Flood("02 01 06")
    for number in 0..<10_000 {
      try flood.send(to: collector) { put(number, 4, at: Flood.address, &$0) }
    }
    #expect(collector.count == 256)
    #expect(collector.report.forgotten == 10_000 - 256)
  }

  /// The receive thread continues; the reader gets the latest advertisers, and the number of the others.
  @Test func losesWhatNobodyReads() async throws {
    let queue = AdvertiserQueue()
    let collector = Collector(reportsAll: true) { queue.add($0) }
    var flood = Flood("02 01 06")
    for number in 0..<10_000 {
      try flood.send(to: collector) { put(number, 4, at: Flood.address, &$0) }
    }
    queue.finish()
    var read: [UInt64] = []
    for await advertiser in queue.advertisers { read.append(advertiser.address.bits & 0xFFFF_FFFF) }
    #expect(read == Array(10_000 - 256..<10_000))
    #expect(queue.lost == 10_000 - 256)
  }

  @Test func countsWhatComesAfterTheEnd() throws {
    let news = News()
    let collector = Collector(reportsAll: true) {
      news.take($0)
      return news.count == 3 ? .stop : .goOn
    }
    var flood = Flood("02 01 06")
    for number in 0..<10 {
      try flood.send(to: collector) { put(number, 4, at: Flood.address, &$0) }
    }
    #expect(news.count == 3)
    #expect(collector.report.reports == 3)
    #expect(collector.report.late == 7)
    #expect(collector.count == 3, "late reports are not read")
  }

  /// Figures that the adapter counted before do not belong to this scan. They are reported even if the scan
  /// cannot be switched off.
  @Test func aScanTellsOfItselfOnly() async throws {
    let air = try FaultyAir()
    for _ in 0..<3 {
      let heard = Mutex<ScanReport?>(nil)
      await #expect(throws: HostError.self) {
        try await Scanner().run(
          on: air, for: .milliseconds(1), heard: { report in heard.withLock { $0 = report } }
        ) { _ in .goOn }
      }
      let report = try #require(heard.withLock { $0 })
      #expect(report.malformed == 2)
      #expect(report.unfinished == 30)
      #expect(!report.isComplete)
    }
    await air.close()
  }
}

/// Two malformed packets and thirty incomplete long advertisements in each scan.
private actor FaultyAir: Adapter {
  nonisolated let name = "faulty"
  nonisolated let mode = "raw"
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  var hooks: [any AdapterHook] = []
  private(set) var malformed = 5
  private(set) var unfinishedReports = 70

  init() throws { loop = try EventLoop.start() }

  func beginScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    (malformed, unfinishedReports) = (malformed + 2, unfinishedReports + 30)
  }

  /// It never confirms.
  func endScan() async throws(HostError) { throw .commandTimedOut(.leSetScanEnable) }

  func link(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection { throw .noAnswer(peer, seconds: 0) }

  func change(_ connection: Connection, to request: LinkRequest) async {}
  func facts(of connection: Connection) async throws(HostError) -> LinkFacts { LinkFacts() }
  func release() async { loop.stop() }
}
