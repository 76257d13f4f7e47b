import BLEDissector
import BLELinux
import Foundation
import JSONText
import TestKit
import Testing

@testable import CaptureTools

/// Report pages of captures in which every value is known, read by an independent decoder.
@Suite(.timeLimit(.minutes(2)))
struct ReportSampleTests {
  @Test(arguments: [
    ("make", ["accelerometer": 994, "ppg": 993, "spo2": 995]), ("make-ecg", ["ecg": 2920]),
  ])
  func everySampleIsInThePage(_ make: String, _ rows: [String: Int]) async throws {
    try await withFolder { folder in
      try await Readers.run(make, folder + "/capture")
      try analyse(folder + "/capture")
      let page = try writePage(of: folder + "/capture")
      let read = try await Readers.run("samples", page, folder + "/capture", script: "report.py")
      #expect(read["rows"] as? [String: Int] == rows)
    }
  }

  /// Arrays give the same page and the same analysis as the equivalent text.
  @Test func arrays() async throws {
    try await withFolder { folder in
      try await Readers.run("make", folder + "/capture")
      _ = try CaptureConversion.run(folder + "/capture", to: .npy, output: folder + "/arrays") { _ in }
      let analyses = try ["/capture", "/arrays"].map { name in
        var line = JSONLine()
        try CaptureAnalysis.run(folder + name, output: nil).encode(into: &line)
        return String(decoding: line.octets, as: UTF8.self)
      }
      #expect(analyses[0] == analyses[1])
      try analyse(folder + "/capture")
      let page = try writePage(of: folder + "/arrays")
      let read = try await Readers.run("samples", page, folder + "/capture", script: "report.py")
      #expect(read["rows"] as? [String: Int] == ["accelerometer": 994, "ppg": 993, "spo2": 995])
    }
  }

  /// Columns with missing values, and all kinds of units.
  @Test func sparseTables() async throws {
    try await withFolder { folder in
      try writeSparseTables(folder)
      let page = try writePage(of: folder)
      let read = try await Readers.run("samples", page, folder, script: "report.py")
      #expect(read["rows"] as? [String: Int] == ["heart_rate": 3, "rr_intervals": 2, "temperature": 3])
    }
  }

  /// A row takes no more than its packed format in base64: 4 bytes for the time, 2 for each number except the
  /// last. The page frame and the library are in both pages, so they cancel out.
  @Test func sizeOfARow() async throws {
    try await withFolder { folder in
      let counts = [10_000, 50_000]
      var octets: [Int] = []
      for count in counts {
        let capture = "\(folder)/\(count)"
        try Files.createDirectory(capture)
        try writeLight(capture, count: count)
        try analyse(capture)
        let page = try writePage(of: capture)
        octets.append(contents(page).count)
        let read = try await Readers.run("samples", page, capture, script: "report.py")
        #expect(read["rows"] as? [String: Int] == ["ppg": count])
      }
      let perRow = Double(octets[1] - octets[0]) / Double(counts[1] - counts[0])
      #expect(perRow > 0 && perRow <= 15, "\(perRow)")
    }
  }
}

/// Pages in a browser: no errors and no network requests. Each plot has all its samples or their extremes,
/// and can be zoomed with mouse and keys.
@Suite(
  .timeLimit(.minutes(3)), .serialized)
struct ReportBrowserTests {
  @discardableResult private func browse(_ page: String, _ options: String = "--light") async throws
    -> [String: Any]
  {
    _ = try Place.chromium()
    return try await Readers.run("browse", page, options, script: "report.py")
  }

  @Test(arguments: ["--light", "--dark", "--phone"]) func ring(_ options: String) async throws {
    try await withFolder { folder in
      try await Readers.run("make", folder + "/capture")
      let read = try await browse(try writePage(of: folder + "/capture"), options)
      #expect(read["title"] as? String == "capture")
      #expect(try #require(read["plots"] as? Int) >= 3)
      #expect((read["zoomed"] as? [Int])?.allSatisfy { $0 == 1 } == true)
    }
  }

