import BLELinux
import BLEWire
import Fleet
import JSONText
import Synchronization

/// One reader of a stream, with its queue of lines and the thread that sends them. Adding lines never blocks.
final class StreamReader: Sendable {
  private struct State: Sendable {
    var queue = LineQueue()
    /// Number of lines that were taken from the queue, but not sent completely.
    var underWay = 0
  }

  private let sink: any LineSink
  private let state = Mutex(State())
  private let outbox: Outbox

  init(_ sink: any LineSink) throws(SystemError) {
    self.sink = sink
    outbox = Outbox(try WakeEvent()) { sink.close() }
  }

  /// Starts the thread that sends lines.
  ///
  /// - Parameter ended: called once, on the reader's thread, if the reader disconnects or writing fails
  ///   before the reader is abandoned.
  func start(ended: @escaping @Sendable (StreamReader, SystemError) -> Void) throws(SystemError) {
    try outbox.start(named: "ringtap-stream") { [self] in
      do throws(SystemError) {
        try send()
        sink.end()
      } catch { if outbox.phase != .abandoned { ended(self, error) } }
      sink.close()
    }
  }

  /// Number of lines that the reader has not received, including lines that are queued or being sent.
  var missed: Int { state.withLock { $0.queue.missed + $0.queue.waitingCount + $0.underWay } }

  func offer(_ batch: LineBatch) {
    state.withLock { $0.queue.append(batch) }
    outbox.wake.signal()
  }

  func offer(_ line: [UInt8], _ kind: LineQueue.Kind) {
    state.withLock { $0.queue.append(line, kind) }
    outbox.wake.signal()
  }

  /// Stops sending, because the reader has disconnected.
  func abandon() { outbox.abandon() }

  /// Marks the end of the lines: no further lines will be added.
  func end() { outbox.end() }

  /// Waits until all lines are sent, or the reader has accepted no data for `patience`. A thread that is
  /// blocked on a full pipe continues to run.
  func finish(within patience: Duration) async {
    // A reader that was slow before the end gets the full time limit.
    outbox.noteProgress()
    await outbox.finish(within: patience)
  }

  // MARK: The thread

  private func send() throws(SystemError) {
    var octets: [UInt8] = []
    while outbox.phase != .abandoned {
      // Read the phase before taking lines, so that lines added before the end are still sent.
      let isEnding = outbox.phase != .open
      state.withLock { state in
        state.underWay = state.queue.waitingCount
        state.queue.take(into: &octets)
      }
      if octets.isEmpty, isEnding { return }
      try send(octets)
      outbox.wake.sleep { state.withLock(\.queue.isEmpty) && outbox.phase == .open }
    }
  }

  private func send(_ octets: [UInt8]) throws(SystemError) {
    var offset = 0
    while offset < octets.count, outbox.phase != .abandoned {
      let count = try sink.write(octets.span.extracting(offset...))
      let lines = octets[offset..<offset + count].count { $0 == UInt8(ascii: "\n") }
      offset += count
      state.withLock { state in
        state.queue.noteSent(count)
        state.underWay -= lines
      }
      outbox.noteProgress()
    }
  }
}

/// Destination of one reader's lines. Calls may block, because they come from the reader's own thread.
protocol LineSink: Sendable {
  /// Waits until the reader accepts data, and writes as many bytes as possible.
  ///
  /// - Parameter octets: lines; the first line may be the rest of an incompletely written line.
  /// - Returns: number of bytes written.
  /// - Throws: EPIPE or ECONNRESET if the reader has disconnected.
  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int
  /// Tells the reader that no further lines follow.
  func end()
  /// Closes the sink. Interrupts a waiting `write`. May be called from any thread.
  func close()
}

extension LineSink {
  func end() {}
}

/// A program connected to a port.
final class SocketSink: LineSink {
  private let descriptor: FileDescriptor

