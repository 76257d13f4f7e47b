import Glibc
import Simulation

// Runs simulations, one seed after the other, until one has a finding. See `Tools/simulate`.

/// A run's report as lines of text.
func text(_ report: Simulation.Report) -> String {
  func list(_ counts: [String: Int]) -> String {
    counts.isEmpty
      ? "none" : counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
  }
  let hours = Double(report.virtualSeconds / 36) / 100
  return """
      \(report.events) events in \(hours) h, \(report.scenes) scenes (\(report.resets) ended by a reset), \
    \(report.links) links (\(report.orphans) left to the reset), trace \(String(report.checksum, radix: 16))
      faults: \(list(report.faults))
      requests: \(report.requestCount): \(list(report.requests))
      frames: \(report.sent) sent + \(report.duplicated) doubled = \(report.received) received + \
    \(report.lostCount) lost (\(list(report.lost))); of those received \(report.dropped) found a full queue
      memory: \(report.memory.early) octets early, \(report.memory.end) at the end
    """
}

/// Writes without a buffer, so that the output before a crash is not lost.
func put(_ text: String, to descriptor: CInt = 1) {
  var text = text
  _ = text.withUTF8 { write(descriptor, $0.baseAddress, $0.count) }
}

func usage() -> Never {
  put("usage: simulate FIRST-SEED SEEDS EVENTS | clock FIRST-SEED | align DIRECTORY\n", to: 2)
  exit(2)
}

if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "clock" {
  guard let first = UInt64(CommandLine.arguments[2]) else { usage() }
  put(
    LinkTrials.table() + "\n\n" + LinkTrials.drops() + "\n\n" + LinkTally.table(links: 120, first: first)
      + "\n")
  exit(0)
}

if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "align" {
  put(try await AlignGrid.run(in: CommandLine.arguments[2]) { put($0 + "\n", to: 2) } + "\n")
  exit(0)
}

let numbers = CommandLine.arguments.dropFirst().compactMap { UInt64($0) }
guard numbers.count == 3, CommandLine.arguments.count == 4 else { usage() }
let (first, count, events) = (numbers[0], numbers[1], Int(numbers[2]))
let isTerminal = isatty(2) == 1
var total = Simulation.Report()

for seed in first..<first + count {
  put("seed \(seed)\n")
  do {
    let report = try await Simulation(seed: seed, events: events).run { events in
      if isTerminal { put("\r  \(events) events ", to: 2) }
    }
    if isTerminal { put("\r\u{1B}[K", to: 2) }
    put(text(report) + "\n")
    total.add(report)
  } catch {
    if isTerminal { put("\r\u{1B}[K", to: 2) }
    put("FOUND: \(error)\nrun it again: Tools/simulate --seed \(seed) --events \(events)\n")
    exit(1)
  }
}
if count > 1 { put("all \(count) seeds\n\(text(total))\n") }
