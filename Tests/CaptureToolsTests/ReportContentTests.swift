import BLEDissector
import BLELinux
import Foundation
import TestKit
import Testing

@testable import CaptureTools

/// Contents of a report, and how it describes missing data.
@Suite struct ReportContentTests {
  private func document(_ path: String) throws -> ReportDocument {
    try ReportDocument.read(path, title: nil) { _ in }
  }

  private func message(_ path: String) -> String {
    do throws(ReportError) {
      _ = try ReportDocument.read(path, title: nil) { _ in }
      return "read"
    } catch { return "\(error)" }
  }

  private func write(_ text: String, _ path: String) throws {
    try text.write(toFile: path, atomically: false, encoding: .utf8)
  }

  /// Numbers are packed into as few bytes as possible; the encoding is documented in data.js.
  @Test func packedNumbers() {
    var column = PackedColumn(from: 100)
    for number in [100, 101, 99, nil, 163, 100] as [Int64?] { column.append(number) }
    #expect(column.octets == [1, 3, 4, 0, 0x81, 1, 0x7E])
    let numbers: [Int64?] = [0, nil, 65_535, -1, 4_000_000_000_000_000_000, .max, nil, 0]
    var wide = PackedColumn()
    for number in numbers { wide.append(number) }
    var reader = PackedColumn.Reader(wide)
    for number in numbers { #expect(reader.next() == number) }
  }

  @Test func whatSessionSays() async throws {
    try withFolder { folder in
      try writeLight(folder, count: 100)
      try write(
        #"""
        {"device":{"address":"70:CB:0D:00:A1:B2","addressType":"public","name":"R02"},"adapter":"hci0","mode":"raw",
        "startedAtNs":1700000000000000000,"endedAtNs":1700000009000000000,"endReason":"count reached","received":110,
        "malformed":3,"lastMalformed":"checksum","adapterFaults":0,
        "lost":{"kernelQueue":7,"sampleQueue":0,"packetLog":0,"disk":0},"gapCount":1,
        "gaps":[{"cause":"connection timeout","reason":{"code":8,"name":"Connection Timeout"},
        "lostAtNs":1700000003000000000,"attempts":2,"failures":[],"connectedAtNs":1700000004000000000,
        "firstSampleAtNs":1700000005000000000}],"connection":{"asked":{"minimumIntervalMs":7.5},"inForce":{"mtu":247},
        "changes":[{"timeNs":1700000001000000000,"intervalMs":30.0,"latency":0,"supervisionTimeoutMs":5000}],
        "refused":[{"what":"phy","why":"no such PHY"}]}}
        """#, folder + "/session.json")
      let document = try document(folder)
      let section = document.sections[0]
      #expect(document.title == "R02")
      #expect(document.hasErrors)
      #expect(
        section.problems.map(\.severity) == [.error, .warning, .warning, .note], "\(section.problems)")
      #expect(section.problems[0].text.hasPrefix("Lost: kernel queue: 7."))
      #expect(
        section.marks.first { $0.kind == .gap }
          == ReportSection.Mark(
            from: 1_700_000_003_000_000_000, to: 1_700_000_005_000_000_000, kind: .gap,
            text: "link lost: connection timeout (Connection Timeout); 2 attempts to connect"))
      #expect(
        section.changes == [
          ReportSection.Change(
            time: 1_700_000_001_000_000_000, text: "interval 30 ms, latency 0, timeout 5000 ms")
        ])
      let rows = section.facts.flatMap(\.rows).map { "\($0.name): \($0.value)" }
      for row in [
        "Device: R02", "Address: 70:CB:0D:00:A1:B2 (public)", "Adapter: hci0", "Mode: raw",
        "Started: 2023-11-14 22:13:20.000 UTC", "Lasted: 9.000 s", "Asked for: interval from 7.5 ms",
        "Refused: phy: no such PHY", "MTU: 247 bytes", "Received: 110", "Malformed: 3",
      ] { #expect(rows.contains(row), "\(row) in \(rows)") }
    }
  }

  /// A pause without a recorded cause is marked once for all streams that have it.
  @Test func pausesOfStreams() async throws {
    try withFolder { folder in
      var (rates, temperatures) = ("time_ns,bpm,contact,energy_kj\n", "time_ns,state,temperature_celsius,")
      temperatures += "skin_celsius,quality,heart_rate_bpm,heat_strain_index\n"
      for index in 0..<200 {
        let time = 1_700_000_000_000_000_000 + (index < 100 ? index : index + 300) * 1_000_000_000
        rates += "\(time),60,,\n"
        temperatures += "\(time),measured,36.500,,,,\n"
      }
      try write(rates, folder + "/heart_rate.csv")
      try write(temperatures, folder + "/temperature.csv")
      #expect(
        try document(folder).sections[0].marks == [
          ReportSection.Mark(
            from: 1_700_000_099_000_000_000, to: 1_700_000_400_000_000_000, kind: .gap,
            text: "no data from Heart rate, Temperature; the cause is not recorded")
        ])
      let section = try document(folder).sections[0]
      #expect(
        section.summary.last
          == ReportSection.Figure(
            name: "Gaps", value: "1", detail: "5 min 1 s without data", isBad: true))
      // If the other stream continues, the pause belongs to one stream only.
      try write(rates, folder + "/heart_rate.csv")
      let steady = (0..<500).map { "\(1_700_000_000_000_000_000 + $0 * 1_000_000_000),measured,36.500,,,,\n" }
      try write(temperatures.prefix { $0 != "\n" } + "\n" + steady.joined(), folder + "/temperature.csv")
      let other = try document(folder)
      #expect(other.sections[0].marks.map(\.kind) == [.pause])
      #expect(other.missingText == "gaps not known, losses not known")
    }
  }

  // MARK: Pictures

  /// End points of the lines in a chart with one column of pixels, from the top: the value 102 is at 4, 0 at
  /// 106.
  private func strokes(_ numbers: [Double]) throws -> [Double] {
    let frame = PictureFrame(top: 0, low: 0, high: 102, stretch: 0...1_000_000_000_000)
    let times = numbers.indices.map { Int64($0) }
    let path = PicturePath.element(numbers, at: times, .line, pause: .max, in: frame, "#000")
    let text = try #require(path.split(separator: "\"").dropFirst().first)
    // In "M76 55h0.01V4": the second number of the first pair, and those after the dash.
    let parts = text.split(whereSeparator: "MVhL ".contains).compactMap { Double($0) }
    return parts.enumerated().filter { $0.offset != 0 && $0.offset != 2 }.map(\.element)
  }

  /// A column is drawn through its first value, extremes and last value in the order of arrival, so that a
  /// rise does not look like a spike.
  @Test(arguments: [
    ([0, 51, 102], [106, 4]), ([102, 51, 0], [4, 106]), ([51, 102, 0, 51], [55, 4, 106, 55]),
    ([51, 0, 102, 51], [55, 106, 4, 55]), ([0, 102, 0], [106, 4, 106]), ([51], [55]),
  ]) func orderWithinAColumn(_ numbers: [Double], _ levels: [Double]) throws {
    #expect(try strokes(numbers) == levels)
  }

  /// A line leads from a column's last number to the next column's first; a step lasts until the next column.
  @Test func fromColumnToColumn() throws {
    let frame = PictureFrame(top: 0, low: 0, high: 102, stretch: 0...100)
    func path(_ style: ReportSection.Chart.Style) throws -> [Substring] {
      let path = PicturePath.element([0, 102], at: [0, 50], style, pause: .max, in: frame, "#000")
      return try #require(path.split(separator: "\"").dropFirst().first).split { "MVhHL ".contains($0) }
    }
    #expect(try path(.line).compactMap { Double($0) } == [76, 106, 0.01, 506, 4])
    #expect(try path(.steps).compactMap { Double($0) } == [76, 106, 0.01, 506, 506, 4, 936, 936, 4])
  }

  /// Ticks are 40 ms apart and arrive in bunches: plots show them 40 ms apart.
  @Test func sensorsClock() throws {
    try withFolder { folder in
      var text = "time_ns,ppg_counts,led_max_counts,led_min_counts,led_diff_counts\n"
      for index in 0..<1_500 {
        // A connection event every 250 ms, with one millisecond between frames.
        let due = index * 40_000_000
        let event = (due + 249_999_999) / 250_000_000 * 250_000_000
        let place = index - (event - 250_000_000 + 40_000_000) / 40_000_000
        let time = 1_700_000_000_000_000_000 + event + max(0, place) * 1_000_000
        text += "\(time),\(10_000 + index % 25),1,1,1\n"
      }
      try write(text, folder + "/ppg.csv")
      let table = try document(folder).sections[0].tables[0].table
      let times = table.times(in: 0..<table.count)
      let steps = zip(times, times.dropFirst()).map { $1 - $0 }
      #expect(
        steps.allSatisfy { abs($0 - 40_000_000) < 1_000_000 }, "\(steps.min() ?? 0) \(steps.max() ?? 0)")
    }
  }

  /// The legend explains only the shading that occurs in the visible stretch.
  @Test func legend() {
    func legend(_ kinds: [ReportSection.Mark.Kind], in stretch: ClosedRange<Int64> = 0...100) -> String {
      var section = ReportSection(title: "ring")
      section.marks = kinds.enumerated().map { index, kind in
        ReportSection.Mark(from: Int64(10 * index), to: Int64(10 * index + 5), kind: kind, text: "")
      }
      return section.legend(in: stretch)
    }
    #expect(legend([]) == "" && legend([.pause, .rejected]) == "")
    #expect(legend([.pause, .gap]) == "Shaded: gaps (orange).")
    #expect(legend([.loss]) == "Shaded: losses (red).")
    #expect(legend([.loss, .event, .gap]) == "Shaded: gaps (orange), losses (red). Grey lines: events.")
    #expect(legend([.loss, .event, .gap], in: 8...12) == "Grey lines: events.")
  }

  /// Ticks are marked as possibly missing, but the total of missing ticks is 0: nothing is reported lost, and
  /// nothing is shaded.
  @Test func whatMayBeMissingIsNotLost() {
    var section = ReportSection(title: "ring")
    (section.begins, section.ends, section.knowsMissing) = (0, 60_000_000_000, true)
    section.marks = [
      ReportSection.Mark(
        from: 10, to: 20, kind: .loss, text: "", loss: ReportSection.Loss(count: 2, unit: .tick))
    ]
    section.joinLossesToGaps()
    #expect(section.summary.map { "\($0.name) \($0.value)" }.suffix(2) == ["Lost nothing", "Gaps none"])
    #expect(section.legend(in: section.timeAxis) == "")
    #expect(section.marks.map(\.text) == ["2 ticks of the sensor may be missing"])
  }

  /// Two devices recorded together, one starting three seconds later, share one time axis.
  @Test func oneTimeAxis() throws {
    try withFolder { folder in
      for (name, start) in [("a", 0), ("b", 3)] {
        try Files.createDirectory("\(folder)/\(name)")
        let rows = (0..<60).map { "\(1_700_000_000_000_000_000 + (start + $0) * 1_000_000_000),60,," }
        try write(
          (["time_ns,bpm,contact,energy_kj"] + rows).joined(separator: "\n") + "\n",
          "\(folder)/\(name)/heart_rate.csv")
      }
      var document = try document(folder)
      let start: Int64 = 1_700_000_000_000_000_000
      let axis = start...start + 62_000_000_000
      #expect(document.sections.map(\.timeAxis) == [axis, axis])
      #expect(document.sections.map { $0.summary[1].value } == ["59.0 s", "59.0 s"])
      try document.show(ReportView(from: .init("1"), to: .init("0:10")))
      let stretch = start + 1_000_000_000...start + 10_000_000_000
      #expect(document.sections.map(\.stretch) == [stretch, stretch])
      #expect(document.sections.allSatisfy { !$0.charts.isEmpty })
      // A device whose recording had ended by then is left out.
      var late = try self.document(folder)
      try late.show(ReportView(from: .init("60.5")))
      #expect(late.sections.map(\.charts.isEmpty) == [true, false])
    }
  }

  @Test func log() throws {
    let document = try document(Place.capture("virtual-ring.btsnoop"))
    #expect(document.sections.count == 1)
    let section = document.sections[0]
    #expect(section.conversation.rows.first?.name == "Exchange MTU Request")
    #expect(!section.histograms.isEmpty)
    #expect(section.facts.flatMap(\.rows).contains { $0.name == "Records" })
  }

  /// A log of a Polar sensor has the samples of its recording, and those that arrived before the stream was
  /// stopped. The scale is in the control point's request and response.
  @Test(arguments: ["ecg", "acc", "ppg"])
  func polarLog(_ stream: String) async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      let result = try await Ringtap.run([
        "polar", "--transport", "virtual:polar,rate=10", "--stream", stream, "--count", "20", "--output",
        capture,
      ])
      try #require(result.status == 0)
      let recorded = try #require(try document(capture).sections.first).tables
      let logged = try #require(try document(capture + "/packets.btsnoop").sections.first).tables
      let (theirs, ours) = (try #require(recorded.first).table, try #require(logged.first).table)
      #expect(ours.name == theirs.name && theirs.count > 20 && ours.count >= theirs.count)
      #expect(ours.columns.map(\.name) == theirs.columns.map(\.name))
      #expect(ours.columns.map(\.unit) == theirs.columns.map(\.unit))
      for (ours, theirs) in zip(ours.columns, theirs.columns) {
        #expect(ours.numbers.octets.starts(with: theirs.numbers.octets), "\(ours.name)")
      }
    }
  }

  // MARK: Bad input

  @Test func nothingToReport() async throws {
    try withFolder { folder in
      #expect(
        message(folder + "/none")
          == "\(folder)/none: cannot open the log: No such file or directory; "
          + "give a capture's directory or a packet log")
      #expect(message(folder).hasPrefix("nothing to report in \(folder): "))
      try write("no log", folder + "/file")
      #expect(message(folder + "/file").hasPrefix("\(folder)/file: not a packet log: "))
      try write("", folder + "/empty")
      #expect(message(folder + "/empty").hasPrefix("\(folder)/empty: not a packet log: it is empty"))
    }
  }

  /// Valid data is shown, and the page reports the damage.
  @Test func tornCapture() async throws {
    try withFolder { folder in
      try writeLight(folder, count: 50)
      let torn = contents(folder + "/ppg.csv").dropLast(5)
      try Data(torn).write(to: URL(filePath: folder + "/ppg.csv"))
      try write("{\"device\":", folder + "/session.json")
      try Data(contents(Place.capture("virtual-ring.btsnoop")).dropLast(7)).write(
        to: URL(filePath: folder + "/packets.btsnoop"))
      let document = try document(folder)
      #expect(document.sampleCount == 49)
      #expect(document.hasErrors)
      let texts = document.problemTexts
      #expect(
        texts.contains { $0.hasPrefix("ppg.csv, line 51: it is cut off; the 49 rows before it are good") })
      #expect(texts.contains { $0.hasPrefix("session.json is damaged (invalid JSON from byte 10 on)") })
      #expect(texts.contains { $0.contains("packets.btsnoop: ") && $0.contains("records before are good") })
    }
  }

  /// A log that ends inside a record.
  @Test func tornLog() async throws {
    try withFolder { folder in
      let file = folder + "/cut.btsnoop"
      try Data(contents(Place.capture("bumble-ring.btsnoop")).dropLast(3)).write(to: URL(filePath: file))
      let document = try document(file)
      #expect(document.hasErrors && document.sections.count == 1)
    }
  }

  /// Times that cannot have been recorded.
  @Test(arguments: [Int64.min, .min + 1, -1, 0, 1, .max - 1, .max]) func absurdTimes(_ time: Int64)
    async throws
  {
    try withFolder { folder in
      let (good, header) = (1_700_000_000_000_000_000, "time_ns,bpm,contact,energy_kj\n")
      let keys = [
        "lostAtNs", "lastSampleAtNs", "firstSampleAtNs", "connectedAtNs", "timeNs", "startedAtNs",
        "endedAtNs",
      ]
      for odd in keys + ["rows"] {
        func at(_ key: String) -> String { "\"\(key)\":\(key == odd ? time : Int64(good))" }
        try write(
          """
          {\(at(keys[5])),\(at(keys[6])),"connection":{"changes":[{\(at(keys[4])),"intervalMs":30.0}]},
          "gaps":[{\(at(keys[0])),\(at(keys[1])),\(at(keys[2])),\(at(keys[3]))}]}
          """, folder + "/session.json")
        let times = [good, odd == "rows" ? Int(time) : good + 1, good + 2, good + 900_000_000_000]
        try write(header + times.map { "\($0),60,,\n" }.joined(), folder + "/heart_rate.csv")
        let document = try document(folder)
        // The smallest integer is not a valid time, so its row is left out.
        #expect(document.sampleCount == (odd == "rows" && time == .min ? 3 : 4), "\(odd)")
        #expect(!document.page.isEmpty && !document.picture.isEmpty, "\(odd)")
      }
      // The analysis is checked, too.
      try writeLight(folder, count: 1500)
      try write(
        String(decoding: contents(folder + "/ppg.csv"), as: UTF8.self) + "\(time),1,1,1,1\n",
        folder + "/ppg.csv")
      #expect(try document(folder).sampleCount == (time == .min ? 1503 : 1505))
    }
  }

  // MARK: The command

  @Test func command() async throws {
    try await withFolder { folder in
      try writeLight(folder, count: 100)
      try write(#"{"startedAtNs":1,"endedAtNs":2}"#, folder + "/session.json")
      let run = try await Ringtap.run(["report", folder + "/"])
      #expect(run.status == 0)
      let octets = contents(folder + "/report.html").count
      #expect(
        run.outputLines.first?.hasPrefix("\(folder)/report.html  \(octets) bytes, 100 samples") == true,
        "\(run)")
      let output = try await Ringtap.run(["report", folder, "--output", "-", "--title", "A & B"])
      #expect(
        output.outputLines.first == "<!DOCTYPE html>"
          && output.outputLines.contains("<title>A &amp; B</title>"))
      let refused = try await Ringtap.run(["report", folder, "-o", folder + "/none/page.html"])
      #expect(refused.status == 1)
      #expect(refused.errorLines.last?.hasSuffix("choose another file with --output") == true)
      let nothing = try await Ringtap.run(["report", folder + "/none"])
      #expect(nothing.status == 1 && nothing.errorLines.count == 1)
      let stream = try await Ringtap.run(["report", "-"])
      #expect(stream.status == 2)
    }
  }

  /// Two seconds of light, starting at 22:13:20 UTC.
  @Test(
    arguments: [
      (["--stream", "ppq"], 1, "no stream 'ppq'; there are ppg"),
      (["--stream", "ppg,"], 2, "--stream: a name is empty"),
      (["--from", "soon"], 2, "--from: 'soon' is not a time; give seconds since the start, 90 or 1:30, or "),
      (["--to", "1:75"], 2, "--to: '1:75' is not a time; "),
      (["--from", "1.5", "--to", "0:01"], 1, "--from 1.5 is not before --to 0:01"),
      (["--from", "1", "--to", "1"], 1, "--from 1 is not before --to 1"),
      (
        ["--from", "0:02"], 1,
        "--from 0:02 is outside the recording, which lasts 2.0 s from 2023-11-14 22:13:20"
      ),
      (["--from", "2023-11-14T22:13:19Z"], 1, "--from 2023-11-14T22:13:19Z is outside the recording"),
      (["--to", "0"], 1, "--to 0 is outside the recording"),
    ]
  ) func viewErrors(_ options: [String], _ status: Int32, _ message: String) async throws {
    try await withFolder { folder in
      try writeLight(folder, count: 100)
      let run = try await Ringtap.run(["report", folder, "--svg", folder + "/a.svg"] + options)
      #expect(run.status == status)
      #expect(run.errorLines.contains { $0.contains(message) }, "\(run.errorLines)")
      #expect(!Files.exists(folder + "/a.svg"))
    }
  }

  @Test func partOfAPicture() async throws {
    try await withFolder { folder in
      try writeSparseTables(folder)
      try writeLight(folder, count: 2_000)
      try write(#"{"mode":"raw"}"#, folder + "/session.json")
      let svg = folder + "/a.svg"
      func draw(_ options: String...) async throws -> String {
        let run = try await Ringtap.run(["report", folder, "--svg", svg, "--force"] + options)
        #expect(run.status == 0, "\(run.errorLines)")
        return String(decoding: contents(svg), as: UTF8.self)
      }
      let part = try await draw("--from", "0:10", "--to", "2023-11-14 22:13:40.000 UTC", "--stream", "PPG")
      #expect(part.contains("PPG (counts)") && !part.contains("Heart rate"))
      #expect(part.contains("0:10 … 0:20 of it") && part.contains(">0:14<") && !part.contains(">0:22<"))
      let two = try await draw("--stream", "ppg,rr_intervals", "--stream", "temperature")
      #expect(two.contains("PPG") && two.contains("RR intervals") && two.contains("Temperature"))
      #expect(!two.contains("Heart rate (per minute)"))
    }
  }

  @Test func pictures() async throws {
    try await withFolder { folder in
      try writeLight(folder, count: 20_000, peakAt: 12_345)
      try write(#"{"mode":"raw"}"#, folder + "/session.json")
      let (svg, png) = (folder + "/a.svg", folder + "/it's.png")
      var arguments = ["report", folder, "--svg", svg]
      _ = try Place.tool("rsvg-convert")
      arguments += ["--png", png]
      let run = try await Ringtap.run(arguments)
      #expect(run.status == 0, "\(run.errorLines)")
      #expect(!Files.exists(folder + "/report.html"))
      let text = String(decoding: contents(svg), as: UTF8.self)
      #expect(text.hasPrefix("<?xml") && text.contains("PPG (counts)"))
      // The peak is mentioned in the text and does not flatten the noise.
      #expect(text.contains("1 sample beyond the axis: 65000<"))
      #expect(text.contains(">32000<") && !text.contains(">40000<"))
      #expect(Array(contents(png).prefix(4)) == [0x89, 0x50, 0x4E, 0x47])
    }
  }
}
