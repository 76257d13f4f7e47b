import BLELinux
import Dispatch
import Foundation
import Glibc
import Commands

/// A ringtap command line that reads a fuzzer's input.
public struct FuzzCommand: Sendable {
  public let arguments: [String]
  /// Standard input; empty if `nil`.
  public var input: String?
  /// Output path.
  public var output: String

  /// Maximum number of bytes that a command may print; much more than any fuzzer input contains.
  private static let outputLimit = 16 << 20

  /// Traps unless the help lists the exit status, and the output is printable and parses.
  public func check(status: CInt, output: [UInt8], errors: [UInt8]) {
    precondition((0...4).contains(status), "\(arguments): exit status \(status)")
    precondition(status == 0 || !errors.isEmpty, "\(arguments): exit status \(status), and not a word")
    precondition(output.count + errors.count <= Self.outputLimit, "\(arguments): no end of output")
    checkText(errors)
    if arguments.contains("--json") { checkJSON(output) } else { checkText(output) }
  }
}

extension FuzzTarget {
  /// Complete commands. `Tools/test` runs the program for each, because the output would otherwise mix with
  /// that of the tests.
  public static let commands: [FuzzTarget] = [.logCommand, .captureCommand, .textCommand]

  /// Writes an input to the place where a command reads it. The first byte selects the command.
  ///
  /// - Returns: `nil` for an input that is too short, or for a target that is not a command.
  public func command(_ input: Span<UInt8>) -> FuzzCommand? {
    guard !input.isEmpty else { return nil }
    let rest = input.extracting(1...)
    switch self {
    case .logCommand: return commandOnLog(Int(input[0]), rest)
    case .captureCommand: return commandOnCapture(Int(input[0]), rest)
    case .textCommand: return commandOnText(Int(input[0]), rest)
    default: return nil
    }
  }
}

private let commandFolder = FuzzFolder("command")
private let resultFolder = FuzzFolder("result")
private let streamFolder = FuzzFolder("streams")

/// A command on a packet log in any of the formats.
private func commandOnLog(_ choice: Int, _ octets: Span<UInt8>) -> FuzzCommand {
  commandFolder.empty()
  resultFolder.empty()
  commandFolder.write(octets, "log")
  let (log, result) = (commandFolder.path + "/log", resultFolder.path + "/result")
  let replay = ["--transport", "replay:\(log),speed=max", "--timeout", "2"]
  let commands: [[String]] = [
    ["log", "show", log], ["log", "show", "--json", log],
    ["log", "show", "--layer", "att", "--context", "2", log],
    ["log", "stats", log], ["log", "stats", "--json", log], ["log", "stats", "--svg", result, log],
    ["log", "convert", "--format", "btsnoop", log, "--output", result],
    ["log", "convert", "--format", "btsnoop-hci", log, "--output", result],
    ["log", "convert", "--format", "btsnoop-monitor", log, "--output", result],
    ["log", "convert", "--format", "pcapng", log, "--output", result],
    ["log", "convert", "--format", "pcap", log, "--output", result],
    ["log", "convert", "--anonymise", log, "--output", result],
    ["log", "convert", "--split", "connection", log, "--output", result],
    ["report", "--output", result, log], ["report", "--output", result, "--svg", result + ".svg", log],
    ["import", log, "--output", result], ["import", log, "--output", result, "--json"],
    ["analyse", "--json", log], ["convert", "--to", "npy", "--output", result, log],
    ["scan", "--json", "--duration", "1", "--transport", "replay:\(log),speed=max"],
    ["capture", "--output", result] + replay, ["capture", "heart-rate", "--output", result] + replay,
    ["capture", "polar", "--output", result] + replay,
  ]
  return FuzzCommand(arguments: commands[choice % commands.count], output: resultFolder.path)
}

/// A command on a capture's directory, written as for `fuzzCapture`.
private func commandOnCapture(_ choice: Int, _ packets: Span<UInt8>) -> FuzzCommand {
  commandFolder.empty()
  resultFolder.empty()
  writeCapture(packets, in: commandFolder)
  let (capture, result) = (commandFolder.path, resultFolder.path + "/result")
  let commands: [[String]] =
    [
      ["analyse", capture], ["analyse", "--json", capture], ["analyse", "--output", result, capture],
      ["report", "--output", result, capture],
      ["report", "--output", result, "--svg", result + ".svg", "--png", result + ".png", capture],
      ["convert", "--to", "csv", "--json", "--output", result, capture],
    ]
    + ["csv", "npy", "edf", "bdf", "wfdb", "ndjson"].map {
      ["convert", "--to", $0, "--output", result, capture]
    }
  return FuzzCommand(arguments: commands[choice % commands.count], output: resultFolder.path)
}

/// A command on text that a user writes, or that another program writes to a pipe.
private func commandOnText(_ choice: Int, _ octets: Span<UInt8>) -> FuzzCommand {
  commandFolder.empty()
  resultFolder.empty()
  commandFolder.write(octets, "text")
  let text = commandFolder.path + "/text"
  let commands: [(arguments: [String], isInput: Bool)] = [
    (["daemon", "--check", text], false), (["decode"], true), (["ring", "decode"], true),
    (["ring", "decode", "--contents"], true), (["log", "show", "-"], true), (["log", "stats", "-"], true),
  ]
  let (arguments, isInput) = commands[choice % commands.count]
  return FuzzCommand(arguments: arguments, input: isInput ? text : nil, output: resultFolder.path)
}

/// Runs a command in this process and checks its result.
func fuzzCommand(_ command: FuzzCommand?) {
  guard let command else { return }
  let streams = (0...2).map { dup(CInt($0)) }
  let input = open(command.input ?? "/dev/null", O_RDONLY | O_CLOEXEC)
  let (output, errors) = (streamFolder.stream("output"), streamFolder.stream("errors"))
  for (stream, file) in [input, output, errors].enumerated() { dup2(file, CInt(stream)) }
  let done = DispatchSemaphore(value: 0)
  nonisolated(unsafe) var status: CInt = -1
  Task.detached {
    status = await Ringtap.status(of: command.arguments)
    done.signal()
  }
  done.wait()
  for (stream, file) in streams.enumerated() { dup2(file, CInt(stream)) }
  command.check(status: status, output: contents(of: output), errors: contents(of: errors))
  for file in streams + [input, output, errors] { close(file) }
}

private func contents(of file: CInt) -> [UInt8] {
  [UInt8](unsafeUninitializedCapacity: max(0, Int(lseek(file, 0, SEEK_END)))) { buffer, count in
    count = max(0, pread(file, buffer.baseAddress, buffer.count, 0))
  }
}
