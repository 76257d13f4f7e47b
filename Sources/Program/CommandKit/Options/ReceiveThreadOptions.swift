package import ArgumentParser
package import BLELinux

/// Scheduling of the receive thread, on every command that records or measures a stream.
package struct ReceiveThreadOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Keep the receive thread polling for this long after each packet before it sleeps. Avoids the latency \
      of a wake-up, at the cost of a busy processor.
      """, valueName: "microseconds"), in: NumberRange(0...1_000_000, "microseconds"))
  package var spin = 0

  @Option(
    help: ArgumentHelp("Pin the receive thread to this processor.", valueName: "number"),
    in: NumberRange(0...1023))
  package var cpu: Int?

  @Option(
    help: ArgumentHelp(
      """
      Give the receive thread this real-time priority, 1 … 99 (SCHED_FIFO). Needs CAP_SYS_NICE; with \
      CAP_IPC_LOCK the program's memory is locked too.
      """, valueName: "priority"), in: NumberRange(1...99))
  package var realtime: Int?

  package var tuning: LoopTuning {
    var tuning = LoopTuning()
    tuning.spinMicroseconds = spin
    tuning.processor = cpu
    tuning.realTimePriority = realtime
    return tuning
  }
}
