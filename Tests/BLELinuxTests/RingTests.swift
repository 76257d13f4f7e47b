import BLELinux
import BLEWire
import Glibc
import Synchronization
import TestPeer
import Testing

/// State shared by the two threads of a stress test.
private final class Tally: Sendable {
  let isOver = Atomic<Bool>(false)
  let popped = Atomic<Int>(0)
  let faults = Atomic<Int>(0)
  let last = Atomic<Int>(0)
  let done = Counter()

  /// Runs both and waits: `consume` until the producer has ended and nothing is left.
  func run(_ produce: @escaping @Sendable () -> Void, _ consume: @escaping @Sendable () -> Void) async throws
  {
    try SystemThread.start(named: "producer") { [self] in
      produce()
      isOver.store(true, ordering: .releasing)
      done.add()
    }
    try SystemThread.start(named: "consumer") { [self] in
      while true {
        let isLast = isOver.load(ordering: .acquiring)
        consume()
        if isLast { break }
        sched_yield()
      }
      done.add()
    }
    await done.reaches(2)
  }
}

@Suite(.timeLimit(.minutes(2))) struct SampleQueueTests {
  @Test(arguments: [(1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
  func hasAPowerOfTwo(_ asked: Int, _ capacity: Int) {
    #expect(SampleQueue<Int>(capacity: asked).capacity == capacity)
  }

  /// Every fill level at every position.
  @Test func keepsOrderAcrossTheEnd() {
    let ring = SampleQueue<Int>(capacity: 4)
    var next = 0
    var expected = 0
    for count in [1, 2, 3, 4, 3, 2, 1, 4, 4, 1] {
      for _ in 0..<count {
        #expect(ring.push(next))
        next += 1
      }
      #expect(!ring.isEmpty)
      for _ in 0..<count {
        #expect(ring.pop() == expected)
        expected += 1
      }
      #expect(ring.isEmpty)
      #expect(ring.pop() == nil)
    }
    #expect(ring.dropped == 0)
  }

  @Test func dropsTheNewestWhenFull() {
    let ring = SampleQueue<Int>(capacity: 4)
    let taken = (0..<10).map { ring.push($0) }
    #expect(taken == [true, true, true, true] + Array(repeating: false, count: 6))
    #expect(ring.dropped == 6)
    #expect((0..<4).map { _ in ring.pop() } == [0, 1, 2, 3])
    #expect(ring.pop() == nil)
    #expect(ring.push(10))
    #expect(ring.pop() == 10)
  }

  /// An empty queue restarts at the beginning of its storage and has its full capacity again, even if the
  /// consumer is slow.
  @Test(arguments: 0..<40) func hasAllItsPlacesWhereverItBegins(_ before: Int) {
    let ring = SampleQueue<Int>(capacity: 16)
    for number in 0..<before {
      #expect(ring.push(number))
      #expect(ring.pop() == number)
    }
    for number in 0..<16 {
      #expect(ring.count == number)
      #expect(ring.isHalfFull == (number > 8))
      #expect(ring.push(number))
    }
    #expect(!ring.push(16))
    for number in 0..<16 { #expect(ring.pop() == number) }
    #expect(ring.pop() == nil && ring.isEmpty && ring.dropped == 1)
  }

  /// Popped and refused elements add up to those pushed, and the order is kept.
  @Test func losesNothingBetweenTwoThreads() async throws {
    let count = 1_000_000
    let ring = SampleQueue<Int>(capacity: 256)
    let tally = Tally()
    try await tally.run {
      for number in 1...count { ring.push(number) }
    } _: {
      while let number = ring.pop() {
        if number <= tally.last.exchange(number, ordering: .relaxed) {
          tally.faults.add(1, ordering: .relaxed)
        }
        tally.popped.add(1, ordering: .relaxed)
      }
    }
    #expect(tally.faults.load(ordering: .relaxed) == 0)
    #expect(tally.popped.load(ordering: .relaxed) + ring.dropped == count)
    #expect(ring.isEmpty)
  }
}

@Suite(.timeLimit(.minutes(2))) struct PacketQueueTests {
  private func push(_ ring: PacketQueue, _ number: Int, _ count: Int) -> Bool {
    let record = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: count)
    return ring.push(tag: UInt32(number), time: ReceiveTime(nanoseconds: Int64(number) * 7), record.span)
  }

  /// Number and length of the front record, checked against each other.
  private func pop(_ ring: PacketQueue) -> (number: Int, count: Int, dropped: Int)? {
    var found: (Int, Int, Int)?
    let isThere = ring.pop { tag, time, dropped, record in
      #expect(time.nanoseconds == Int64(tag) * 7)
      #expect(record.indices.allSatisfy { record[$0] == UInt8(truncatingIfNeeded: tag) })
      found = (Int(tag), record.count, dropped)
    }
    #expect(isThere == (found != nil))
    return found.map { (number: $0.0, count: $0.1, dropped: $0.2) }
  }

  /// Lengths that meet the end of the storage in every way: exactly, a header short, a filler, one byte over.
  @Test func keepsRecordsAcrossTheEnd() {
    let ring = PacketQueue(byteCount: 4096)
    for (number, count) in (0..<5_000).map({ ($0, ($0 * 37) % 521) }) {
      #expect(push(ring, number, count))
      #expect(!ring.isEmpty)
      let found = pop(ring)
      #expect(found?.number == number)
      #expect(found?.count == count)
      #expect(ring.isEmpty)
    }
    #expect(ring.dropped == 0)
  }

  /// Likewise with other records before them, so that none finds the queue empty.
  @Test(arguments: 1...3) func keepsRecordsAcrossTheEndBehindOthers(_ others: Int) {
    let ring = PacketQueue(byteCount: 4096)
    for number in 0..<5_000 {
      #expect(push(ring, number, (number * 37) % 521))
      if number >= others { #expect(pop(ring)?.number == number - others) }
    }
    #expect(ring.dropped == 0)
  }

  /// An empty queue restarts at the beginning of its storage and holds as much as a new one: 128 records of
  /// 24 and 8 bytes.
  @Test(arguments: 0..<200) func holdsAsMuchWhereverItBegins(_ before: Int) {
    let ring = PacketQueue(byteCount: 4096)
    for number in 0..<before {
      #expect(ring.hasRoom(for: 8) && push(ring, number, 8))
      #expect(pop(ring)?.number == number)
    }
    let first = (0..<128).filter { _ in
      let hasRoom = ring.hasRoom(for: 8)
      #expect(push(ring, before, 8) == hasRoom)
      return hasRoom
    }
    #expect(first.count == 128 && ring.isHalfFull)
    #expect(!ring.hasRoom(for: 0) && !push(ring, 0, 0))
    for _ in first { #expect(pop(ring)?.number == before) }
    #expect(ring.isEmpty && pop(ring) == nil)
  }

  /// A sixteenth of the storage becomes resident if the consumer keeps up.
  @Test func leavesItsStorageAlone() throws {
    let ring = PacketQueue(byteCount: 256 << 20)
    let record = [UInt8](repeating: 1, count: 1 << 16)
    let before = try residentByteCount()
    var passed = 0
    for _ in 0..<8_000 {
      ring.push(tag: 0, time: ReceiveTime(nanoseconds: 0), record.span)
      if ring.pop({ _, _, _, _ in }) { passed += 1 }
    }
    #expect(passed == 8_000)
    #expect(try residentByteCount() - before < 64 << 20)
  }

  private func residentByteCount() throws -> Int {
    let text = try #require(Files.text(at: "/proc/self/statm"))
    return try #require(Int(text.split(separator: " ")[1])) * sysconf(Int32(_SC_PAGESIZE))
  }

  @Test func takesEmptyRecords() {
    let ring = PacketQueue(byteCount: 4096)
    #expect(push(ring, 1, 0))
    #expect(pop(ring)?.count == 0)
    #expect(pop(ring) == nil)
  }

  /// 24 bytes of header and 8 of record: 128 of them fill 4,096 bytes.
  @Test func dropsTheNewestWhenFull() {
    let ring = PacketQueue(byteCount: 4096)
    for number in 0..<128 { #expect(push(ring, number, 8)) }
    #expect(!push(ring, 128, 0))
    #expect(!push(ring, 129, 8))
    #expect(ring.dropped == 2)
    #expect(pop(ring)?.number == 0)
    #expect(push(ring, 130, 8))
    for number in 1..<128 { #expect(pop(ring)?.number == number) }
    let last = pop(ring)
    #expect(last?.number == 130)
    #expect(last?.dropped == 2)
    #expect(ring.isEmpty)
  }

  @Test func refusesWhatNeverFits() {
    let ring = PacketQueue(byteCount: 4096)
    #expect(!push(ring, 1, 4097))
    #expect(ring.dropped == 1)
    #expect(push(ring, 2, 4096 - 24))
    #expect(pop(ring)?.dropped == 1)
  }

  /// Each record states how many were lost before it, so number = taken + lost at every record, and contents
  /// are intact.
  @Test func countsEveryLossBetweenTwoThreads() async throws {
    let count = 1_000_000
    let ring = PacketQueue(byteCount: 8192)
    let tally = Tally()
    try await tally.run {
      let octets = [UInt8](repeating: 0x5A, count: 64)
      for number in 0..<count {
        ring.push(
          tag: UInt32(number), time: ReceiveTime(nanoseconds: Int64(number)),
          octets.span.extracting(first: number & 63))
      }
    } _: {
      while ring.pop({ tag, time, dropped, record in
        let taken = tally.popped.add(1, ordering: .relaxed).oldValue
        let isWhole =
          Int(tag) == taken + dropped && time.nanoseconds == Int64(tag) && record.count == Int(tag) & 63
          && (record.isEmpty || record[record.count - 1] == 0x5A)
        if !isWhole { tally.faults.add(1, ordering: .relaxed) }
      }) {}
    }
    #expect(tally.faults.load(ordering: .relaxed) == 0)
    #expect(tally.popped.load(ordering: .relaxed) + ring.dropped == count)
  }
}

@Suite(.timeLimit(.minutes(2))) struct WakeEventTests {
  /// Two threads pass one number back and forth, each asleep during the other's turn: after one lost wake-up
  /// both would sleep without end.
  @Test func losesNoWakeUp() async throws {
    let turns = 50_000
    let (there, back) = (SampleQueue<Int>(capacity: 1), SampleQueue<Int>(capacity: 1))
    let (thereWake, backWake) = (try WakeEvent(), try WakeEvent())
    let done = Counter()
    try SystemThread.start(named: "ping") {
      for turn in 0..<turns {
        there.push(turn)
        thereWake.signal()
        while back.pop() == nil { backWake.sleep { back.isEmpty } }
      }
      done.add()
    }
    try SystemThread.start(named: "pong") {
      for _ in 0..<turns {
        while there.pop() == nil { thereWake.sleep { there.isEmpty } }
        back.push(1)
        backWake.signal()
      }
      done.add()
    }
    await done.reaches(2)
    #expect(there.isEmpty && back.isEmpty)
  }

  /// Work that is published right after the check is signalled before the sleep: the signal must end the
  /// sleep.
  @Test func hearsASignalBetweenLookAndSleep() throws {
    let wake = try WakeEvent()
    for _ in 0..<3 {
      wake.sleep {
        wake.signal()
        return true
      }
    }
  }

  /// A pause continues through signals until one of them is urgent.
  @Test func pausesUntilItIsUrgent() async throws {
    let (asked, over) = (Counter(), Counter())
    let urgency = Urgency(asked)
    let wake = try WakeEvent { urgency.isUrgent }
    try SystemThread.start(named: "writer") {
      wake.pause(milliseconds: 1 << 30)
      over.add()
    }
    // It has checked before it pauses.
    await asked.reaches(1)
    while asked.value < 10 { wake.signal() }
    #expect(over.value == 0)
    urgency.set()
    wake.signal()
    await over.reaches(1)
  }

  private final class Urgency: Sendable {
    private let flag = Atomic<Bool>(false)
    let asked: Counter

    init(_ asked: Counter) { self.asked = asked }

    func set() { flag.store(true, ordering: .sequentiallyConsistent) }

    var isUrgent: Bool {
      asked.add()
      return flag.load(ordering: .sequentiallyConsistent)
    }
  }

  @Test func doesNotSleepOnWorkThatIsThere() throws {
    let wake = try WakeEvent()
    wake.sleep { false }
    wake.signal()
    wake.sleep { false }
  }
}
