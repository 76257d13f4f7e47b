import BLEStack
import BLEWire
import Testing

/// The host's handling of link control; events are encoded as by google/bumble 0.0.236.
@Suite struct HCILinkControlTests {
  private let handle = ConnectionHandle(0x40)

  /// Core 5.4, Vol 4, Part E, 7.7.65.6, 7.8.31 and 7.8.32.
  @Test func answersTheLinkLayersRequest() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive("043e0b06 4000 0600 0c00 0100 c800")
    #expect(bench.sent() == ["0120200e400006000c000100c80000000000"])
    try bench.receive("040e0601 2020 00 4000")
    // An interval below 7.5 ms.
    try bench.receive("043e0b06 4000 0500 0c00 0100 c800")
    #expect(bench.sent() == ["0121200340003b"])
    try bench.receive("040e0601 2120 00 4000")
    // The host handles both by itself.
    #expect(bench.events().isEmpty)
    // The result: 15 ms, latency 1, timeout 2 s.
    try bench.receive("043e0a03 00 4000 0c00 0100 c800")
    #expect(
      bench.events() == [
        .parametersChanged(handle, LinkParameters(interval: 12, latency: 1, supervisionTimeout: 200))
      ])
  }

  /// Core 5.4, Vol 3, Part A, 4.20: the central's response, then its LE Connection Update.
  @Test func updatesOnceAtATimeForAPeerThatKeepsAsking() throws {
    let bench = try HCIHostBench.linked()
    let request = bench.frame("0500", "12 01 0800 5000 6400 0400 f401")
    try bench.receive(request)
    #expect(
      bench.sent() == ["0113200e4000500064000400f40100000000", "0240000a0006000500" + "130102000000"])
    try bench.receive("040f0400011320")
    for _ in 0..<3 {
      try bench.receive(request)
      #expect(bench.sent() == ["0240000a0006000500" + "130102000100"])
      try bench.receive("0413050140000100")
    }
    // It has completed: the next request counts again.
    try bench.receive("0413050140000100")
    try bench.receive("043e0a03 00 4000 5000 0400 f401")
    try bench.receive(request)
    #expect(bench.sent().first == "0113200e4000500064000400f40100000000")
    // The controller refuses the command; the next one is sent anyway.
    try bench.receive("040f040c011320")
    try bench.receive("0413050140000100")
    try bench.receive(request)
    #expect(bench.sent().first == "0113200e4000500064000400f40100000000")
  }

  /// During a fast start each request is accepted (4.20), and the latest is applied at the end.
  @Test func putsOffWhatAPeerAsksOfATimingThatIsHeld() throws {
    let bench = try HCIHostBench.linked()
    bench.host.holdTiming(of: handle)
    try bench.receive(bench.frame("0500", "12 01 0800 5000 6400 0400 f401"))
    #expect(bench.sent() == ["0240000a0006000500" + "130102000000"], "accepted, and no command")
    try bench.receive("0413050140000100")
    // 30 … 50 ms, latency 0, 5 s.
    try bench.receive(bench.frame("0500", "12 02 0800 1800 2800 0000 f401"))
    #expect(bench.sent() == ["0240000a0006000500" + "130202000000"])
    try bench.receive("0413050140000100")
    // An interval below 7.5 ms is refused as usual, and is not applied.
    try bench.receive(bench.frame("0500", "12 03 0800 0500 0500 0000 f401"))
    #expect(bench.sent() == ["0240000a0006000500" + "130302000100"])
    try bench.receive("0413050140000100")
    let wish = bench.host.releaseTiming(of: handle)
    #expect(
      wish
        == LinkParameterRange(
          minimumInterval: 0x18, maximumInterval: 0x28, latency: 0, supervisionTimeout: 0x1F4))
    #expect(bench.host.releaseTiming(of: handle) == nil)
    // From now on like any other request.
    try bench.receive(bench.frame("0500", "12 04 0800 5000 6400 0400 f401"))
    #expect(bench.sent().first == "0113200e4000500064000400f40100000000")
  }

  @Test func reportsUpdatesThatFailed() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive("043e0a03 3b 4000 2800 0100 2a00")
    try bench.receive("043e060c 1a 4000 01 01")
    let events = bench.events()
    #expect(
      events == [
        .parametersUnchanged(handle, .unacceptableConnectionParameters),
        .phyUnchanged(handle, .unsupportedRemoteFeature),
      ])
    #expect(
      events.map(\.end?.procedure) == [
        LinkProcedure(.connectionUpdate, on: handle), LinkProcedure(.phyUpdate, on: handle),
      ])
    #expect(events.map(\.end?.status) == [.unacceptableConnectionParameters, .unsupportedRemoteFeature])
  }

  @Test func reportsWhatChanged() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive("043e060c 00 4000 02 01")
    try bench.receive("043e0b07 4000 fb00 4808 1b00 4801")
    let events = bench.events()
    guard case .phyChanged(handle, let phy)? = events.first,
      case .dataLengthChanged(handle, let length)? = events.last
    else {
      Issue.record("\(events)")
      return
    }
    #expect(phy.transmit == .le2M)
    #expect(phy.receive == .le1M)
    #expect(length.transmitOctets == 251)
    #expect(length.receiveOctets == 27)
    #expect(events.first?.end?.procedure == LinkProcedure(.phyUpdate, on: handle))
    #expect(events.last?.end == nil)
  }

  /// The status arrives first, the features and the version in separate events.
  @Test func readsWhoThePeerIs() throws {
    let bench = try HCIHostBench.linked()
    let features = try bench.submit(LEReadRemoteFeatures(handle))
    let version = try bench.submit(ReadRemoteVersionInformation(handle))
    #expect(bench.sent() == ["011620024000"])
    try bench.receive("040f0400011620")
    #expect(bench.sent() == ["011d04024000"])
    try bench.receive("040f0400011d04")
    #expect(bench.events() == [.answered(features, .success, []), .answered(version, .success, [])])
    try bench.receive("040c08 00 4000 09 f105 3412")
    try bench.receive("043e0c04 00 4000 2301000000000000")
    try bench.receive("043e0c04 1a 4000 0000000000000000")
    let events = bench.events()
    #expect(
      events == [
        .remoteVersion(handle, .success, LinkLayerVersion(version: 9, company: 0x05F1, subversion: 0x1234)),
        .remoteFeatures(handle, .success, LEFeatures(bits: 0x123)),
        .remoteFeatures(handle, .unsupportedRemoteFeature, LEFeatures(bits: 0)),
      ])
    #expect(events[0].end?.procedure == LinkProcedure(.remoteVersion, on: handle))
    #expect(events[2].end?.procedure == LinkProcedure(.remoteFeatures, on: handle))
    #expect(events[2].end?.status == .unsupportedRemoteFeature)
  }
}
