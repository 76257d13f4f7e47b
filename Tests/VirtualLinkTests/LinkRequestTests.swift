import BLEEmulation
import BLEHost
import BLEWire
import Testing

struct LinkRequestTests {
  private func request(
    _ interval: ClosedRange<UInt16>? = nil, latency: UInt16? = nil, timeout: UInt16? = nil
  ) -> LinkRequest {
    var request = LinkRequest()
    request.interval = interval
    request.latency = latency
    request.supervisionTimeout = timeout
    return request
  }

  @Test func asksForNothingByItself() {
    #expect(LinkRequest().isEmpty)
    #expect(LinkRequest().timing == nil)
    #expect(LinkRequest().fault == nil)
  }

  /// Unspecified values are the Linux kernel's: 30–50 ms, latency 0, 420 ms (net/bluetooth/hci_core.c).
  @Test func fillsInTheKernelsDefaults() {
    #expect(
      request(6...6).timing
        == LinkParameterRange(
          minimumInterval: 6, maximumInterval: 6, latency: 0, supervisionTimeout: 42))
    #expect(
      request(timeout: 100).timing
        == LinkParameterRange(
          minimumInterval: 24, maximumInterval: 40, latency: 0, supervisionTimeout: 100))
  }

  /// The timeout must exceed two intervals including all latency. Core 5.4, Vol 4, Part E, 7.8.18.
  @Test func keepsTheTimeoutAboveTheInterval() {
    for (interval, latency) in [(80, 0), (800, 0), (80, 10), (3200, 2)] as [(UInt16, UInt16)] {
      let request = request(interval...interval, latency: latency)
      let timing = request.timing
      #expect(timing?.isValid == true, "\(interval), \(latency)")
      #expect(request.fault == nil)
    }
    // 100 ms with 10 skipped events: six times 1.1 s.
    #expect(request(80...80, latency: 10).timing?.supervisionTimeout == 660)
  }

  @Test func refusesWhatNoControllerTakes() {
    #expect(request(5...6).fault != nil)
    #expect(request(6...3201).fault != nil)
    #expect(request(latency: 500).fault != nil)
    #expect(request(timeout: 9).fault != nil)
    #expect(request(80...80, timeout: 20).fault != nil)
    #expect(request(80...80, timeout: 21).fault == nil)
    // No timeout is long enough: 4 s intervals with 10 skipped events take 88 s, and the maximum is 32 s.
    #expect(request(3200...3200, latency: 10).fault != nil)
    var request = LinkRequest()
    request.dataLength = 26
    #expect(request.fault != nil)
    request.dataLength = 251
    #expect(request.fault == nil)
  }

  @Test func reachesTheController() async throws {
    let ring = quietRing()
    let link = try await VirtualLink.open([ring])
    var request = request(12...12, latency: 2, timeout: 300)
    request.phy = .le2M
    request.dataLength = 200
    let connection = try await link.adapter.connect(
      to: ring.address, asking: request, timeout: .seconds(10), tap: nil)
    // The response to a read arrives after the link's events.
    _ = try await connection.read(AttributeHandle(0x0007))
    let state = await connection.link
    #expect(state.timing == LinkParameters(interval: 12, latency: 2, supervisionTimeout: 300))
    #expect(state.transmitPHY == .le2M && state.receivePHY == .le2M)
    #expect(state.transmitOctets == 200)
    #expect(await connection.changes.count == 3)
    await connection.close()
    await link.close()
  }
}
