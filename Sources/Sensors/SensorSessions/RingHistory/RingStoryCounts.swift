package import ColmiRing

extension RingStory {
  /// What the values were.
  package struct Counts: Hashable, Sendable {
    /// A command byte or a data id that is not known.
    package struct Unknown: Hashable, Sendable {
      package let channel: RingTranscript.Channel
      package let direction: RingTranscript.Direction
      package let code: UInt8
    }

    /// All that came. Each is one of the others: `frames`, `messages`, `logFrames`, `pieces`, `unknown`, `invalid` or
    /// `rawFrames`.
    package var values = 0
    /// Frames of the command channel that stand alone, by the `kind` that they have in JSON.
    package var frames: [String: Int] = [:]
    /// Messages of the big data channel likewise.
    package var messages: [String: Int] = [:]
    /// Values that went into a message that ended later, or never.
    package var pieces = 0
    package var logFrames: [RingLogKind: Int] = [:]
    package var rawFrames = 0
    package var unknown: [Unknown: Int] = [:]
    /// By what is wrong: `checksum`, `length`, `value`, `opcode`, or `log` for a frame that contradicts its log.
    package var invalid: [String: Int] = [:]

    /// Logs that were put together, by the `kind` that they have in JSON.
    package var logs: [String: Int] = [:]
    /// Of those, how many lack a part.
    package var incompleteLogs = 0
    /// Logs whose day nobody told: their rows are not in the tables.
    package var undatedLogs = 0
    /// Rows for which the tables had no room.
    package var droppedRows = 0
  }
}
