import ArgumentParser
import BLECore
import BLEPacketLog
import Foundation

extension LogCommand {
  /// `ringtap log stats`: what a log holds, in numbers.
  struct Stats: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "stats",
      abstract: "Measure the connections of a packet log.",
      discussion: """
        EXAMPLES
          ringtap log stats packets.btsnoop
              packets, commands and events; for each connection its parameters and
              their changes, throughput, updates per attribute, latencies, gaps

          ringtap log stats packets.btsnoop --svg packets.svg
              also draws updates over time and the histogram of their intervals

          ringtap log stats packets.btsnoop --json | jq '.connections[].attributes'
              for programs: one object; durations in nanoseconds

        An interval is the time from one update of an attribute to the next. Jitter
        is how much an interval differs from the one before. A gap is longer than
        five times the median interval (or the mean, if that is longer). Latency is
        the time from a request to its answer. Percentiles are within 0.8 %; all
        other numbers are exact.

        A log that ends inside a record counts up to there; the exit status is 1.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Flag(help: "Print one JSON object.")
    var json = false

    @Option(help: ArgumentHelp("Draw into this file.", valueName: "file"))
    var svg: String?

    func run() throws {
      let input = try open()
      let (report, problem) = try measure(input)
      do {
        if json {
          var line = JSONLine()
          line.value(report)
          line.endLine()
          try write(line.octets)
        } else {
          try write(StatisticsText(report).utf8)
        }
      } catch { throw ExitCode.failure }
      if let svg { try draw(report, into: svg) }
      if let problem { throw failure(problem) }
    }

    /// In pieces: the text of many connections is long, and `Console` copies what it writes.
    private func write(_ text: some Collection<UInt8>) throws {
      var rest = text[...]
      while !rest.isEmpty {
        try Console.write(rest.prefix(Self.chunkByteCount))
        rest = rest.dropFirst(Self.chunkByteCount)
      }
    }

    /// Octets read or written at once: what bounds the memory, with the longest packet.
    private static let chunkByteCount = 262_144

    private func open() throws -> FileHandle {
      if file == "-" { return .standardInput }
      do {
        return try FileHandle(forReadingFrom: URL(filePath: file))
      } catch {
        throw failure("cannot open the log: \(reason(error))")
      }
    }

    /// What the good records say, and what is wrong with the first bad one.
    private func measure(_ input: FileHandle) throws -> (LogReport, problem: String?) {
      var statistics = LogStatistics()
      var reader = BTSnoopReader()
      var progress = Progress(input, isRegular: file != "-")
      defer { progress.clear() }
      do {
        while let chunk = try input.read(upToCount: Self.chunkByteCount), !chunk.isEmpty {
          try reader.read(chunk.span) { record in statistics.take(record) }
          progress.advance(by: chunk.count, records: reader.recordCount)
        }
        try reader.finish()
        return (statistics.finish(), nil)
      } catch let error as WireError {
        guard reader.format != nil else { throw failure("not a btsnoop log: \(error)") }
        return (statistics.finish(), "\(error); the \(reader.recordCount) records before are good")
      } catch {
        throw failure(reason(error))
      }
    }

    /// How far it is, on a terminal.
    private struct Progress {
      /// Octets; 0 where it is not known.
      private var total: UInt64 = 0
      private var taken: UInt64 = 0
      private var shown: UInt64 = 0

      init(_ input: FileHandle, isRegular: Bool) {
        // What cannot seek, such as a pipe with a name, has no length either.
        guard isRegular, let end = try? input.seekToEnd() else { return }
        try? input.seek(toOffset: 0)
        total = end
      }

      mutating func advance(by byteCount: Int, records: Int) {
        taken += UInt64(byteCount)
        guard taken - shown >= 16_000_000 else { return }
        shown = taken
        let share = total > 0 ? "\(taken * 100 / total) %, " : ""
        Console.progress("\(share)\(records) records")
      }

      func clear() { if shown > 0 { Console.progress("") } }
    }

    private func draw(_ report: LogReport, into path: String) throws {
      let picture = StatisticsPicture(report)
      do {
        try Data(picture.octets).write(to: URL(filePath: path))
      } catch {
        throw failure("cannot write \(path): \(reason(error))")
      }
    }

    /// Foundation's errors say in many words what errno says in few.
    private func reason(_ error: any Error) -> String {
      let underlying = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError
      let cause = underlying ?? error as NSError
      return cause.localizedFailureReason ?? cause.localizedDescription
    }

    private func failure(_ message: String) -> ExitCode {
      Console.note("\(file == "-" ? "standard input" : file): \(message)")
      return .failure
    }
  }
}
