import ArgumentParser
import BLELinux
import BLEWire
import CommandKit
import Commands
import Glibc
import HarnessKit
import Recording

/// `harness record`: records numbered packets as `ringtap log record` records the kernel's, for tests of its files.
///
/// Prints how many packets were queued, and when, unless standard output is the log.
struct RecordCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "record", abstract: "Record numbered packets as `ringtap log record` does the kernel's.")

  @OptionGroup var options: LogRecordCommand

  @Option(help: "Packets a second.", in: NumberRange(1...1_000_000, "a second"))
  var synthetic = 1000

  func run() async throws {
    let (rate, isLogOnOutput) = (synthetic, options.output == "-")
    try await options.record { plan in
      LogRecording(to: plan) { () throws(SystemError) in
        try SyntheticSource(ratePerSecond: rate) { count, time in
          if isLogOnOutput { return }
          // The process that kills this one may have exited first.
          try? Console.print("\(count) \(time.nanoseconds)")
        }
      }
    }
  }
}
