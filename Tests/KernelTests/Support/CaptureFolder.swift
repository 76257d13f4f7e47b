import Foundation
import TestKit
import Testing

/// A capture written by `ringtap capture`, read without any of our code.
struct CaptureFolder {
  struct Session: Decodable {
    struct Device: Decodable {
      var address: String
      var addressType: String
    }
    struct Loss: Decodable, Equatable {
      var kernelQueue: Int
      var sampleQueue: Int
      var packetLog: Int
      var disk: Int

      static let none = Loss(kernelQueue: 0, sampleQueue: 0, packetLog: 0, disk: 0)
    }
    struct Stream: Decodable {
      var samples: Int
      var file: String
    }

    struct Gap: Decodable {
      struct Reason: Decodable {
        var code: Int
        var name: String
      }

      var cause: String
      /// The reason, if the controller reported one.
      var reason: Reason?
      var attempts: Int
      /// Only present for a gap that has ended.
      var lengthMs: Double?
    }

    var device: Device
    var mode: String
    /// Nanoseconds since the Unix epoch; strings, because JSON numbers have fewer digits.
    var startedAtNs: UnixNanoseconds
    var endedAtNs: UnixNanoseconds
    var endReason: String
    var received: Int
    var malformed: Int
    var lastMalformed: String?
    var withoutKernelStamp: Int
    var adapterFaults: Int
    var lost: Loss
    var links: Int
    var gapCount: Int
    var gaps: [Gap]
    var streams: [String: Stream]
  }

  struct Row: Equatable {
    var timeNs: Int64
    var values: [Int]
  }

  static let headers = [
    "accelerometer": "time_ns,x_counts,y_counts,z_counts,x_g,y_g,z_g",
    "ppg": "time_ns,ppg_counts,led_max_counts,led_min_counts,led_diff_counts",
    "spo2": "time_ns,spo2_counts,red_max_counts,red_min_counts,red_diff_counts",
  ]

  /// Source of a capture's timestamps.
  enum Stamps {
    case kernel, arrival
  }

  let path: String
  let session: Session
  /// Rows by stream.
  let tables: [String: [Row]]

  var packetLog: String { path + "/packets.btsnoop" }
  var rowCount: Int { tables.values.reduce(0) { $0 + $1.count } }

  /// Reads a capture. Records an issue for any truncated or inconsistent file.
  init(_ path: String) throws {
    self.path = path
    let text = try Data(contentsOf: URL(filePath: path + "/session.json"))
    session = try JSONDecoder().decode(Session.self, from: text)
    var tables: [String: [Row]] = [:]
    for (name, stream) in session.streams {
      let table = try Self.table(path + "/" + stream.file, header: try #require(Self.headers[name]))
      #expect(table.count == stream.samples, "\(stream.file) and session.json differ")
      // A byte stream has no kernel timestamps: packets of one read share its time.
      let isStamped = session.withoutKernelStamp == 0
      #expect(
        zip(table, table.dropFirst()).allSatisfy { $0.timeNs < $1.timeNs + (isStamped ? 0 : 1) },
        "\(stream.file): time")
      let span = session.startedAtNs.value...session.endedAtNs.value
      #expect(table.allSatisfy { span.contains($0.timeNs) }, "\(stream.file): rows outside the capture")
      tables[name] = table
    }
    #expect(Set(tables.keys) == Set(Self.headers.keys))
    self.tables = tables
  }

