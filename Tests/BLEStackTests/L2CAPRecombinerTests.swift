import BLEStack
import BLEWire
import TestKit
import Testing

/// Core 5.4, Vol 3, Part A, 7.2: fragments of one frame, the first with another boundary flag.
@Suite struct L2CAPRecombinerTests {
  private final class Bench {
    var recombiner = L2CAPRecombiner()
    /// Channel and payload in hexadecimal.
    var frames: [String] = []
    var dropped: Int { recombiner.droppedFrames }

    func receive(_ boundary: ACLPacket.Boundary, _ hex: String) throws(WireError) {
      let data = octetsOf(hex)
      try recombiner.receive(
        ACLPacket(handle: ConnectionHandle(0x40), boundary: boundary, data: data.span)
      ) { frame in
        let payload = frame.payload.indices.map { frame.payload[$0] }
        frames.append(String(frame.channelID, radix: 16) + ":" + hexOf(payload))
      }
    }
  }

  @Test(arguments: [ACLPacket.Boundary.firstFlushable, .firstNonFlushable, .complete])
  func lendsAWholeFrameOn(_ boundary: ACLPacket.Boundary) throws {
    let bench = Bench()
    try bench.receive(boundary, "0300 0400 1b0300")
    #expect(bench.frames == ["4:1b0300"])
  }

  /// Every way to split a frame into two or three, including inside the header.
  @Test func putsFragmentsTogether() throws {
    let frame = octetsOf("0700 0400 1b030001020304")
    for first in 1..<frame.count {
      for second in first..<frame.count {
        let bench = Bench()
        try bench.receive(.firstFlushable, hexOf(frame[..<first]))
        if second > first { try bench.receive(.continuation, hexOf(frame[first..<second])) }
        #expect(bench.frames.isEmpty)
        try bench.receive(.continuation, hexOf(frame[second...]))
        #expect(bench.frames == ["4:1b030001020304"], "cut at \(first) and \(second)")
        #expect(bench.dropped == 0)
      }
    }
  }

  @Test func takesEmptyContinuations() throws {
    let bench = Bench()
    try bench.receive(.firstFlushable, "0300 0400")
    try bench.receive(.continuation, "")
    try bench.receive(.continuation, "1b0300")
    #expect(bench.frames == ["4:1b0300"])
  }

  @Test func takesAnEmptyFrame() throws {
    let bench = Bench()
    try bench.receive(.firstFlushable, "0000 0400")
    #expect(bench.frames == ["4:"])
  }

  /// A start fragment inside a frame drops that frame and begins the next.
  @Test func startsAnewAtAStart() throws {
    let bench = Bench()
    try bench.receive(.firstFlushable, "0500 0400 1b03")
    try bench.receive(.firstFlushable, "0300 0500 010203")
    #expect(bench.frames == ["5:010203"])
    #expect(bench.dropped == 1)
    try bench.receive(.firstFlushable, "0500 0400 1b03")
    try bench.receive(.firstFlushable, "0300 0600 01")
    try bench.receive(.continuation, "0203")
    #expect(bench.frames == ["5:010203", "6:010203"])
    #expect(bench.dropped == 2)
  }

  @Test func refusesAContinuationOfNothing() throws {
    let bench = Bench()
    #expect(throws: WireError(.acl, offset: 0, .invalidValue(1))) {
      try bench.receive(.continuation, "1b0300")
    }
    #expect(bench.dropped == 1)
    try bench.receive(.firstFlushable, "0100 0400 0b")
    #expect(throws: WireError.self) { try bench.receive(.continuation, "00") }
    #expect(bench.frames == ["4:0b"])
  }

  @Test func refusesMoreThanWasAnnounced() throws {
    let bench = Bench()
    let error = WireError(.l2cap, offset: 0, .lengthMismatch(claimed: 7, available: 8))
    #expect(throws: error) { try bench.receive(.firstFlushable, "0300 0400 1b030000") }
    try bench.receive(.firstFlushable, "0300 0400 1b")
    #expect(throws: error) { try bench.receive(.continuation, "030000") }
    #expect(bench.dropped == 2)
    try bench.receive(.firstFlushable, "0100 0400 0b")
    #expect(bench.frames == ["4:0b"])
  }

  @Test func takesTheLongestFrame() throws {
    let bench = Bench()
    let payload = String(repeating: "5a", count: 65_535)
    try bench.receive(.firstFlushable, "ffff 0400" + payload.prefix(60_000))
    try bench.receive(.continuation, String(payload.dropFirst(60_000)))
    #expect(bench.frames == ["4:" + payload])
  }

  @Test func forgetsWithTheLink() throws {
    let bench = Bench()
    try bench.receive(.firstFlushable, "0500 0400 1b03")
    bench.recombiner.reset()
    #expect(throws: WireError.self) { try bench.receive(.continuation, "000000") }
    #expect(bench.frames.isEmpty)
  }
}
