import BLELinux
import BLEStack
import BLEWire
import Glibc
import TestKit
import TestPeer
import Testing

import BLEHost

/// A kernel that does not report everything about received packets: only the missing information is lost.
@Suite(.timeLimit(.minutes(1))) struct UntoldFactsTests {
  @Test func takesTheTimeOfArrival() async throws {
    let values = Values()
    let link = try await Link.open(lacking: [SO_TIMESTAMPNS, SO_RXQ_OVFL])
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    let before = SystemClock.now()
    for number in 1...5 { link.send("1b 0300 0\(number)") }
    await values.count.reaches(5)
    let after = SystemClock.now()
    #expect(values.all == ["3:01", "3:02", "3:03", "3:04", "3:05"])
    #expect(values.times == values.times.sorted())
    #expect(values.times.allSatisfy { before <= $0 && $0 <= after })
    let statistics = await link.connection.statistics
    // Including the response to the subscription.
    #expect(statistics.received == 6 && statistics.withoutKernelStamp == 6)
    await link.close()
  }

  /// Without a timestamp an empty datagram looks like the end.
  @Test func tellsAnEmptyDatagramFromTheEnd() async throws {
    let values = Values()
    let link = try await Link.open(lacking: [SO_TIMESTAMPNS])
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    link.send("")
    link.send("1b 0300 01")
    await values.count.reaches(1)
    #expect(await link.connection.statistics.malformed == 1)
    #expect(await link.connection.end == nil)
    link.peer.hangUp()
    #expect(await link.connection.ended() == .linkLost(.unknown))
    await link.close()
  }

  /// An empty datagram among the last PDUs is not the end either.
  @Test func deliversWhatCameBeforeTheEnd() async throws {
    let values = Values()
    let link = try await Link.open(lacking: [SO_TIMESTAMPNS])
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    let gate = Gate()
    let holder = Task { await link.connection.hold(at: gate) }
    await gate.waitForSomebody()
    for octets in ["1b 0300 01", "", "1b 0300 02"] { link.send(octets) }
    link.peer.hangUp()
    gate.open()
    await holder.value
    #expect(await link.connection.ended() == .linkLost(.unknown))
    #expect(values.all == ["3:01", "3:02"])
    await link.close()
  }

  /// With SO_MEMINFO, otherwise with SO_RXQ_OVFL: received and dropped packets add up to those sent.
  @Test(arguments: [[], [SO_MEMINFO], [SO_RXQ_OVFL]])
  func countsWhatAFullQueueDropped(_ lacking: [CInt]) async throws {
    let values = Values()
    let link = try await Link.open(lacking: lacking, isLossy: true)
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    // It has no subscriber.
    let flood = octetsOf("1b 0900 00")
    var sent = try await overflow(link, by: flood)
    // The kernel may not have room again until after this is sent.
    try await eventually("something comes after what was dropped") {
      link.send("1b 0300 01")
      sent += 1
      return values.count.value > 0
    }
    try await eventually("received and dropped are what was sent") {
      let statistics = await link.connection.statistics
      return statistics.notifications + statistics.kernelQueueDrops == sent
    }
    #expect(await link.connection.statistics.kernelQueueDrops > 0)
    await link.close()
  }

  /// Without either of them the stream continues.
  @Test func receivesWithoutCountsOfDrops() async throws {
    let values = Values()
    let link = try await Link.open(lacking: [SO_MEMINFO, SO_RXQ_OVFL], isLossy: true)
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    let sent = try await overflow(link, by: octetsOf("1b 0900 00"))
    try await eventually("something comes after what was dropped") {
      link.send("1b 0300 01")
      return values.count.value > 0
    }
    let statistics = await link.connection.statistics
    #expect(statistics.kernelQueueDrops == 0)
    #expect(statistics.notifications > 1 && statistics.unclaimed < sent)
    await link.close()
  }

  /// Sends more than a connection's queue holds, which is 8 MiB of kernel memory at 768 bytes and more for
  /// each.
  ///
  /// - Returns: number of PDUs sent.
  private func overflow(_ link: Link, by pdu: [UInt8]) async throws -> Int {
    let gate = Gate()
    let holder = Task { await link.connection.hold(at: gate) }
    await gate.waitForSomebody()
    let count = 20_000
    for _ in 0..<count { link.peer.send(pdu) }
    gate.open()
    await holder.value
    return count
  }
}
