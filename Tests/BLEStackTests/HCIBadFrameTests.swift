import BLEStack
import BLEWire
import Testing

/// Malformed packets and frames. The link survives all of them.
@Suite struct HCIBadFrameTests {
  private let handle = ConnectionHandle(0x40)

  private func expectAlive(_ bench: HCIHostBench) throws {
    bench.attributes = []
    try bench.receive(bench.frame("0400", "1b0300aa"))
    #expect(bench.attributes == ["40:1b0300aa"])
    #expect(bench.host.linkCount == 1)
  }

  @Test(
    arguments: [
      "", "00", "07", "ff00", "01030c00", "04", "043e", "043e00", "043e05 01", "040e0201 03",
      "040f0300 01 03", "041300", "041304 01 4000 01", "040503 00 4000", "041000",
      "043e0801 00 4000 00 01 f5", "043e0a01 00 4000 00 01 f5f4f3f2", "043e0503 00 4000 28",
      "043e0506 4000 0600", "043e0407 4000 fb", "043e040c 00 4000", "043e0304 00 40",
      "040c0500 4000 09 f1", "043e0302 01 00", "02", "024020", "0240200500 01",
    ])
  func countsBrokenPackets(_ packet: String) throws {
    let bench = try HCIHostBench.linked()
    #expect(throws: WireError.self) { try bench.receive(packet) }
    #expect(bench.host.malformed == 1)
    #expect(bench.host.lastMalformed != nil)
    #expect(bench.events().isEmpty)
    try expectAlive(bench)
  }

