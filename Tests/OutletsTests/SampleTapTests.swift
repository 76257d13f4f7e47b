import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import SensorSessions
import Synchronization
import CaptureKit
import TestKit
import Testing

@testable import Outlets
@testable import Recording

/// An output that records what it receives.
final class Remembering: SampleOutput {
  enum Item: Equatable, Sendable {
    case table(SampleTable)
    case row([UInt64], of: Int)
    case lost, back
    case end(String, rows: Int, lost: Int)
    case turn
  }

  private let list = Mutex<[Item]>([])
  private let turns = Mutex<[ContinuousClock.Instant]>([])
  let gatherMilliseconds: Int?

  init(gatherMilliseconds: Int? = nil) { self.gatherMilliseconds = gatherMilliseconds }

  var items: [Item] { list.withLock { $0 } }

  /// End times of the turns that brought rows.
  var busyTurns: [ContinuousClock.Instant] { turns.withLock { $0 } }

  func open(_ table: SampleTable) { list.withLock { $0.append(.table(table)) } }
  func take(_ cells: [UInt64], of table: Int) { list.withLock { $0.append(.row(cells, of: table)) } }
  func take(_ event: SampleEvent) {
    let item: Item =
      switch event {
      case .lost: .lost
      case .back: .back
      case .end(let reason, let rows, let lost): .end(reason, rows: rows, lost: lost)
      }
    list.withLock { $0.append(item) }
  }
  func endTurn() {
    let isBusy = list.withLock { list in
      defer { list.append(.turn) }
      if case .row = list.last { return true } else { return false }
    }
    if isBusy { turns.withLock { $0.append(.now) } }
  }
}

@Suite struct SampleTapTests {
  private static let columns: [RecordedColumn] = [.time("time_ns"), RecordedColumn("bpm", .uint16)]
  private static let gap = SessionGap(end: .linkLost(.silence), lostAt: ReceiveTime(nanoseconds: 5))

  private func row(_ number: UInt64) -> WordCells { WordCells(columns: Self.columns, words: [number, 60]) }

  /// A link is lost while rows wait: the gap is reported after them, in the turn that begins next.
  @Test func tellsGapsBehindTheRowsFromBefore() {
    let output = Remembering()
    let tap = SampleTap(into: [output])
    tap.open([RecordedTable(name: "a", columns: Self.columns), RecordedTable(name: "b", columns: [])])
    tap.beginTurn()
    tap.take(row(1), 0)
    tap.take(Self.gap, .lost)
    tap.take(row(2), 0)
    tap.endTurn()
    tap.beginTurn()
    tap.open(1, with: Self.columns)
    tap.take(row(3), 1)
    tap.endTurn()
    tap.take(Self.gap, .back)
    tap.end("interrupted", lost: 7)
    #expect(
      output.items == [
        .table(SampleTable(number: 0, name: "a", columns: Self.columns)), .row([1, 60], of: 0),
        .row([2, 60], of: 0), .turn, .table(SampleTable(number: 1, name: "b", columns: Self.columns)),
        .row([3, 60], of: 1), .lost, .turn, .back, .end("interrupted", rows: 3, lost: 7), .turn,
      ])
  }

  /// An output can ask for samples sooner than the default of a quarter of a second between turns.
  @Test func aHurriedOutputGetsSamplesSoon() async throws {
    try await withFolder { folder in
      let output = Remembering(gatherMilliseconds: 20)
      let sink = RingSink()
      let recorder = try await Recorder.start(
        in: folder, sink.samples, RingTables(), packets: nil, pace: .free, live: SampleTap(into: [output]))
      var number: Int64 = 0
      try await eventually("20 turns with samples") {
        number += 1
        for frame in RingFrames.tick { sink.take(frame, at: number * 40_000_000) }
        recorder.wake.signal()
        return output.busyTurns.count >= 20
      }
      let turns = output.busyTurns
      let shortest = try #require(zip(turns, turns.dropFirst()).map { $1 - $0 }.min())
      #expect(shortest < .milliseconds(200))
      let outcome = await recorder.finish()
      #expect(outcome.rows.allSatisfy { $0 == Int(number) })
    }
  }

  /// Without watchers there is no cost, a single one is called directly, and of several the shortest delay
  /// applies.
  @Test func severalMayWatch() {
    #expect(RecordingWatchers.of([]) == nil)
    let (patient, hurried) = (Remembering(), Remembering(gatherMilliseconds: 20))
    let taps = [patient, hurried].map { SampleTap(into: [$0]) }
    #expect(RecordingWatchers.of([taps[0]]) === taps[0])
    #expect(taps[0].gatherMilliseconds == nil)
    let both = RecordingWatchers.of(taps)
    #expect(both?.gatherMilliseconds == 20)
    both?.open([RecordedTable(name: "a", columns: Self.columns)])
    both?.beginTurn()
    both?.take(row(1), 0)
    both?.take(Self.gap, .lost)
    both?.endTurn()
    both?.end("over", lost: 0)
    #expect(patient.items == hurried.items && patient.items.count == 6)
  }
}
