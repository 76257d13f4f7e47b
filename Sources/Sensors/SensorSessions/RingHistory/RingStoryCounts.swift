package import ColmiRing

extension RingStory {
  /// Counts of values by type.
  package struct Counts: Hashable, Sendable {
    /// An unknown command byte or data ID.
    package struct Unknown: Hashable, Sendable {
      package let channel: RingTranscript.Channel
      package let direction: RingTranscript.Direction
      package let code: UInt8
    }

    /// All values received. Each is also counted in one of `frames`, `messages`, `logFrames`, `pieces`,
    /// `unknown`, `invalid` and `rawFrames`.
    package var values = 0
    /// Single frames of the command channel, by their `kind` in JSON.
    package var frames: [String: Int] = [:]
    /// Messages of the big data channel, by their `kind` in JSON.
    package var messages: [String: Int] = [:]
    /// Values that were part of a message, which was completed later or never.
    package var pieces = 0
    package var logFrames: [RingLogKind: Int] = [:]
    package var rawFrames = 0
    package var unknown: [Unknown: Int] = [:]
    /// Invalid values by reason: `checksum`, `length`, `value`, `opcode`, or `log` for a frame that
    /// contradicts its log.
    package var invalid: [String: Int] = [:]

    /// Assembled logs, by their `kind` in JSON.
    package var logs: [String: Int] = [:]
    /// Number of incomplete logs among them.
    package var incompleteLogs = 0
    /// Logs of an unknown day; their rows are not in the tables.
    package var undatedLogs = 0
    /// Rows dropped because the tables were full.
    package var droppedRows = 0
  }
}
