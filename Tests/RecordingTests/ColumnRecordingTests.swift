import BLEHost
import BLELinux
import BLEWire
import CTestSystem
import Foundation
import CaptureKit
import TestKit
import TestPeer
import Testing

@testable import CaptureTools
@testable import Recording

/// Array recordings, opened with NumPy: complete ones, and ones cut short by a full disk or a signal.
@Suite(.timeLimit(.minutes(2)))
struct ColumnRecordingTests {
  private func record(_ format: TableFormat, in folder: String) async throws -> Recorder.Outcome {
    try Files.createDirectory(folder)
    let sink = RingSink()
    let recorder = try await Recorder.start(in: folder, sink, as: format, packets: nil)
    for number in 0..<2_000 as Range<Int64> {
      for (place, frame) in RingFrames.tick.enumerated() {
        // A frame of each kind is lost from time to time.
        guard (number + Int64(place)) % 97 != 0 else { continue }
        sink.take(frame, at: 1_700_000_000_000_000_000 + number * 20_000_000 + Int64(place) * 1_000_000)
      }
      recorder.wake.signal()
    }
    return await recorder.finish()
  }

  /// The same frames give the same tables.
  @Test func holdsWhatTheTextHolds() async throws {
    try await withFolder { folder in
      let text = try await record(.csv, in: folder + "/text")
      let arrays = try await record(.npy, in: folder + "/arrays")
      #expect(arrays.rows == text.rows && arrays.rows[..<3].allSatisfy { $0 > 1_900 })
      let read = try await Readers.run("arrays", folder + "/text", folder + "/arrays")
      let rows = try #require(read["rows"] as? [String: Int])
      #expect(["accelerometer", "ppg", "spo2", "samples"].map { rows[$0] } == text.rows.map { $0 })
      #expect(!Files.exists(folder + "/arrays/ppg.csv"))
    }
  }

  /// A file size limit stands for a disk that becomes full. All columns are cut to the length of the one with
  /// the widest type.
  @Test func keepsWholeRowsOnAFullDisk() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      var limit = rlimit(rlim_cur: 20_000, rlim_max: 20_000)
      #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
      try await withFolder { folder in
        let sink = RingSink()
        let recorder = try await Recorder.start(in: folder, sink, as: .npy, packets: nil)
        let failed = Counter()
        recorder.onFailure { failed.add() }
        for number in 1...4_000 as ClosedRange<Int64> {
          sink.take(RingFrames.frame("raw-ppg-ei-1"), at: 1_700_000_000_000_000_000 + number)
        }
        recorder.wake.signal()
        await failed.reaches(1)
        sink.take(RingFrames.frame("raw-spo2-ei-1"))
        let outcome = await recorder.finish()
        #expect(outcome.failure?.number == EFBIG)
        // Eight-byte timestamps after a header of one page.
        let rows = (20_000 - 4096) / 8
        #expect(outcome.rows[..<3] == [0, rows, 0])
        #expect(outcome.lostSamples == 4_001 - rows)
        for (name, byteCount) in [("time_ns", 8), ("ppg_counts", 4), ("led_diff_counts", 2)] {
          #expect(contents(folder + "/ppg/\(name).npy").count == 4096 + rows * byteCount)
        }
        let read = try await Readers.run("open", folder)
        #expect((read["rows"] as? [String: Int])?["ppg"] == rows)
        #expect(failed.value == 1, "once")
      }
    }
  }

  @Test func tellsAFullDiskAtTheStart() async {
    await #expect(processExitsWith: .success) {
      try await withFolder { folder in
        test_fill("/ppg/led_max_counts.npy")
        defer { test_fill("") }
        do throws(SystemError) {
          _ = try await Recorder.start(in: folder, RingSink(), as: .npy, packets: nil)
          Issue.record("the disk is full")
        } catch { #expect(error.number == ENOSPC) }
      }
    }
  }

  /// Number of rows that the header of a table's first column claims.
  private static func claimed(_ directory: String) -> Int {
    let text = String(decoding: contents(directory + "/ppg/time_ns.npy").prefix(128), as: UTF8.self)
    guard let shape = text.range(of: "'shape': (") else { return 0 }
    return Int(text[shape.upperBound...].prefix(while: \.isNumber)) ?? 0
  }

  /// The process is killed with SIGKILL at various moments: every array opens, and no row is lost that a
  /// header had claimed.
  @Test(arguments: 1...8)
  func opensAfterASuddenEnd(_ round: Int) async throws {
    try await withFolder { folder in
      let directory = folder + "/capture"
      let program = try Program(
        Place.ringtap,
        [
          "capture", "--transport", "virtual:ring,rate=2000", "--format", "npy", "--output", directory,
          "--duration", "600",
        ], input: .nothing)
      let wanted = round * 83
      let claimed = await withCheckedContinuation { (ended: CheckedContinuation<Int, Never>) in
        Thread.detachNewThread {
          // Alternates: kills as soon as a header claims rows, or as soon as the last column has them but
          // before they are claimed.
          let column = directory + "/ppg/led_diff_counts.npy"
          var (claimed, written) = (0, 0)
          while (round.isMultiple(of: 2) ? written : claimed) < wanted, !program.hasEnded {
            // The watched process needs processor time, too.
            _ = poll(nil, 0, 1)
            claimed = Self.claimed(directory)
            written = (contents(column).count - 4096) / 2
          }
          program.send(SIGKILL)
          ended.resume(returning: claimed)
        }
      }
      #expect(try await program.finish().status == 128 + SIGKILL)
      let read = try await Readers.run("open", directory)
      #expect(read["complete"] as? Bool == false)
      let rows = try #require((read["rows"] as? [String: Int])?["ppg"])
      #expect(rows >= claimed)
      let report = try CaptureConversion.run(directory, to: .csv, output: folder + "/text") { _ in }
      #expect(report.problems.isEmpty)
      #expect(report.tables.first { $0.name == "ppg" }?.rows == rows)
    }
  }
}
