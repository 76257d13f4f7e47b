import BLECore
import BLESensors
import BLESystem
import CMallocCounter
import Foundation
import Testing

@testable import RingTap

/// Rows into files, without a single allocation once everything is made.
@Suite(.serialized, .enabled(if: malloc_counter_counts(), "the sanitizer has an allocator of its own"))
struct RecordingAllocationTests {
  @Test(arguments: TableFormat.allCases) func allocatesNothingPerRow(_ format: TableFormat) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
    try Files.createDirectory(folder)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let tables = RingTables()
    var files = try RecordingFiles(in: folder, tables.tables, as: format, log: nil)
    let samples: [RingRawSample] = [
      .spO2(SpO2RawSample(value: 160, max: 194, min: 114, diff: 149)),
      .ppg(PPGRawSample(value: 10_625, max: 10_957, min: 10_689, diff: 268)),
      .accelerometer(AccelerometerSample(x: 372, y: -291, z: 189)),
    ]
    var rows = tables
    var before: UInt64 = 0
    for tick in 0..<24_000 {
      if tick == 12_000 { before = malloc_counter_calls() }
      for sample in samples {
        let time = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000 + Int64(tick) * 20_000_000)
        rows.append(StampedSample(time: time, sample: sample), to: &files)
      }
      if tick % 100 == 0 {
        files.flush()
        files.sync()
      }
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0)
    files.flush()
    let written = files.outcome.rows
    #expect(written[..<3] == [24_000, 24_000, 24_000] && written[3] > 23_000)
  }
}
