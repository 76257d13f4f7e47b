import ArgumentParser
import BLEDissector
import BLELinux
import BLEPacketLog
import BLEWire
import CommandKit
import JSONText
import Recording

extension LogCommand {
  /// `ringtap log stats`: statistics of a log.
  struct Stats: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "stats",
      abstract: "Measure the connections of a packet log.",
      discussion: """
        EXAMPLES
          ringtap log stats packets.btsnoop
              packets, commands and events; for each connection its parameters and
              their changes, throughput, updates per attribute, latencies, pauses

          ringtap log stats packets.btsnoop --svg packets.svg
              also draws updates over time and the histogram of their intervals

          ringtap log stats packets.btsnoop --json | jq '.connections[].attributes'
              for programs: one object; durations in nanoseconds

          ringtap log stats sniffer.pcapng --ltk 7f62c053f104a5bbe68b1d896a2ed49c
              an air log: also packets by kind, and for each link packets that were
              retransmitted, missed, damaged, encrypted

        An interval is the time from one update of an attribute to the next. Jitter is the difference \
        between consecutive intervals. A pause is longer than five times the median interval (or the mean, \
        if that is longer). Latency is the time from a request to its response. Percentiles are within 0.8 \
        %; all other numbers are exact.

        If a log ends within a record, the packets before are counted and the exit status is 1.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Flag(help: "Print one JSON object.")
    var json = false

    @Option(help: ArgumentHelp("Draw a chart as SVG into this file.", valueName: "file"))
    var svg: String?

    @OptionGroup var overwriting: OverwriteOptions

    @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

    func run() throws {
      try overwriting.check(svg, "--svg", inputs: [file])
      let (report, problem) = try measure()
      if json {
        var line = JSONLine()
        line.value(report)
        line.endLine()
        try write(line.octets)
      } else {
        try write(StatisticsText(report).utf8)
      }
      if let svg { try draw(report, into: svg) }
      if let problem { throw Failure("\(problem)") }
    }

    /// Writes in chunks, because the text of many connections is long, and `Console` copies its argument.
    private func write(_ text: some Collection<UInt8>) throws {
      var rest = text[...]
      while !rest.isEmpty {
        try Console.write(rest.prefix(Self.chunkByteCount))
        rest = rest.dropFirst(Self.chunkByteCount)
      }
    }

    /// Number of bytes per write.
    private static let chunkByteCount = 262_144

    /// Returns the statistics of the valid records, and the error of the first invalid record.
    private func measure() throws -> (LogReport, problem: LogReader.Problem?) {
      let log = try air.open(file, times: .corrected)
      var statistics = LogStatistics()
      var progress = LogProgress(log.isCompressed ? [] : [file], beside: .nothing)
      defer { progress.finish() }
      while log.read({ statistics.take($0) }) { progress.update(log.byteCount, records: log.recordCount) }
      if let problem = log.problem {
        if problem.isTotal { throw Failure("\(problem)") }
      } else if let remark = log.remark {
        if log.isForeign { throw Failure("\(log.name): \(remark)") }
        Console.note("\(log.name): \(remark)")
      }
      var report = statistics.finish(with: log.airReport())
      report.take(log.timeline)
      return (report, log.problem)
    }

    private func draw(_ report: LogReport, into path: String) throws {
      let picture = StatisticsPicture(report)
      let octets = picture.octets
      do throws(SystemError) { try Files.write(octets.span, to: path, ifExists: overwriting.existing) } catch
      {
        throw Failure("\(LogReader.name(of: file)): cannot write \(path): \(error)")
      }
    }
  }
}
