import BLELinux
import Foundation
import TestKit
import Testing

@testable import CaptureTools

/// Gaps, losses and dropouts in a report, and their counts.
@Suite struct ReportGapTests {
  private func document(_ path: String) throws -> ReportDocument {
    try ReportDocument.read(path, title: nil) { _ in }
  }

  private func write(_ text: String, _ path: String) throws {
    try text.write(toFile: path, atomically: false, encoding: .utf8)
  }

  /// Each place has one word, and the sums are those of the list. Ticks that were due during a gap count as
  /// part of the gap.
  @Test func gapsAndLosses() throws {
    let start: Int64 = 1_700_000_000_000_000_000
    func mark(_ from: Int64, _ to: Int64, _ kind: ReportSection.Mark.Kind, ticks: Int? = nil)
      -> ReportSection.Mark
    {
      ReportSection.Mark(
        from: start + from * 1_000_000_000, to: start + to * 1_000_000_000, kind: kind, text: "\(kind)",
        loss: ticks.map { ReportSection.Loss(count: $0, unit: .tick) })
    }
    var section = ReportSection(title: "ring")
    (section.begins, section.ends) = (start, start + 60_000_000_000)
    section.marks = [
      mark(10, 12, .gap), mark(10, 12, .loss, ticks: 48), mark(20, 21, .loss, ticks: 26),
      mark(30, 40, .pause),
      mark(45, 50, .gap), mark(55, 55, .event),
    ]
    section.unmarkedLosses = [ReportSection.Loss(count: 7, unit: .notification)]
    section.joinLossesToGaps()
    #expect(section.marks.map(\.kind) == [.gap, .loss, .pause, .gap, .event])
    #expect(section.marks[0].text == "gap; 48 ticks never came")
    #expect(
      section.summary == [
        ReportSection.Figure(
          name: "Duration", value: "60.0 s", detail: "from 2023-11-14 22:13:20.000 UTC"),
        ReportSection.Figure(
          name: "Lost", value: "26 ticks, 7 notifications", detail: "at 1 place", isBad: true),
        ReportSection.Figure(name: "Gaps", value: "2", detail: "7.0 s without data", isBad: true),
      ])
    var document = ReportDocument(title: "ring")
    document.sections = [section]
    #expect(document.missingText == "2 gaps, 26 ticks, 7 notifications lost")
    document.sections[0].unmarkedGaps = 3
    #expect(document.missingText.hasPrefix("5 gaps"))
    #expect(document.sections[0].summary.last?.detail == "7.0 s without data, of 2 that are listed")
  }

  /// A log has no gaps of its own: its gaps are those of its links, widened, so that they agree with the
  /// recording's.
  @Test func gapsOfALog() async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      let run = try await Ringtap.run([
        "capture", "--transport", "virtual:ring,disconnect-after=300", "--count", "700", "--output", capture,
      ])
      try #require(run.status == 0, "\(run.errorLines)")
      let recorded = try document(capture)
      let logged = try document(capture + "/packets.btsnoop")
      #expect(recorded.missingText == "2 gaps, nothing lost")
      #expect(logged.missingText == recorded.missingText)
      try Files.remove(capture + "/session.json")
      // The packet log shows the links, but not the recorder's losses.
      #expect(try document(capture).missingText == "2 gaps, losses not known")
      func gaps(_ document: ReportDocument) -> [ReportSection.Mark] {
        document.sections[0].marks.filter { $0.kind == .gap }
      }
      for (ours, theirs) in zip(gaps(logged), gaps(recorded)) {
        // The log's format has microseconds.
        #expect(abs(ours.from - theirs.from) < 1_000 && abs(ours.to - theirs.to) < 1_000)
      }
    }
  }

  /// A link that falls silent just before the end does not count as lost.
  @Test(arguments: [(3, 0), (7, 1)]) func silentEnd(_ seconds: Int64, _ gaps: Int) throws {
    try withFolder { folder in
      try writeLight(folder, count: 100)
      let start: Int64 = 1_700_000_000_000_000_000
      let end = start + seconds * 1_000_000_000
      try write(#"{"startedAtNs":"\#(start)","endedAtNs":"\#(end)"}"#, folder + "/session.json")
      let section = try document(folder).sections[0]
      #expect(section.gapCount == gaps)
      if gaps > 0 {
        let mark = try #require(section.marks.first { $0.kind == .gap })
        #expect(mark.from == section.tables[0].table.last && mark.to == end)
        #expect(mark.text == "no data until the recording ended")
        #expect(section.summary.first { $0.name == "Samples" }?.detail == "50.0 a second")
      }
    }
  }

  /// An empty cell is a dropout.
  @Test func dropoutsInTheSummary() throws {
    try withFolder { folder in
      var text = "time_ns,ppg_counts,led_max_counts,led_min_counts,led_diff_counts\n"
      for index in 0..<200 {
        text +=
          "\(1_700_000_000_000_000_000 + index * 40_000_000),\(index % 50 == 0 ? "" : "9000"),9500,8500,1000\n"
      }
      try write(text, folder + "/ppg.csv")
      let summary = try document(folder).sections[0].summary
      #expect(summary.contains(ReportSection.Figure(name: "Samples", value: "200", detail: "25.0 a second")))
      #expect(
        summary.contains(
          ReportSection.Figure(
            name: "Dropouts", value: "4", detail: "samples without a reading: 2.0 % of PPG")))
    }
  }
}
