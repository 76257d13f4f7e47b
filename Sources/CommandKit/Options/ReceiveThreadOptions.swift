package import ArgumentParser
package import BLELinux

/// How the receive thread gets at its processor, on every command that records or measures a stream.
package struct ReceiveThreadOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Let the receive thread look on for so long after the last packet before it sleeps. Costs a processor; saves the \
      wake-up.
      """, valueName: "microseconds"))
  package var spin = 0

  @Option(help: ArgumentHelp("Let the receive thread run on this processor only.", valueName: "number"))
  package var cpu: Int?

  @Option(
    help: ArgumentHelp(
      """
      Give the receive thread this real-time priority, 1 … 99 (SCHED_FIFO). Needs CAP_SYS_NICE; with CAP_IPC_LOCK the \
      program's memory stays resident too.
      """, valueName: "priority"))
  package var realtime: Int?

  package func validate() throws {
    guard (0...1_000_000).contains(spin) else {
      throw ValidationError("--spin must be 0 … 1000000 microseconds")
    }
    guard (0...1023).contains(cpu ?? 0) else { throw ValidationError("--cpu must be 0 … 1023") }
    guard (1...99).contains(realtime ?? 1) else { throw ValidationError("--realtime must be 1 … 99") }
  }

  package var tuning: LoopTuning {
    var tuning = LoopTuning()
    tuning.spinMicroseconds = spin
    tuning.processor = cpu
    tuning.realTimePriority = realtime
    return tuning
  }
}
