import BLEStack
import BLEWire
import TestKit
import Testing

/// Links, their data and their buffers, with a misbehaving controller or peer.
@Suite struct HCILinkTableTests {
  private let handle = ConnectionHandle(0x40)
  private let connected = "043e1301 00 4000 00 01 f5f4f3f2f1f0 2800 0000 2a00 00"

  @Test func keepsALinkThatComesUpTwice() throws {
    let bench = try HCIHostBench.linked()
    // Half a frame, then the link comes up again, then the other half.
    try bench.receive("0240200600 0400 0400 1b03")
    try bench.receive(connected)
    #expect(bench.events().isEmpty)
    #expect(bench.host.linkCount == 1)
    #expect(bench.host.statistics.strayEvents == 1)
    try bench.receive("0240100200 00aa")
    #expect(bench.attributes == ["40:1b0300aa"])
  }

  /// 0x0EFF is the last handle. Core 5.4, Vol 4, Part E, 5.4.2.
  @Test func refusesAReservedHandle() throws {
    let bench = HCIHostBench()
    try bench.setUp()
    _ = bench.events()
    #expect(throws: WireError(.hciEvent, offset: 2, .invalidValue(0xF00))) {
      try bench.receive("043e1301 00 000f 00 01 f5f4f3f2f1f0 2800 0000 2a00 00")
    }
    #expect(bench.host.linkCount == 0)
    #expect(bench.events().isEmpty)
  }

  @Test func ignoresEventsOfUnknownLinks() throws {
    let bench = try HCIHostBench.linked()
    for event in [
      "040504 00 4100 13", "040504 0c 4000 00", "043e0a03 00 4100 2800 0000 2a00",
      "043e0b06 4100 0600 0c00 0100 c800", "043e0c04 00 4100 2301000000000000", "040c08 00 4100 09 f105 3412",
      "043e0b07 4100 fb00 4808 1b00 4801", "043e060c 00 4100 02 01",
    ] { try bench.receive(event) }
    #expect(bench.events().isEmpty)
    #expect(bench.sent().isEmpty)
    #expect(bench.host.linkCount == 1)
    // All except the failed disconnection, which says nothing about an unknown link.
    #expect(bench.host.statistics.strayEvents == 7)
  }

  /// There is no pending connect: data for an unknown handle is the late rest of an ended link.
  @Test func dropsDataOfLinksThatAreGone() throws {
    let bench = try HCIHostBench.linked()
    for _ in 0..<1000 { try bench.receive(bench.frame("0400", "1b0300", handle: "4120")) }
    #expect(bench.host.strayData == 1000)
    #expect(bench.host.linkCount == 1)
    try bench.receive("040504 00 4000 13")
    try bench.receive(bench.frame("0400", "1b0300aa"))
    #expect(bench.host.strayData == 1001)
    // The handle is reused: the old link's last data does not belong to the new link.
    try bench.connect()
    #expect(bench.attributes.isEmpty)
  }

  @Test func holdsBackNoMoreThanItsLimit() throws {
    let bench = HCIHostBench()
    try bench.setUp()
    let peer = DeviceAddress(bits: 0xF0F1_F2F3_F4F5, type: .random)
    _ = bench.host.submit(LECreateConnection(to: peer, ownType: .public, parameters: .default))
    _ = bench.sent()
    try bench.receive("040f0400010d20")
    try bench.receive(bench.frame("0400", "1b03ff", handle: "4120"))
    for number in 0..<20 { try bench.receive(bench.frame("0400", "1b03" + hexOf([UInt8(number)]))) }
    #expect(bench.host.strayData == 5)
    try bench.receive(connected)
    #expect(bench.attributes == (0..<15).map { "40:1b03" + hexOf([UInt8($0)]) })
    // Including the other handle's: one connect, one link.
    #expect(bench.host.strayData == 6)
  }

  @Test func forgetsWhatItHeldBackWhenTheConnectFails() throws {
    let bench = HCIHostBench()
    try bench.setUp()
    _ = bench.events()
    let peer = DeviceAddress(bits: 0xF0F1_F2F3_F4F5, type: .random)
    let command = LECreateConnection(to: peer, ownType: .public, parameters: .default)
    let id = try bench.submit(command)
    _ = bench.sent()
    try bench.receive(bench.frame("0400", "1b0300"))
    try bench.receive("040f040c010d20")
    #expect(bench.events() == [.answered(id, .commandDisallowed, [])])
    #expect(bench.host.strayData == 1)
    _ = try bench.submit(command)
    try bench.receive(bench.frame("0400", "1b0301"))
    try bench.receive("043e1301 02 0000 00 00 000000000000 0000 0000 0000 00")
    #expect(bench.host.strayData == 2)
    #expect(bench.events() == [.connectFailed(.unknownConnection)])
  }

  // MARK: Buffers

  /// Two buffers, fragments of 27 bytes.
  @Test func countsCompletedPacketsThatItDidNotSend() throws {
    let bench = try HCIHostBench.linked()
    let pdu = [UInt8](repeating: 0x52, count: 100)
    let isSent = bench.host.send(pdu.span, on: handle)
    #expect(isSent)
    #expect(bench.sent().count == 2)
    try bench.receive("041305 01 4100 0500")
    #expect(bench.sent().isEmpty)
    #expect(bench.host.statistics.strayCompletions == 5)
    try bench.receive("041305 01 4000 ffff")
    #expect(bench.host.statistics.strayCompletions == 5 + 65_533)
    // Still no more at once than there are buffers.
    #expect(bench.sent().count == 2)
    try bench.receive("04130d 03 4000 0100 4100 0100 4000 0100")
    #expect(bench.host.fragmentsUnderWay == 0)
    #expect(bench.sent().isEmpty)
    #expect(throws: WireError.self) { try bench.receive("041305 02 4000 0100") }
  }

  @Test func hasTheBuffersOfAnEndedLinkBack() throws {
    let bench = try HCIHostBench.linked()
    let pdu = [UInt8](repeating: 0x52, count: 100)
    _ = bench.host.send(pdu.span, on: handle)
    #expect(bench.sent().count == 2)
    #expect(bench.host.fragmentsUnderWay == 2)
    try bench.receive("040504 00 4000 08")
    #expect(bench.host.fragmentsUnderWay == 0)
    #expect(bench.host.waitingFragments(handle) == 0)
    try bench.connect("4100")
    let other = bench.host.send(pdu.span, on: ConnectionHandle(0x41))
    #expect(other)
    let sent = bench.sent()
    #expect(sent.count == 2)
    #expect(sent.first?.hasPrefix("024100") == true)
  }

  @Test func boundsWhatWaitsForBuffers() throws {
    let bench = try HCIHostBench.linked()
    let pdu = [UInt8](repeating: 0x52, count: 500)
    var accepted = 0
    while bench.host.send(pdu.span, on: handle), accepted < 10_000 { accepted += 1 }
    // 19 fragments each; the last frame that begins below the limit is queued completely.
    #expect(accepted == 108)
    #expect(bench.host.waitingFragments(handle) == 108 * 19)
  }

  /// A peer sends requests faster than it reads: 64 responses are queued, the rest are dropped.
  @Test func boundsAnswersThatWaitForBuffers() throws {
    let bench = try HCIHostBench.linked()
    for _ in 0..<1000 { try bench.receive(bench.frame("0500", "55 01 0000")) }
    #expect(bench.host.waitingFragments(handle) == 64)
    #expect(bench.host.statistics.droppedAnswers == 936)
  }

  @Test func countsBufferOverflows() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive("041a01 01")
    #expect(bench.host.statistics.bufferOverflows == 1)
    #expect(bench.host.linkCount == 1)
  }
}
