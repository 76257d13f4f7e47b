import BLELinux
import BLEWire
import TestPeer
import Testing

private func copy(_ slab: borrowing ReceiveSlab, _ index: Int) -> [UInt8] {
  let bytes = slab.datagram(index)
  return bytes.indices.map { bytes[$0] }
}

@Suite struct ReceiveSlabTests {
  /// A slab and both ends of a socket. The kernel timestamps each datagram, as on an L2CAP socket.
  private final class Bench {
    var slab: ReceiveSlab
    let ours: FileDescriptor
    var theirs: FileDescriptor?

    init(slots: Int, slotByteCount: Int = 64) throws {
      let pair = try SocketPair()
      slab = try ReceiveSlab(slots: slots, slotByteCount: slotByteCount)
      ours = pair.ours()
      theirs = pair.theirs()
      ours.prepareToReceive()
    }

    func send(_ octets: [UInt8]) throws {
      let count = try theirs?.send(octets.span)
      #expect(count == octets.count)
    }
    func receive() throws -> Int { try slab.receive(from: ours) }
    func datagram(_ index: Int) -> [UInt8] { copy(slab, index) }
    func time(_ index: Int) -> ReceiveTime? { slab.time(index) }
    func isTruncated(_ index: Int) -> Bool { slab.isTruncated(index) }
  }

  @Test func drainsInBatches() throws {
    let bench = try Bench(slots: 4)
    #expect(try bench.receive() == 0, "an empty queue does not block")
    for number in 0..<6 as Range<UInt8> { try bench.send([number, number]) }
    #expect(try bench.receive() == 4)
    #expect((0..<4).map { bench.datagram($0) } == [[0, 0], [1, 1], [2, 2], [3, 3]])
    #expect(try bench.receive() == 2)
    #expect((0..<2).map { bench.datagram($0) } == [[4, 4], [5, 5]])
    #expect(try bench.receive() == 0)
  }

  @Test func stampsWithTheKernelsClock() throws {
    let bench = try Bench(slots: 4)
    let before = SystemClock.now()
    for _ in 0..<3 { try bench.send([1]) }
    let after = SystemClock.now()
    #expect(try bench.receive() == 3)
    let times = try (0..<3).map { try #require(bench.time($0)) }
    #expect(times == times.sorted())
    #expect(before <= times[0] && times[2] <= after)
  }

  @Test func tellsACutDatagram() throws {
    let bench = try Bench(slots: 4, slotByteCount: 8)
    try bench.send(Array(0..<8))
    try bench.send(Array(0..<9))
    try bench.send([7])
    #expect(try bench.receive() == 3)
    #expect((0..<3).map { bench.isTruncated($0) } == [false, true, false])
    #expect(bench.datagram(0) == Array(0..<8))
    #expect(bench.datagram(1) == Array(0..<8))
    #expect(bench.datagram(2) == [7], "the next slot is untouched")
  }

  /// An empty datagram has the kernel's timestamp, and the end of the channel does not, which distinguishes
  /// them.
  @Test func tellsAnEmptyDatagramFromTheEnd() throws {
    let bench = try Bench(slots: 4)
    try bench.send([])
    try bench.send([1])
    #expect(try bench.receive() == 2)
    #expect(bench.datagram(0) == [])
    #expect(bench.time(0) != nil)
    #expect(bench.datagram(1) == [1])
    bench.theirs = nil
    #expect(try bench.receive() > 0)
    #expect(bench.datagram(0) == [])
    #expect(bench.time(0) == nil, "nothing is left of the stamp of the batch before")
  }

  @Test func givesWhatWasSentBeforeTheEnd() throws {
    let bench = try Bench(slots: 4)
    try bench.send([1])
    bench.theirs = nil
    #expect(try bench.receive() >= 1)
    #expect(bench.datagram(0) == [1])
    #expect(bench.time(0) != nil)
  }
}

@Suite struct FileDescriptorTests {
  /// SIGPIPE would end the whole process.
  @Test func aPeerThatIsGoneIsAnError() throws {
    let pair = try SocketPair()
    let ours = pair.ours()
    do { _ = pair.theirs() }
    let pdu: [UInt8] = [1]
    do throws(SystemError) {
      _ = try ours.send(pdu.span)
      Issue.record("the peer is gone")
    } catch { #expect(error.call == "send") }
  }

  @Test func wouldBlockIsAnError() throws {
    let pair = try SocketPair(sendBufferByteCount: 1)
    let ours = pair.ours()
    let theirs = pair.theirs()
    let pdu = [UInt8](repeating: 0, count: 100)
    var sent = 0
    var condition: SystemError.Condition?
    while condition == nil, sent < 10_000 {
      do throws(SystemError) { sent += try ours.send(pdu.span) } catch { condition = error.condition }
    }
    #expect(condition == .wouldBlock)
    let isEmpty = isQuiet(theirs)
    #expect(!isEmpty)
  }
}