  /// Page and picture choose their axes by the same rule, implemented in two languages, for whole recordings
  /// and for stretches.
  @Test(arguments: ["ring", "ecg", "sparse", "light", "stretch", "edges"]) func axes(_ name: String)
    async throws
  {
    try await withFolder { folder in
      let capture = folder + "/capture"
      switch name {
      case "ring": try await Readers.run("make", capture)
      case "ecg": try await Readers.run("make-ecg", capture)
      default: try Files.createDirectory(capture)
      }
      if name == "sparse" { try writeSparseTables(capture) }
      // More values than are sorted completely, so that every 19th is used.
      if name == "light" { try writeLight(capture, count: 150_000, peakAt: 123_457) }
      if name == "edges" { try writeEdges(capture) }
      if name == "stretch" { try writeLight(capture, count: 2_000, peakAt: 1_234) }
      var document = try ReportDocument.read(capture, title: nil) { _ in }
      let view = name == "stretch" ? ReportView(from: .init("20"), to: .init("0:30.5")) : ReportView()
      try document.show(view)
      let page = folder + "/page.html"
      try Data(document.page).write(to: URL(filePath: page))
      let read = try #require(try await browse(page, "--still")["axes"] as? [[String: Any]])
      let axes = document.sections.flatMap(\.axes)
      #expect(read.map { ($0["range"] as? [String])?.map { Double($0) } } == axes.map(\.range))
      #expect(read.map { $0["outliers"] as? [Int] } == axes.map(\.outliers))
      let count = ["light": 1, "stretch": 1, "edges": 5][name] ?? 0
      #expect(axes.flatMap(\.outliers).reduce(0, +) == count)
    }
  }

  @Test func strap() async throws {
    try await withFolder { folder in
      try await Readers.run("make-ecg", folder + "/capture")
      let read = try await browse(try writePage(of: folder + "/capture"))
      // Only the signal: the file contains noise, which has no beats.
      #expect(read["plots"] as? Int == 1)
    }
  }

  @Test func sparseTables() async throws {
    try await withFolder { folder in
      try writeSparseTables(folder)
      let read = try await browse(try writePage(of: folder))
      // Rate, contact, energy; intervals; temperatures, quality, rate, strain.
      #expect(read["plots"] as? Int == 8)
    }
  }

  /// A single outlier among 150,000 samples is in the full plot, and so are all other extremes.
  @Test func noPeakIsLost() async throws {
    try await withFolder { folder in
      try writeLight(folder, count: 150_000, peakAt: 123_457)
      let read = try await browse(try writePage(of: folder))
      // 1,100 pixels: the smallest power of two that leaves at most two columns per pixel. The plots of the
      // pulse, which follow, have few points.
      let whole = try #require(read["whole"] as? [Int])
      #expect(whole[0] == 128 && whole.dropFirst().allSatisfy { $0 == 1 })
      let zoomed = try #require(read["zoomed"] as? [Int])
      #expect(zoomed.count == whole.count && zoomed.allSatisfy { $0 == 1 })
    }
  }

  @Test(arguments: ["virtual-ring", "bumble-ring", "bluetoothd-monitor", "exclusive-monitor"])
  func log(_ name: String) async throws {
    try await withFolder { folder in
      let document = try ReportDocument.read(Place.capture(name + ".btsnoop"), title: nil) { _ in }
      #expect(!document.sections.isEmpty && !document.sections[0].conversation.rows.isEmpty)
      let page = folder + "/page.html"
      try Data(document.page).write(to: URL(filePath: page))
      let read = try await browse(page)
      #expect(read["title"] as? String == name + ".btsnoop")
    }
  }

  /// Text from a device or a user is always shown as text, even if it looks like markup.
  @Test func markupIsText() async throws {
    let name = "</script><script>document.title = 'mine'</script><img src=x onerror=alert(1)>&amp;"
    try await withFolder { folder in
      try writeLight(folder, count: 100)
      let session: [String: Any] = ["startedAtNs": 1, "endedAtNs": 2, "device": ["name": name]]
      try JSONSerialization.data(withJSONObject: session).write(to: URL(filePath: folder + "/session.json"))
      let read = try await browse(try writePage(of: folder))
      #expect(read["title"] as? String == name)
    }
  }

  @Test func withoutAnySample() async throws {
    try await withFolder { folder in
      try "time_ns,bpm,contact,energy_kj\n".write(
        toFile: folder + "/heart_rate.csv", atomically: false, encoding: .utf8)
      let read = try await browse(try writePage(of: folder))
      #expect(read["plots"] as? Int == 0)
      #expect((read["problems"] as? [String])?.contains("Note heart_rate.csv has no rows.") == true)
    }
  }
}

