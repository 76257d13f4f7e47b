import BLELinux
import BLEStack
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

@testable import BLEHost

@Suite(.timeLimit(.minutes(1))) struct SubscriptionTests {
  private static func accept(_ pdu: String) -> [String] { pdu.hasPrefix("12") ? ["13"] : [] }

  /// Core 5.4, Vol 3, Part G, 3.3.3.3: 0001 notifies, 0002 indicates, 0000 neither.
  @Test(
    arguments: [
      (.notify, "1204000100"), (.indicate, "1204000200"), ([.notify, .indicate], "1204000100"),
    ] as [(CharacteristicProperties, String)])
  func configures(_ properties: CharacteristicProperties, _ write: String) async throws {
    let link = try await Link.open(Self.accept)
    let subscription = try await link.connection.subscribe(Link.characteristic(3, properties)) { _, _ in }
    try await link.connection.unsubscribe(subscription)
    #expect(link.peer.received.map { hexOf($0) } == [write, "1204000000"])
    await link.close()
  }

  @Test func needsAProperty() async throws {
    let link = try await Link.open(Self.accept)
    #expect(
      await failure { () async throws(GATTError) in
        try await link.connection.subscribe(Link.characteristic(3, .read)) { _, _ in }
      } == .notSupported(AttributeHandle(3), needs: [.notify, .indicate]))
    #expect(link.peer.received.isEmpty)
    await link.close()
  }

  /// The first value may arrive before the response to the write.
  @Test func isInPlaceBeforeTheDeviceHearsOfIt() async throws {
    let values = Values()
    let link = try await Link.open { $0.hasPrefix("12") ? ["1b0300aa", "13"] : [] }
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    #expect(values.all == ["3:aa"])
    await link.close()
  }

  @Test func isTakenBackWhenRefused() async throws {
    let values = Values()
    let link = try await Link.open { $0.hasPrefix("12") ? ["0112040005"] : ["0b01"] }
    #expect(
      await failure { () async throws(GATTError) in
        try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
      } != nil)
    link.send("1b 0300 aa")
    _ = try await link.connection.read(.first)
    #expect(values.all == [])
    #expect(await link.connection.statistics.unclaimed == 1)
    await link.close()
  }

  @Test func tellsTheDeviceWithTheLastListener() async throws {
    let (one, two) = (Values(), Values())
    let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : ["0b01"] }
    let first = try await link.connection.subscribe(Link.characteristic(3)) { one.take($0, $1) }
    let second = try await link.connection.subscribe(Link.characteristic(3)) { two.take($0, $1) }
    link.send("1b 0300 01")
    await two.count.reaches(1)
    try await link.connection.unsubscribe(first)
    #expect(link.peer.received.count == 2, "the other still listens")
    link.send("1b 0300 02")
    link.send("1b 0500 03")
    await two.count.reaches(2)
    try await link.connection.unsubscribe(second)
    #expect(one.all == ["3:01"])
    #expect(two.all == ["3:01", "3:02"])
    #expect(link.peer.received.map { hexOf($0) } == ["1204000100", "1204000100", "1204000000"])
    let statistics = await link.connection.statistics
    #expect(statistics.notifications == 3)
    #expect(statistics.unclaimed == 1)
    await link.close()
  }

  @Test func stampsWithTheKernelsTime() async throws {
    let times = Mutex<[ReceiveTime]>([])
    let count = Counter()
    let link = try await Link.open(Self.accept)
    _ = try await link.connection.subscribe(Link.characteristic(3)) { _, time in
      times.withLock { $0.append(time) }
      count.add()
    }
    let before = SystemClock.now()
    for _ in 0..<10 { link.send("1b 0300 01") }
    let after = SystemClock.now()
    await count.reaches(10)
    let stamps = times.withLock { $0 }
    #expect(stamps == stamps.sorted())
    #expect(before <= stamps[0] && stamps[9] <= after, "the time of sending, not of taking")
    await link.close()
  }
}

