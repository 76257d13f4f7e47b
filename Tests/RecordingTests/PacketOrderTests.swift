import BLEWire
import Testing

@testable import Recording

/// Packets in the order in which a receive thread delivers them, and in the order of the log.
@Suite struct PacketOrderTests {
  private struct Written: Equatable {
    var milliseconds: Int
    var dropped = 0
    var octets: [UInt8] = []
  }

  private func take(_ order: PacketOrder, _ milliseconds: Int, dropped: Int = 0, _ octets: [UInt8] = []) {
    order.take(
      7, ReceiveTime(nanoseconds: Int64(milliseconds) * 1_000_000), dropped: dropped, octets.span)
  }

  private func write(_ order: PacketOrder, _ occasion: PacketOrder.Occasion) -> [Written] {
    var all: [Written] = []
    order.write(occasion) { tag, time, dropped, record in
      #expect(tag == 7)
      all.append(
        Written(
          milliseconds: Int(time.nanoseconds / 1_000_000), dropped: dropped,
          octets: record.indices.map { record[$0] }))
    }
    return all
  }

  /// A packet sent at 30 is logged before a notification that waited in its socket since 20.
  @Test func putsWhatWaitedInItsSocketFirst() {
    let order = PacketOrder()
    take(order, 10, [1])
    take(order, 30, [3, 3])
    take(order, 20, [])
    take(order, 30, [4])
    #expect(
      write(order, .end) == [
        Written(milliseconds: 10, octets: [1]), Written(milliseconds: 20),
        Written(milliseconds: 30, octets: [3, 3]), Written(milliseconds: 30, octets: [4]),
      ])
    #expect(order.isEmpty && write(order, .end).isEmpty)
  }

  /// Packets a tenth of a second older than the latest are written at the end of a turn, the others a turn
  /// later.
  @Test func waitsForOneTurn() {
    let order = PacketOrder()
    for time in [1_000, 1_050, 1_149, 1_150] { take(order, time) }
    #expect(write(order, .turn).map(\.milliseconds) == [1_000, 1_050])
    take(order, 1_140)
    take(order, 1_160)
    #expect(write(order, .turn).map(\.milliseconds) == [1_140, 1_149, 1_150])
    #expect(write(order, .turn).map(\.milliseconds) == [1_160])
    #expect(order.isEmpty)
  }

  /// The first packet that a queue dropped is placed among the others by arrival, and drop counts never
  /// decrease within a file.
  @Test func countsDropsInTheOrderOfTheFile() {
    let order = PacketOrder()
    take(order, 10, dropped: 0)
    take(order, 30, dropped: 2)
    take(order, 20, dropped: 5)
    #expect(
      write(order, .end) == [
        Written(milliseconds: 10, dropped: 0), Written(milliseconds: 20, dropped: 2),
        Written(milliseconds: 30, dropped: 5),
      ])
  }

  /// A time half a minute back means that the clock was set: earlier packets stay before later ones.
  @Test func leavesAClockThatWasSetAlone() {
    let order = PacketOrder()
    for time in [60_000, 60_010, 30_000, 30_020, 30_010] { take(order, time) }
    #expect(write(order, .end).map(\.milliseconds) == [60_000, 60_010, 30_000, 30_010, 30_020])
    take(order, Int(Int64.min / 1_000_000))
    take(order, Int(Int64.max / 1_000_000))
    take(order, Int(Int64.min / 1_000_000))
    #expect(write(order, .end).count == 3)
  }

  /// When the buffer is full, the earlier half of the packets is written with its bytes; nothing is lost.
  @Test(arguments: [(0, 10_000), (400, 2_000), (60_000, 40)] as [(Int, Int)])
  func makesRoom(_ byteCount: Int, _ count: Int) {
    let order = PacketOrder()
    var all: [Written] = []
    for number in 0..<count {
      if !order.hasRoom { all += write(order, .need) }
      #expect(order.hasRoom)
      take(order, number ^ 1, [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: byteCount))
    }
    all += write(order, .end)
    #expect(all.map(\.milliseconds) == Array(0..<count))
    for written in all {
      let octet = UInt8(truncatingIfNeeded: written.milliseconds ^ 1)
      guard written.octets.count != byteCount || written.octets.contains(where: { $0 != octet }) else {
        continue
      }
      Issue.record("\(written)")
    }
  }
}