/// Writes a ring's samples.csv, from which the plots take their times.
private func analyse(_ directory: String) throws {
  _ = try CaptureAnalysis.run(directory, output: directory + "-analysis")
  let samples = "/samples.csv"
  if Files.exists(directory + "-analysis" + samples) {
    try contentsOf(directory + "-analysis" + samples).write(to: URL(filePath: directory + samples))
  }
}

private func contentsOf(_ path: String) throws -> Data { try Data(contentsOf: URL(filePath: path)) }

/// Writes the page of a capture beside it.
func writePage(of directory: String) throws -> String {
  let document = try ReportDocument.read(directory, title: nil) { _ in }
  let page = directory + ".html"
  try Data(document.page).write(to: URL(filePath: page))
  return page
}

/// Green light at 50 samples a second: noise and a peak.
func writeLight(_ folder: String, count: Int, peakAt peak: Int? = nil) throws {
  var text = "time_ns,ppg_counts,led_max_counts,led_min_counts,led_diff_counts\n"
  var noise: UInt32 = 1
  for index in 0..<count {
    noise = noise &* 1_664_525 &+ 1_013_904_223
    let value = index == peak ? 65_000 : 30_000 + Int(noise >> 20)
    let time = 1_700_000_000_000_000_000 + index * 20_000_000 + Int(noise >> 12)
    text += "\(time),\(value),\(value + 10),\(value - 10),20\n"
  }
  try text.write(toFile: folder + "/ppg.csv", atomically: false, encoding: .utf8)
}

/// Waves from 100 to 110 and a ramp, with values just inside and just outside the outlier rule of
/// `ValueAxis`.
func writeEdges(_ folder: String) throws {
  /// - Parameter row: returns the cells of a row for its number.
  func write(
    _ name: String, _ header: String, _ count: Int, _ odd: [Int: Int],
    _ usual: (Int) -> Int = { 100 + abs($0 % 20 - 10) }, _ row: (Int) -> String
  ) throws {
    var text = "time_ns,\(header)\n"
    for index in 0..<count {
      let number = odd[index] ?? usual(index)
      text += "\(1_700_000_000_000_000_000 + index * 40_000_000),\(row(number))\n"
    }
    try text.write(toFile: "\(folder)/\(name).csv", atomically: false, encoding: .utf8)
  }
  // Two in a hundred are below 19, and above 982. Three widths beyond that is 3,871, so the second value is
  // an outlier.
  let far = [300: 3_871, 700: 3_872]
  try write("ppg", "ppg_counts,led_max_counts,led_min_counts,led_diff_counts", 1_000, far, { $0 }) {
    "\($0),1,1,1"
  }
  // Five rows apart: neither is an outlier.
  try write("spo2", "spo2_counts,red_max_counts,red_min_counts,red_diff_counts", 1_000, [200: 0, 205: 0]) {
    "\($0),1,1,1"
  }
  // Three of 600: all are outliers. Three of 599: none.
  let three = [50: 0, 100: 0, 400: 0]
  try write(
    "temperature", "state,temperature_celsius,skin_celsius,quality,heart_rate_bpm,heat_strain_index", 600,
    three
  ) {
    "measured,\($0).000,,,,5.0"
  }
  try write("heart_rate", "bpm,contact,energy_kj", 599, three) { "\($0),," }
  // One of 64: an outlier. One of 63: not.
  try write("accelerometer", "x_counts,y_counts,z_counts,x_g,y_g,z_g", 64, [30: 0]) {
    "0,0,0,\($0).000000,105.000000,105.000000"
  }
  try write("rr_intervals", "rr_1024ths,rr_ms", 63, [30: 0]) { "0,\($0).000" }
}

func writeSparseTables(_ folder: String) throws {
  let tables = [
    "heart_rate": """
    time_ns,bpm,contact,energy_kj
    1700000000000000000,61,1,
    1700000001000000000,,0,
    1700000002000000000,63,1,12

    """,
    "rr_intervals": """
    time_ns,rr_1024ths,rr_ms
    1700000000000000000,1000,976.563
    1700000002000000000,65535,63999.023

    """,
    "temperature": """
    time_ns,state,temperature_celsius,skin_celsius,quality,heart_rate_bpm,heat_strain_index
    1700000000000000000,measured,36.605,33.120,4,61,0.0
    1700000001000000000,not_on_body,,,,,
    1700000002000000000,measured,-40.000,0.001,0,,25.5

    """,
  ]
  for (name, text) in tables {
    try text.write(toFile: "\(folder)/\(name).csv", atomically: false, encoding: .utf8)
  }
}
