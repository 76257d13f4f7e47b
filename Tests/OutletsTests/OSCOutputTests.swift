import BLELinux
import Foundation
import TestKit
import Testing

@testable import Outlets

/// Open Sound Control, as liblo's `oscdump` reads it.
@Suite struct OSCOutputTests {
  @Test func eachRowArrives() async throws {
    try await withFolder { folder in
      let port = try freePort()
      let dump = try Running("/usr/bin/oscdump", ["-L", "\(port)"], in: folder)
      try await eventually("oscdump listens") { listens(onUDP: port) }
      let run = try await Ringtap.run([
        "capture", "--transport", "virtual:ring", "--count", "300", "--output", folder + "/walk", "--to",
        "osc://127.0.0.1:\(port)",
      ])
      #expect(run.status == 0 && !run.errors.contains("did not arrive"), "\(run.errors)")
      try await eventually("the end arrives") { dump.text.contains("/end s") }
      let lines = dump.text.split(separator: "\n").map(String.init)
      for (table, tags) in [("ppg", "ffff"), ("spo2", "ffff"), ("accelerometer", "ffffff")] {
        let rows = rows("\(folder)/walk/\(table).csv").dropFirst()
        let messages = lines.filter { $0.contains("/ring/70-CB-0D-00-A1-B2/\(table) ") }
        #expect(messages.count == rows.count && !rows.isEmpty, "\(table)")
        for (row, message) in zip(rows, messages) {
          let cells = row.split(separator: ",", omittingEmptySubsequences: false).dropFirst()
          let words = message.split(separator: " ")
          let place = try #require(words.firstIndex { $0.hasPrefix("/ring/") })
          #expect(words[place + 1] == types(cells, tags), "\(message)")
          let values = words[(place + 2)...].map { Double($0) }
          for (cell, value) in zip(cells, values) where !cell.isEmpty {
            #expect(abs((Double(cell) ?? .nan) - (value ?? .nan)) < 1e-4, "\(row): \(message)")
          }
        }
      }
      #expect(lines.last?.hasSuffix(#"/ring/70-CB-0D-00-A1-B2/end s "count reached""#) == true)
    }
  }

  /// The type tags of the cells: an empty one is nil.
  private func types(_ cells: some Sequence<Substring>, _ tags: String) -> String {
    String(zip(cells, tags).map { $0.isEmpty ? "N" : $1 })
  }

  /// No program listens: the kernel reports each refusal at the next message, so that all but the last are
  /// counted. The recording is complete.
  @Test func countsWhatNobodyTakes() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run([
        "capture", "--transport", "virtual:ring", "--count", "30", "--output", folder + "/walk", "--to",
        "osc://127.0.0.1:\(try freePort())",
      ])
      #expect(run.status == 0 && run.output.contains("0 lost of 30"), "\(run.output)\(run.errors)")
      // 30 rows, and the end.
      let missed = try #require(run.errors.firstMatch(of: /at least ([0-9]+) messages to 127.0.0.1:/))
      #expect(missed.output.1 == "30", "\(run.errors)")
    }
  }

  /// OSC 1.0 specification, "OSC Message Examples": 440.0 to /oscillator/4/frequency.
  @Test func encodesTheExampleOfTheSpecification() {
    var message = OSCMessage("/oscillator/4/frequency")
    message.append(440)
    #expect(
      message.octets
        == [UInt8]("/oscillator/4/frequency".utf8) + [0] + [0x2C, 0x66, 0, 0] + [0x43, 0xDC, 0, 0])
  }

  @Test(arguments: ["osc://", "osc://h", "osc://:1", "osc://h:0", "osc://h:70000", "osc:h:1", "osc://h/x:1"])
  func refuses(_ text: String) { #expect(OSCOutput.Place(text) == nil) }
}

/// Whether a process has bound this UDP port of IPv4 or IPv6. proc(5), `net/udp`.
private func listens(onUDP port: Int) -> Bool {
  let digits = String(port, radix: 16, uppercase: true)
  let place = ":" + String(repeating: "0", count: 4 - digits.count) + digits + " "
  return ["/proc/net/udp", "/proc/net/udp6"].contains { file in
    (try? String(contentsOfFile: file, encoding: .utf8))?.contains(place) == true
  }
}
