import BLEWire
import Synchronization

/// Queue of lines for a database, with counts of confirmed, rejected and dropped lines. Adding lines never
/// blocks.
final class InfluxBuffer: Sendable {
  /// Lines that are sent together.
  struct Batch: Sendable {
    var octets: [UInt8] = []
    var lines = 0
  }

  /// The outcome of sending a batch.
  enum Fate: Sendable {
    case confirmed, refused
  }

  /// Numbers of lines by outcome.
  struct Counts: Hashable, Sendable {
    /// Lines that the server confirmed, lines that it rejected, and lines that did not fit into the queue.
    var confirmed = 0
    var refused = 0
    var dropped = 0
    /// Lines that are queued or in flight.
    var waiting = 0
  }

  static let limit = Limit(
    16 << 20, "bytes of lines that wait for a database", by: .broker, whenFull: "further lines are dropped",
    counted: "a message at the end, and exit status 4")
  /// Size in bytes at which a batch is sent before its second has passed.
  static let batchByteCount = 128 << 10

  private struct State: Sendable {
    var batches: [Batch] = []
    /// Total size of the queued lines and of the lines in flight, in bytes.
    var byteCount = 0
    var counts = Counts()
  }

  private let state = Mutex(State())

  // MARK: Adding lines

  /// Adds a line.
  ///
  /// - Parameter line: a line with its line feed.
  func append(_ line: [UInt8]) {
    state.withLock { state in
      guard state.byteCount + line.count <= Self.limit.count else {
        state.counts.dropped += 1
        return
      }
      state.byteCount += line.count
      state.counts.waiting += 1
      if state.batches.last.map({ $0.octets.count >= Self.batchByteCount }) ?? true {
        state.batches.append(Batch())
      }
      let last = state.batches.count - 1
      state.batches[last].octets += line
      state.batches[last].lines += 1
    }
  }

  // MARK: Sending lines

  var isEmpty: Bool { state.withLock(\.batches.isEmpty) }

  /// Whether a batch is full.
  var isUrgent: Bool {
    state.withLock { ($0.batches.first?.octets.count ?? 0) >= Self.batchByteCount }
  }

  /// Removes the oldest batch. Its lines count as waiting until `settle` is called for the batch.
  func take() -> Batch? { state.withLock { $0.batches.isEmpty ? nil : $0.batches.removeFirst() } }

  func settle(_ batch: Batch, as fate: Fate) {
    state.withLock { state in
      state.byteCount -= batch.octets.count
      state.counts.waiting -= batch.lines
      switch fate {
      case .confirmed: state.counts.confirmed += batch.lines
      case .refused: state.counts.refused += batch.lines
      }
    }
  }

  var counts: Counts { state.withLock(\.counts) }
}