  @Test func dropsSynchronousAndIsochronousData() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive("03400003010203")
    try bench.receive("0540000300010203")
    #expect(bench.host.strayData == 2)
    try expectAlive(bench)
  }

  // MARK: Recombination

  @Test func dropsAFrameThatANewOneInterrupts() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive("02402006000500 04001b03")
    try bench.receive(bench.frame("0400", "1b0301"))
    #expect(bench.attributes == ["40:1b0301"])
    #expect(bench.host.statistics.droppedFrames == 1)
    try expectAlive(bench)
  }

  @Test func dropsAContinuationOfNothing() throws {
    let bench = try HCIHostBench.linked()
    #expect(throws: WireError.self) { try bench.receive("02401003001b0300") }
    #expect(bench.host.statistics.droppedFrames == 1)
    try expectAlive(bench)
  }

  @Test func dropsMoreThanWasAnnounced() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive("02402006000300 04001b03")
    #expect(throws: WireError.self) { try bench.receive("0240100200 0000") }
    #expect(bench.host.statistics.droppedFrames == 1)
    #expect(bench.attributes.isEmpty)
    try expectAlive(bench)
  }

  /// 65,535 bytes are announced and sent: none of them is stored.
  @Test func skipsAFrameThatNobodyHasReasonToSend() throws {
    let bench = try HCIHostBench.linked()
    #expect(throws: WireError(.l2cap, offset: 0, .lengthMismatch(claimed: 65_535, available: 2048))) {
      try bench.receive("0240200600 ffff 0400 1b03")
    }
    for _ in 0..<2427 { try bench.receive("0240101b00" + String(repeating: "00", count: 27)) }
    #expect(bench.host.statistics.droppedFrames == 1)
    #expect(bench.host.malformed == 1)
    #expect(bench.attributes.isEmpty)
    try expectAlive(bench)
    // The header itself is split into two fragments.
    try bench.receive("0240200300 ffff 04")
    #expect(throws: WireError.self) { try bench.receive("0240100200 00 1b") }
    try bench.receive("0240100200 0000")
    #expect(bench.host.statistics.droppedFrames == 2)
    try expectAlive(bench)
  }

  @Test func takesFramesUpToItsLimit() throws {
    let bench = try HCIHostBench.linked()
    let value = String(repeating: "5a", count: 2045)
    try bench.receive("0240200408 0008 0400 1b0300" + value)
    #expect(bench.attributes == ["40:1b0300" + value])
    #expect(throws: WireError.self) { try bench.receive("0240200508 0108 0400 1b0300" + value + "5a") }
    try expectAlive(bench)
  }

  @Test(arguments: ["0000", "0100", "0700", "3f00", "4000", "ffff"])
  func ignoresChannelsThatAreNotThere(_ channelID: String) throws {
    let bench = try HCIHostBench.linked()
    try bench.receive(bench.frame(channelID, "010203"))
    #expect(bench.host.statistics.strayFrames == 1)
    #expect(bench.sent().isEmpty)
    try expectAlive(bench)
  }

  // MARK: Signalling

  /// One command per frame, with an identifier of 1 … 255; anything else is dropped. The kernel does the
  /// same, in `l2cap_le_sig_channel` of Linux 6.1: "corrupted command".
  @Test(
    arguments: [
      "", "12", "120108", "12 01 0800 5000 6400 0400", "12 00 0800 5000 6400 0400 f401", "55 00 0000",
      "55 01 0000 55 02 0000", "12 01 0900 5000 6400 0400 f401",
    ])
  func dropsSignalsThatAreNoSingleCommand(_ payload: String) throws {
    let bench = try HCIHostBench.linked()
    try bench.receive(bench.frame("0500", payload))
    #expect(bench.sent().isEmpty)
    #expect(bench.host.statistics.strayFrames == 1)
    try expectAlive(bench)
  }

  /// Core 5.4, Vol 3, Part A, 4.1: Command Reject, 0x0000, command not understood.
  @Test(arguments: ["02", "04", "08", "0a", "14", "17", "19", "55", "ff"])
  func rejectsCommandsThatItDoesNotKnow(_ code: String) throws {
    let bench = try HCIHostBench.linked()
    try bench.receive(bench.frame("0500", code + "07 0400 40004100"))
    #expect(bench.sent() == ["0240000a00060005000107" + "02000000"])
  }

  /// A parameter update request of the wrong length is rejected.
  @Test func rejectsARequestOfTheWrongLength() throws {
    let bench = try HCIHostBench.linked()
    try bench.receive(bench.frame("0500", "12 07 0600 5000 6400 0400"))
    #expect(bench.sent() == ["0240000a00060005000107" + "02000000"])
  }

  @Test(arguments: ["01", "03", "05", "07", "13", "15", "16", "18", "1a"])
  func doesNotAnswerResponses(_ code: String) throws {
    let bench = try HCIHostBench.linked()
    try bench.receive(bench.frame("0500", code + "07 0200 0000"))
    #expect(bench.sent().isEmpty)
    #expect(bench.host.statistics.strayFrames == 1)
  }

  /// MTU_sig is 23 on LE. The response is Command Reject, 0x0001, with that number and the first request's
  /// identifier; a frame with only responses gets no response. Core 5.4, Vol 3, Part A, 4.1.
  @Test func rejectsFramesBeyondTheSignallingMTU() throws {
    let bench = try HCIHostBench.linked()
    let response = "13 05 0200 0000"
    let request = "12 06 0800 5000 6400 0400 f401"
    let rejected = "0240000c0008000500" + "010604000100" + "1700"
    try bench.receive(bench.frame("0500", response + response + request))
    #expect(bench.sent() == [rejected])
    try bench.receive("041305 01 4000 0100")
    // An unknown command of 24 bytes.
    try bench.receive(bench.frame("0500", "55 06 1400" + String(repeating: "00", count: 20)))
    #expect(bench.sent() == [rejected])
    try bench.receive("041305 01 4000 0100")
    try bench.receive(bench.frame("0500", response + response + response + response))
    #expect(bench.sent().isEmpty)
    // 23 bytes are allowed.
    try bench.receive(bench.frame("0500", "55 06 1300" + String(repeating: "00", count: 19)))
    #expect(bench.sent() == ["0240000a00060005000106" + "02000000"])
    try expectAlive(bench)
  }
}
