import BLEDissector
import BLELinux
import Foundation
import JSONText
import TestKit
import Testing

@testable import CaptureTables
@testable import CaptureTools

/// Pages of captures whose every value is known, read by a decoder that is not ours.
@Suite(.timeLimit(.minutes(2)))
struct ReportSampleTests {
  @Test(arguments: [
    ("make", ["accelerometer": 994, "ppg": 993, "spo2": 995]), ("make-ecg", ["ecg": 2920]),
  ])
  func everySampleIsInThePage(_ make: String, _ rows: [String: Int]) async throws {
    try await withFolder { folder in
      try await Readers.run(make, folder + "/capture")
      let page = try writePage(of: folder + "/capture")
      let read = try await Readers.run("samples", page, folder + "/capture", script: "report.py")
      #expect(read["rows"] as? [String: Int] == rows)
    }
  }

  /// Arrays give the page that their text gives, and the same analysis.
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
      let page = try writePage(of: folder + "/arrays")
      let read = try await Readers.run("samples", page, folder + "/capture", script: "report.py")
      #expect(read["rows"] as? [String: Int] == ["accelerometer": 994, "ppg": 993, "spo2": 995])
    }
  }

  /// Numbers that may be missing, and units of all kinds.
  @Test func sparseTables() async throws {
    try await withFolder { folder in
      try writeSparseTables(folder)
      let page = try writePage(of: folder)
      let read = try await Readers.run("samples", page, folder, script: "report.py")
      #expect(read["rows"] as? [String: Int] == ["heart_rate": 3, "rr_intervals": 2, "temperature": 3])
    }
  }

  /// A row costs no more than its format, in base64: 4 octets for the time, 2 for each number but the last. Page and library
  /// are in both pages, so they do not count.
  @Test func sizeOfARow() async throws {
    try await withFolder { folder in
      let counts = [10_000, 50_000]
      var octets: [Int] = []
      for count in counts {
        let capture = "\(folder)/\(count)"
        try Files.createDirectory(capture)
        try writeLight(capture, count: count)
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

/// Pages in a browser: no error, no request, each plot with all its samples or their extremes, zoomed by mouse and keys.
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

  @Test func strap() async throws {
    try await withFolder { folder in
      try await Readers.run("make-ecg", folder + "/capture")
      let read = try await browse(try writePage(of: folder + "/capture"))
      // The signal, the heart rate, and from beat to beat.
      #expect(read["plots"] as? Int == 3)
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

  /// A single sample that stands out of 150,000 is in the plot of all, and so are all other extremes.
  @Test func noPeakIsLost() async throws {
    try await withFolder { folder in
      try writeLight(folder, count: 150_000, peakAt: 123_457)
      let read = try await browse(try writePage(of: folder))
      // 1,100 pixels: the least power of two that leaves two columns a pixel at most.
      // The plots of the pulse, behind it, have few points.
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

  /// What comes from the air or from a person is text, whatever it looks like.
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

/// Writes the page of a capture beside it.
func writePage(of directory: String) throws -> String {
  let document = try ReportDocument.read(directory, title: nil) { _ in }
  let page = directory + ".html"
  try Data(document.page).write(to: URL(filePath: page))
  return page
}

/// 50 samples a second of a green light: noise, and a peak.
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
