import BLEWire
import Synchronization

/// The lines that wait for a database, and what became of all. Whoever has lines for it never waits.
final class InfluxBuffer: Sendable {
  enum Phase: Int, AtomicRepresentable, Sendable {
    case open
    /// Nothing more comes; what waits is sent.
    case ending
    /// What waits is left.
    case abandoned
  }

  /// Lines that go out together.
  struct Batch: Sendable {
    var octets: [UInt8] = []
    var lines = 0
  }

  /// What a server made of a batch.
  enum Fate: Sendable {
    case confirmed, refused
  }

  /// What became of lines.
  struct Counts: Hashable, Sendable {
    /// Are known to be with the server, or were refused by it, or found no room.
    var confirmed = 0
    var refused = 0
    var dropped = 0
    /// Wait, or are under way.
    var waiting = 0
  }

  static let limit = Limit(
    16 << 20, "bytes of lines that wait for a database", by: .broker, whenFull: "further lines are dropped",
    counted: "a message at the end, and exit status 4")
  /// Bytes from which on a batch leaves before its second is over.
  static let batchByteCount = 128 << 10

  private struct State: Sendable {
    var batches: [Batch] = []
    /// What is under way included.
    var byteCount = 0
    var counts = Counts()
  }

  private let state = Mutex(State())
  private let current = Atomic<Phase>(.open)

  // MARK: Who has lines

  /// - Parameter line: with its end.
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

  // MARK: Who sends them

  var isIdle: Bool { phase == .open && state.withLock(\.batches.isEmpty) }

  /// Whether a batch is full, or nothing more comes.
  var isUrgent: Bool {
    phase != .open || state.withLock { ($0.batches.first?.octets.count ?? 0) >= Self.batchByteCount }
  }

  /// The oldest lines; they are `settle`d or still wait at the end.
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

  // MARK: The end

  var phase: Phase { current.load(ordering: .sequentiallyConsistent) }

  func end() {
    _ = current.compareExchange(expected: .open, desired: .ending, ordering: .sequentiallyConsistent)
  }

  func abandon() { current.store(.abandoned, ordering: .sequentiallyConsistent) }
}
