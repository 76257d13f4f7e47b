import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// Log files after the recorder is killed or the disk is full.
  @Suite final class KilledLogTests {
    private static let runsAtATime = 5

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// A linear congruential generator with the constants of Knuth's MMIX, so that each run kills at the same
    /// counts.
    private struct Moments {
      var state: UInt64 = 4

      mutating func next(below limit: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % limit
      }
    }

    private struct Tick {
      var count: Int
      var nanoseconds: Int

      static func all(in output: String) -> [Tick] {
        output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().compactMap { line in
          let words = line.split(separator: " ").compactMap { Int($0) }
          return words.count == 2 ? Tick(count: words[0], nanoseconds: words[1]) : nil
        }
      }
    }

    /// `kill -9` at 200 moments in the first two seconds, and at some moments with a source so slow that only
    /// the timer flushes the writer's buffer. Each file can be read and has everything that was there a
    /// second before the end.
    @Test(arguments: [("btsnoop", 5_000, 200), ("btsnoop", 100, 20), ("pcapng", 5_000, 40)])
    func losesLessThanTheLastSecondWhenKilled(
      _ format: String, _ ratePerSecond: Int, _ runCount: Int
    ) throws {
      var moments = Moments()
      var (readable, withLongHistory) = (0, 0)
      for round in 0..<runCount / Self.runsAtATime {
        var runs: [(path: String, target: Int, program: Program)] = []
        for run in 0..<Self.runsAtATime {
          let path = scene.path("killed-\(round)-\(run).\(format)")
          let program = try scene.start(
            Place.harness, ["record", "-o", path, "--synthetic", "\(ratePerSecond)"])
          runs.append((path, 1 + moments.next(below: 2 * ratePerSecond), program))
        }
        for run in runs.sorted(by: { $0.target < $1.target }) {
          _ = try run.program.lines(untilThey: "reach \(run.target)") { lines in
            lines.last.flatMap { $0.split(separator: " ").first }.flatMap { Int($0) } ?? 0 >= run.target
          }
          run.program.send(SIGKILL)
          let result = try run.program.finish()
          #expect(result.status == 128 + SIGKILL)
          let (held, owed) = try expectNumbered(run.path, Tick.all(in: result.output))
          #expect(held >= owed, "\(run.path): killed at \(run.target)")
          if owed > 0 { withLongHistory += 1 }
          readable += 1
        }
      }
      #expect(readable == runCount)
      // Otherwise the test would show nothing.
      #expect(withLongHistory > runCount / 4)
    }

    /// - Returns: number of packets in the file, and number of packets delivered a second before the last
    ///   progress line.
    private func expectNumbered(_ path: String, _ ticks: [Tick]) throws -> (held: Int, owed: Int) {
      let log = try MonitorLog(path)
      let numbers = log.records.map { record -> Int in
        var number = 0
        for octet in record.payload.suffix(4).reversed() { number = number << 8 | Int(octet) }
        return number
      }
      #expect(numbers == Array(0..<numbers.count), "\(path): packets are missing in between")
      #expect(log.records.allSatisfy { $0.opcode == MonitorLog.Record.aclReceived && $0.drops == 0 })
      // Wireshark's reader agrees; a truncated record is its only complaint.
      let result = try scene.run("capinfos", ["-T", "-r", "-M", "-c", path])
      #expect(result.output == "\(path)\t\(numbers.count)\n")
      #expect(result.status == 0 || log.tornByteCount > 0, "\(result.errors)")
      let last = try #require(ticks.last).nanoseconds
      let owed = ticks.last { $0.nanoseconds <= last - 1_000_000_000 }?.count ?? 0
      return (numbers.count, owed)
    }

    /// A file size limit stops the writer as a full disk does.
    @Test func tellsAFullDiskAndKeepsWhatIsThere() throws {
      let path = scene.path("full")
      // In blocks of 512 bytes, as POSIX defines it; bash uses 1,024.
      let result = try scene.run(
        "bash",
        [
          "-c", "trap '' XFSZ; ulimit -f 10; exec \"$@\"", "bash", Place.harness, "record", "-o", path,
          "--synthetic", "5000", "--json",
        ])
      #expect(result.status == 1)
      #expect(result.errors.contains("write \(path): File too large; the "))
      #expect(result.errorLines.count == 2)
      let report = try #require(result.outputLines.last)
      #expect(report.contains("\"endReason\":\"writing to the disk failed\""))
      let log = try MonitorLog(path)
      #expect(log.tornByteCount == 0)
      // 10,240 bytes hold the header's 16 and 262 records of 39.
      #expect(log.records.count == 262)
      #expect(report.contains("\"packets\":262,\"bytes\":10218,"))
      #expect(try scene.run("btmon", ["-r", path]).status == 0)
    }

    @Test func overwritesNothing() throws {
      let path = scene.path("log")
      try Data("mine".utf8).write(to: URL(filePath: path))
      let result = try scene.harness("record", "-o", path, "--synthetic", "100")
      result.expectFailure(saying: "already exists", "--append")
      try scene.harness("record", "-o", path, "--synthetic", "100", "--append")
        .expectFailure(saying: "is not a btsnoop log")
      #expect(try Data(contentsOf: URL(filePath: path)) == Data("mine".utf8))
    }

    @Test(arguments: [
      ["--ring", "2"], ["--rotate-size", "0"], ["--rotate-size", "10Q"], ["--count", "0"],
      ["--adapter", "eth0"],
      ["--rotate-size", "9223372036854775807G"], ["--duration", "0"],
    ])
    func refusesWrongUsage(_ arguments: [String]) throws {
      let result = try scene.run(
        Place.harness, ["record", "-o", scene.path("none"), "--synthetic", "1"] + arguments)
      #expect(result.status == 2)
      #expect(!FileManager.default.fileExists(atPath: scene.path("none")))
    }

    @Test(arguments: [["--json"], ["--append"], ["--rotate-count", "2"]])
    func standardOutputIsOneLog(_ arguments: [String]) throws {
      #expect(try scene.run(Place.ringtap, ["log", "record", "-o", "-"] + arguments).status == 2)
    }

    /// Output that a reader at the other end of a pipe gets.
    @Test(arguments: ["btsnoop", "pcapng"])
    func writesToStandardOutput(_ format: String) throws {
      let command =
        "\"$0\" record -o - --format \(format) --synthetic 5000 --count 300"
        + " | tshark -r - -T fields -e btatt.opcode"
      let result = try scene.run("bash", ["-c", "set -o pipefail; " + command, Place.harness])
      #expect(result.status == 0, "\(result.errors)")
      // Notifications.
      #expect(result.outputLines == [String](repeating: "0x1b", count: 300))
    }

    /// The recorder ends at once, even if it has almost nothing to write.
    @Test(arguments: [5000, 1])
    func endsWhenItsReaderHasGone(_ ratePerSecond: Int) throws {
      let command =
        "\"$0\" record -o - --synthetic \(ratePerSecond) | head -c 16 >&2; echo ${PIPESTATUS[0]}"
      let result = try scene.run("bash", ["-c", command, Place.harness])
      #expect(result.output == "0\n")
    }

    /// Wireshark's capinfos finds the link type, nanoseconds, and the interface's statistics.
    @Test func pcapngIsWhatWiresharkWouldWrite() throws {
      let path = scene.path("log.pcapng")
      func record(_ count: Int, _ options: String...) throws -> String {
        let arguments = ["record", "-o", path, "--synthetic", "5000", "--count", "\(count)"]
        #expect(try scene.run(Place.harness, arguments + options).status == 0)
        return try scene.demand("capinfos", ["-M", path]).output
      }
      let information = try record(1000)
      for words in [
        "File type:           pcapng", "File encapsulation:  bluetooth-linux-monitor", "nanoseconds (9)",
        "Number of packets:   1000", "Capture application: ringtap", "interfaces in file: 1", "Name = hci0",
        "Number of stat entries = 1",
      ] { #expect(information.contains(words), "\(words)") }
      // A second section.
      let more = try record(10, "--append")
      #expect(more.contains("Number of packets:   1010") && more.contains("interfaces in file: 2"))
      let shown = try scene.ringtap("log", "show", path, "--json")
      #expect(shown.status == 0)
      #expect(shown.outputLines.count { $0.contains("\"opcode\":27,") } == 1010)
    }

    @Test func interruptEndsItInGoodOrder() throws {
      let path = scene.path("log")
      let program = try scene.start(Place.harness, ["record", "-o", path, "--synthetic", "1000", "--json"])
      try program.line(containing: " ")
      program.send(SIGINT)
      let result = try program.finish()
      #expect(result.status == 0)
      let report = try #require(result.outputLines.last)
      #expect(report.contains("\"endReason\":\"interrupted\""))
      let log = try MonitorLog(path)
      #expect(log.tornByteCount == 0)
      #expect(log.records.count == Tick.all(in: result.output).last?.count)
      #expect(report.contains("\"packets\":\(log.records.count),"))
    }
  }
}