/// A little-endian number, for sample channels.
struct Number: NotificationSample {
  let value: Int
  init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    try value.require(4, .att)
    self.value = Int(value.u32(at: 0))
  }
}

@Suite(.timeLimit(.minutes(1))) struct SampleChannelTests {
  private static let time = ReceiveTime(nanoseconds: 1)

  private func take(_ number: Int, into channel: SampleChannel<Number>) {
    let octets = (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    channel.take(octets.span, at: Self.time)
  }

  @Test func givesSamplesInOrderAndEnds() async {
    let channel = SampleChannel<Number>(capacity: 16)
    for number in 0..<10 { take(number, into: channel) }
    channel.finish()
    var taken: [Int] = []
    for await sample in channel { taken.append(sample.value) }
    #expect(taken == Array(0..<10))
    #expect(channel.dropped == 0)
    #expect(await channel.makeAsyncIterator().next() == nil)
  }

  @Test func countsWhatItDrops() async {
    let channel = SampleChannel<Number>(capacity: 4)
    for number in 0..<10 { take(number, into: channel) }
    let bad: [UInt8] = [1]
    channel.take(bad.span, at: Self.time)
    channel.finish()
    var taken: [Int] = []
    for await sample in channel { taken.append(sample.value) }
    #expect(taken == [0, 1, 2, 3])
    #expect(channel.dropped == 6)
    #expect(channel.malformed == 1)
  }

  @Test func wakesAWaitingTask() async {
    let channel = SampleChannel<Number>(capacity: 4)
    let taken = Task { await channel.makeAsyncIterator().next()?.value }
    take(7, into: channel)
    #expect(await taken.value == 7)
  }

  @Test func endsAWaitingTask() async {
    let channel = SampleChannel<Number>(capacity: 4)
    let taken = Task { await channel.makeAsyncIterator().next() == nil }
    channel.finish()
    channel.finish()
    #expect(await taken.value)
  }

  /// Before it waits, while it waits, or in between: each cancelled task returns.
  @Test func endsACancelledTask() async {
    for _ in 0..<500 {
      let channel = SampleChannel<Number>(capacity: 4)
      let started = Counter()
      let task = Task {
        started.add()
        return await channel.makeAsyncIterator().next() == nil
      }
      await started.reaches(1)
      task.cancel()
      #expect(await task.value)
    }
  }

  /// The thread never waits for the task: values taken and values dropped add up to those sent, in order.
  @Test func losesNoWakeUpUnderStress() async throws {
    let count = 300_000
    let channel = SampleChannel<Number>(capacity: 64)
    try SystemThread.start(named: "producer") {
      for number in 1...count { take(number, into: channel) }
      channel.finish()
    }
    var last = 0
    var taken = 0
    for await sample in channel {
      if sample.value <= last { Issue.record("\(sample.value) after \(last)") }
      last = sample.value
      taken += 1
    }
    #expect(taken + channel.dropped == count)
  }

  /// Each sample waits for the task: after one lost wake-up the test would never end.
  @Test func losesNoWakeUpInTurns() async throws {
    let channel = SampleChannel<Number>(capacity: 1)
    let back = SampleQueue<Int>(capacity: 1)
    let wake = try WakeEvent()
    try SystemThread.start(named: "producer") {
      for number in 1...20_000 {
        take(number, into: channel)
        while back.pop() == nil { wake.sleep { back.isEmpty } }
      }
      channel.finish()
    }
    var taken = 0
    for await _ in channel {
      taken += 1
      back.push(1)
      wake.signal()
    }
    #expect(taken == 20_000)
    #expect(channel.dropped == 0)
  }

  @Test func endsWithTheConnection() async throws {
    let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : [] }
    let channel = try await link.connection.samples(
      Link.characteristic(3), as: Number.self, capacity: 16)
    for number in 1...3 { link.send("1b 0300 0" + String(number) + "000000") }
    link.send("1b 0300 01")
    let iterator = channel.makeAsyncIterator()
    for number in 1...3 { #expect(await iterator.next()?.value == number) }
    link.peer.hangUp()
    #expect(await iterator.next() == nil)
    #expect(channel.malformed == 1)
    await link.close()
  }
}

@Suite(.timeLimit(.minutes(1))) struct PacketTapTests {
  private func drain(_ ring: PacketQueue) -> [String] {
    var records: [String] = []
    while ring.pop({ tag, _, _, pdu in
      let (tag, octets) = (PacketTap.Tag(tag), hexOf(pdu.indices.map { pdu[$0] }))
      records.append(
        tag.content == .event ? "!" + octets : (tag.direction == .hostToController ? ">" : "<") + octets)
    }) {}
    return records
  }

  /// LE Connection Complete for handle 0 and peer 00:00:00:00:00:00, with unknown timing. Core 5.4, Vol 4,
  /// Part E, 7.7.65.1.
  private static let start = "!3e13 0100 0000 00 00 000000000000 0000 0000 0000 00".filter { $0 != " " }

  @Test func logsBothDirections() async throws {
    let ring = PacketQueue(byteCount: 1 << 16)
    let link = try await Link.open(tap: PacketTap(ring)) { $0 == "0a0100" ? ["1b030001", "0b05"] : [] }
    _ = try await link.connection.read(.first)
    try await link.connection.send([0x52, 1, 0])
    link.send("")
    link.send("0a 0001")
    _ = await link.peer.received(atLeast: 3)
    await link.connection.close()
    #expect(
      drain(ring) == [Self.start, ">0a0100", "<1b030001", "<0b05", ">520100", "<", "<0a0001", ">010a000101"])
    await link.close()
  }

  /// Role: peripheral (01).
  @Test func tellsALinkThatACentralMade() async throws {
    let ring = PacketQueue(byteCount: 1 << 16)
    let link = try await Link.open(tap: PacketTap(ring)) { _ in [] }
    await link.connection.serve(AttributeResponder { _, _ in [0x0B, 5] })
    link.send("0a 0100")
    _ = await link.peer.received(atLeast: 1)
    await link.connection.close()
    let start = "!3e13 0100 0000 01 00 000000000000 0000 0000 0000 00".filter { $0 != " " }
    #expect(drain(ring) == [start, "<0a0100", ">0b05"])
    await link.close()
  }

  @Test func endsWhenItIsClosed() async throws {
    let ring = PacketQueue(byteCount: 1 << 16)
    let tap = PacketTap(ring)
    let link = try await Link.open(tap: tap) { $0 == "0a0100" ? ["0b05"] : [] }
    _ = try await link.connection.read(.first)
    tap.close()
    _ = try await link.connection.read(.first)
    #expect(drain(ring) == [Self.start, ">0a0100", "<0b05"])
    await link.close()
  }

  @Test func countsWhatFindsNoRoom() async throws {
    let ring = PacketQueue(byteCount: 4096)
    let link = try await Link.open(tap: PacketTap(ring)) { $0 == "0a0100" ? ["0b05"] : [] }
    for _ in 0..<200 { _ = try await link.connection.read(.first) }
    // Including the start of the link.
    #expect(drain(ring).count + ring.dropped == 401)
    #expect(ring.dropped > 0)
    await link.close()
  }

  /// Core 5.4, Vol 4, Part E, 5.4.2: a handle has twelve bits.
  @Test(arguments: [0x0000, 0x0040, 0x0EFF] as [UInt16])
  func tagsComeBack(_ handle: UInt16) {
    for direction in [HCIDirection.hostToController, .controllerToHost] {
      for content in [PacketTap.Content.attribute, .event] {
        let tag = PacketTap.Tag(direction, ConnectionHandle(handle), content)
        #expect(PacketTap.Tag(tag.raw) == tag)
        #expect(tag.raw != .max, "the ring's own mark")
      }
    }
  }
}