  init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }

  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int {
    while true {
      do throws(SystemError) { return try descriptor.send(octets) } catch {
        guard error.condition == .wouldBlock else { throw error }
        descriptor.waitUntilWritable()
      }
    }
  }

  func close() {
    descriptor.discardInput()
    descriptor.shutDown()
  }
}

/// Standard output: a pipe, a file or a terminal.
struct StandardOutputSink: LineSink {
  /// Number of bytes that can be written to a writable pipe without blocking: PIPE_BUF.
  private static let step = 4096

  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int {
    _ = StandardStream.output.isWritable(within: -1)
    let count = min(octets.count, Self.step)
    try StandardStream.output.write(octets.extracting(..<count))
    return count
  }

  func close() {}
}

/// Lines that are sent to all readers at once.
struct LineBatch: Sendable {
  private(set) var octets: [UInt8] = []
  /// Offset of the end of each line.
  private(set) var ends: [Int] = []

  mutating func append(_ line: [UInt8]) {
    octets += line
    ends.append(octets.count)
  }

  mutating func removeAll() {
    octets.removeAll(keepingCapacity: true)
    ends.removeAll(keepingCapacity: true)
  }
}

/// Queue of lines for one reader. If the queue is full, lines are dropped for this reader only, and counted.
/// When there is space again, a `missed` line reports the number of dropped lines in their place.
struct LineQueue {
  /// Type of a line, which determines how much of the queue the line may use.
  enum Kind: Sendable {
    case sample
    /// A rare line that is more important than a sample, and may exceed the limit.
    case notice
  }

  static let limit = Limit(
    1 << 20, "bytes of lines that wait for one reader of a stream", by: .program,
    whenFull: "further lines are dropped for this reader only", counted: "`missed` lines to the reader")
  /// Bytes beyond the limit that are reserved for notices.
  private static let reserve = 64 << 10
  /// Bytes that must be free before lines are accepted again. With less space, every few
  /// lines would be followed by a `missed` line.
  private static let leastRoom = 64 << 10

  var waiting: [UInt8] = []
  /// Number of bytes that the sender has taken but not sent yet.
  private var underWay = 0
  /// Number of dropped lines that have not been reported to the reader yet.
  private(set) var untold = 0
  /// Total number of dropped lines.
  private(set) var missed = 0

  var isEmpty: Bool { waiting.isEmpty }
  /// Number of lines that the sender has not taken yet.
  var waitingCount: Int { waiting.count { $0 == UInt8(ascii: "\n") } }

  private var byteCount: Int { waiting.count + underWay }

  mutating func append(_ batch: LineBatch) {
    if untold == 0, byteCount + batch.octets.count <= Self.limit.count {
      waiting += batch.octets
      return
    }
    var start = 0
    for end in batch.ends {
      append(batch.octets[start..<end], .sample)
      start = end
    }
  }

  mutating func append(_ line: some Collection<UInt8>, _ kind: Kind) {
    let limit = Self.limit.count + (kind == .notice ? Self.reserve : 0)
    let least = untold > 0 && kind == .sample ? Self.leastRoom : 0
    guard byteCount + max(line.count, least) <= limit else {
      untold += 1
      missed += 1
      return
    }
    tellMissed()
    waiting += line
  }

  /// Moves all queued bytes into `octets`, and keeps the buffer of `octets` for reuse.
  mutating func take(into octets: inout [UInt8]) {
    octets.removeAll(keepingCapacity: true)
    swap(&octets, &waiting)
    underWay = octets.count
  }

  /// Records that the sender has sent `count` of the taken bytes.
  mutating func noteSent(_ count: Int) {
    underWay -= count
    // Report dropped lines now, because no further line may arrive to trigger the report.
    if untold > 0, byteCount + Self.leastRoom <= Self.limit.count { tellMissed() }
  }

  private mutating func tellMissed() {
    guard untold > 0 else { return }
    var line = JSONLine()
    line.object { line in
      line.member("stream", "missed")
      line.member("lines", untold)
    }
    line.endLine()
    waiting += line.octets
    untold = 0
  }
}