  private static func table(_ path: String, header: String) throws -> [Row] {
    let text = try String(contentsOf: URL(filePath: path), encoding: .utf8)
    #expect(text.hasSuffix("\n"), "\(path): the last row is cut")
    let lines = text.split(separator: "\n")
    #expect(lines.first.map(String.init) == header)
    return try lines.dropFirst().map { line in
      let columns = line.split(separator: ",", omittingEmptySubsequences: false)
      try #require(columns.count == header.split(separator: ",").count, "\(path): \(line)")
      let isAcceleration = columns.count == 7
      // An empty reading is a dropout, which the ring reports as 0.
      let values = try columns[1..<(isAcceleration ? 4 : 5)].enumerated().map { place, cell in
        !isAcceleration && place == 0 && cell.isEmpty ? 0 : try #require(Int(cell))
      }
      if isAcceleration {
        for (column, counts) in zip(columns[4...], values) {
          let g = try #require(Double(column))
          #expect(abs(g - Double(counts) / 512) < 1e-6, "\(path): \(line)")
        }
      }
      return Row(timeNs: try #require(Int64(columns[0])), values: values)
    }
  }

  /// Expects the properties that every capture without problems has.
  func expectNoTrouble(
    samples: Int, stamps: Stamps = .kernel, adapterFaults: Int = 0,
    at location: SourceLocation = #_sourceLocation
  ) {
    #expect(rowCount == samples, sourceLocation: location)
    #expect(session.received == samples, sourceLocation: location)
    #expect(session.lost == .none, sourceLocation: location)
    #expect(session.malformed == 0, sourceLocation: location)
    #expect(session.adapterFaults == adapterFaults, sourceLocation: location)
    expect(stamps, at: location)
  }

  /// Checks the timestamps of all PDUs, including responses.
  func expect(_ stamps: Stamps, at location: SourceLocation = #_sourceLocation) {
    switch stamps {
    case .kernel: #expect(session.withoutKernelStamp == 0, sourceLocation: location)
    case .arrival: #expect(session.withoutKernelStamp >= session.received, sourceLocation: location)
    }
  }
}

/// A raw frame that tshark found in a packet log, with its meaning according to the published protocol.
struct RawFrame {
  var microseconds: Int64
  var hex: String

  var stream: String? {
    ["a101": "spo2", "a102": "ppg", "a103": "accelerometer"][String(hex.prefix(4))]
  }

  /// Values in the order of the table's columns. Decoded by a second implementation of the protocol, written
  /// for this check.
  var values: [Int] {
    let octets = stride(from: 0, to: hex.count, by: 2).map { offset in
      Int(hex.dropFirst(offset).prefix(2), radix: 16) ?? 0
    }
    func pair(_ index: Int) -> Int { octets[index] * 256 + octets[index + 1] }
    func twelveBits(_ index: Int) -> Int {
      let raw = octets[index] * 16 + octets[index + 1] % 16
      return raw < 2048 ? raw : raw - 4096
    }
    // The ring sends y, z, x.
    return stream == "accelerometer"
      ? [twelveBits(6), twelveBits(2), twelveBits(4)] : [pair(2), pair(4), pair(6), pair(8)]
  }
}

extension Scene {
  /// Waits until a capture has created its tables, when it is connected to its ring.
  func waitForTables(of path: String) throws {
    try demand("bash", ["-c", "until [ -s \"$0\" ]; do sleep 0.05; done", path + "/ppg.csv"])
  }

  /// Waits until the table of the optical stream has some rows.
  func waitForRows(of path: String) throws {
    try waitForTables(of: path)
    try demand(
      "bash", ["-c", "until [ \"$(wc -l <\"$0\")\" -gt 3 ]; do sleep 0.05; done", path + "/ppg.csv"])
  }

  /// Waits until a table contains a row with this text.
  func waitForTables(of path: String, toHold table: String, _ text: String) throws {
    try demand("bash", ["-c", "until grep -qF \"$1\" \"$0\"; do sleep 0.05; done", "\(path)/\(table)", text])
  }

  /// Sizes of a capture's tables, for `waitForStillness`.
  func tableSizes(of path: String) throws -> String {
    try demand("bash", ["-c", "stat -c %s \"$0\"/*.csv", path]).output.trimmingCharacters(in: .newlines)
  }

  /// Waits until the tables have grown beyond these sizes and have then not changed for a second.
  func waitForStillness(of path: String, since sizes: String) throws {
    let script = """
      sizes() { stat -c %s "$0"/*.csv; }
      until [ "$(sizes)" != "$1" ]; do sleep 0.05; done
      until before=$(sizes); sleep 1; [ "$before" = "$(sizes)" ]; do :; done
      """
    let result = try run("bash", ["-c", script, path, sizes], within: .seconds(120))
    try #require(result.status == 0, "\(result.errors)")
  }

