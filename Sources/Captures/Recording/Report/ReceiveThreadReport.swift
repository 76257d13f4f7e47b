public import BLELinux
package import JSONText

/// Tuning of a receive thread, as shown in `session.json` and `ringtap bench`, because measurements depend on
/// it.
public struct ReceiveThreadReport: Hashable, Sendable, CustomStringConvertible {
  public var tuning: LoopTuning
  /// Whether the process's memory was locked.
  public var locksMemory: Bool

  /// - Returns: `nil` if the tuning is the default.
  public init?(_ loop: EventLoop) {
    guard !loop.tuning.isDefault else { return nil }
    (tuning, locksMemory) = (loop.tuning, loop.locksMemory)
  }

  public var description: String {
    var parts: [String] = []
    if tuning.spinMicroseconds > 0 { parts.append("polls for \(tuning.spinMicroseconds) µs") }
    if let processor = tuning.processor { parts.append("on processor \(processor)") }
    if let priority = tuning.realTimePriority {
      parts.append(
        "SCHED_FIFO \(priority), memory " + (locksMemory ? "resident" : "not locked (CAP_IPC_LOCK)"))
    }
    return parts.joined(separator: ", ")
  }

  /// Encodes the member `receiveThread`.
  package func encode(into line: inout JSONLine) {
    line.member("receiveThread") { line in
      if tuning.spinMicroseconds > 0 { line.member("spinMicroseconds", tuning.spinMicroseconds) }
      if let processor = tuning.processor { line.member("processor", processor) }
      if let priority = tuning.realTimePriority {
        line.member("realTimePriority", priority)
        line.member("locksMemory", locksMemory)
      }
    }
  }
}

extension SessionReport {
  mutating func takeTuning(of loop: EventLoop) { receiveThread = ReceiveThreadReport(loop) }
}
