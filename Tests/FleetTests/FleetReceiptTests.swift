import BLELinux
import BLEWire
import Foundation
import TestKit
import Testing

@testable import Fleet

/// How a publisher acts on a collector's receipts, and how it acts without them.
@Suite struct FleetReceiptTests {
  private typealias Bench = FleetLogicTests.Bench

  /// A broker's acknowledgement does not move the cursor: a later run begins after the last receipt.
  @Test func theCursorStaysWhereReceiptsAre() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.exchange()
      for part in 1...3 {
        try bench.record(part * 10..<part * 10 + 10)
        _ = try bench.sendings()
      }
      try bench.publisher.writeCursor()
      #expect(bench.publisher.report.acknowledged == 40 && bench.publisher.report.confirmed == 10)
      #expect(bench.publisher.report.waiting == 30)
      #expect(try PublishCursor.read(in: folder + "/capture")?.tables["ppg"]?.rows == 10)
      // A receipt inside a batch: the batch is sent again.
      let receipt = Receipt(session: bench.session, collector: "c", tables: ["ppg": 25])
      try bench.publisher.receive(receipt.octets.span, bench.now)
      #expect(bench.publisher.report.confirmed == 20 && bench.publisher.cursor.isComplete == false)
      bench.publisher = try Publisher(
        folder + "/capture", prefix: "fleet", name: nil, backlogByteCount: 1 << 30, now: bench.now)
      bench.publisher.connected(bench.now)
      #expect(bench.publisher.report.waiting == 30)
      for _ in 0..<2 { try bench.exchange() }
      #expect(bench.collected == bench.recorded && bench.publisher.report.confirmed == 40)
    }
  }

  /// Without a receipt publishing never completes, however long it waits.
  @Test func silenceIsNoConfirmation() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      bench.publisher.end(bench.now)
      for _ in 0..<60 { _ = try bench.sendings() }
      #expect(!bench.publisher.isDone && bench.publisher.isWaiting(bench.now))
      #expect(!bench.publisher.report.isConfirmed && bench.publisher.report.waiting == 10)
      #expect(bench.publisher.lastProgress.advanced(by: .seconds(50)) < bench.now)
    }
  }

  /// A receipt for an earlier end of the session does not confirm rows that were added since.
  @Test func aReceiptOfAnEarlierEndConfirmsNothing() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      let early = Receipt(session: bench.session, collector: "c", tables: ["ppg": 10], isComplete: true)
      _ = try bench.sendings()
      try bench.publisher.receive(early.octets.span, bench.now)
      #expect(!bench.publisher.report.isConfirmed)
      try bench.record(10..<20)
      bench.publisher.end(bench.now)
      for _ in 0..<3 { _ = try bench.sendings() }
      try bench.publisher.receive(early.octets.span, bench.now)
      #expect(!bench.publisher.report.isConfirmed && !bench.publisher.isDone)
    }
  }

  /// A publisher gives up on a collector that requests the same rows again and again.
  @Test func whoAsksWithoutEndIsLeft() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      bench.publisher.end(bench.now)
      let receipt = Receipt(session: bench.session, collector: "evil", tables: ["ppg": 0], resend: ["ppg"])
      let begun = bench.now
      for _ in 0..<60 {
        _ = try bench.sendings()
        try bench.publisher.receive(receipt.octets.span, bench.now)
      }
      #expect(bench.publisher.report.resent > 50)
      #expect(bench.publisher.lastProgress <= begun.advanced(by: .seconds(20)))
    }
  }
}