  /// Reads a capture that ended early. Expects that each file is complete, and that the packet log contains
  /// at least the data of the tables.
  func wholeCapture(_ path: String) throws -> CaptureFolder {
    let capture = try CaptureFolder(path)
    let recorded = capture.rowCount + capture.session.lost.disk + capture.session.malformed
    #expect(capture.session.received == recorded)
    let packets = try btmonNotifications(capture.packetLog)
    if capture.session.lost.packetLog == 0 { #expect(packets == capture.session.received) }
    let shown = try ringtap("log", "show", capture.packetLog, "--json")
    #expect(shown.status == 0)
    #expect(shown.outputLines.count { $0.contains("\"opcode\":27,") } == packets)
    return capture
  }
}

/// Independent programs that read our packet logs.
extension Scene {
  /// Decodes all notifications in a log with Wireshark. Records an issue for each error that it reports.
  func tshark(_ log: String, at location: SourceLocation = #_sourceLocation) throws -> [RawFrame] {
    // Without btgatt, because Wireshark takes the ring's characteristics for Nordic's text service with the
    // same UUIDs.
    let fields = ["frame.time_epoch", "btatt.opcode", "btatt.value", "_ws.malformed", "_ws.expert.message"]
    let result = try run(
      "tshark",
      ["-r", log, "--disable-protocol", "btgatt", "-T", "fields", "-E", "separator=|"]
        + fields.flatMap { ["-e", $0] })
    #expect(result.status == 0, sourceLocation: location)
    let complaints = result.errorLines.filter { !$0.hasPrefix("Running as user \"root\"") }
    #expect(complaints == [], sourceLocation: location)
    return try result.outputLines.compactMap { line in
      let parts = line.split(separator: "|", omittingEmptySubsequences: false)
      try #require(parts.count == fields.count)
      #expect(parts[3].isEmpty && parts[4].isEmpty, "tshark complains: \(line)", sourceLocation: location)
      guard parts[1] == "0x1b" else { return nil }
      let time = parts[0].split(separator: ".")
      let fraction = try #require(Int64(time[1].prefix(6)))
      let seconds = try #require(Int64(time[0]))
      return RawFrame(microseconds: seconds * 1_000_000 + fraction, hex: String(parts[2]))
    }
  }

  /// Number of our ATT requests before the first notification, counted by Wireshark.
  func requestsBeforeTheStream(_ log: String) throws -> Int {
    let result = try demand(
      "tshark",
      ["-r", log, "--disable-protocol", "btgatt", "-Y", "btatt.opcode", "-T", "fields", "-E", "separator=|"]
        + ["-e", "frame.p2p_dir", "-e", "btatt.opcode"])
    // 0 is sent by the host. Core 5.4, Vol 3, Part F, 3.4: requests that a client may send.
    let requests = ["02", "04", "06", "08", "0a", "0c", "0e", "10", "12", "16", "18", "20"].map {
      "0|0x" + $0
    }
    #expect(result.outputLines.contains("1|0x1b"))
    return result.outputLines.prefix { $0 != "1|0x1b" }.count { requests.contains($0) }
  }

  /// Number of notifications that BlueZ's monitor finds in a log. Records an issue for each error that it
  /// reports.
  func btmonNotifications(_ log: String, at location: SourceLocation = #_sourceLocation) throws -> Int {
    let result = try OldBtmon.read(log)
    #expect(result.status == 0, sourceLocation: location)
    #expect(result.errors == "", sourceLocation: location)
    for word in ["invalid", "malformed", "too short", "unexpected", "packet size"] {
      #expect(!result.output.lowercased().contains(word), "btmon complains", sourceLocation: location)
    }
    return result.outputLines.count { $0.contains("ATT: Handle Value Notification (0x1b)") }
  }
}
