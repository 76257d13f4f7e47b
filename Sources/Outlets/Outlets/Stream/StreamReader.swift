import BLELinux
import Fleet
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
      do throws(SystemError) { try send() } catch { if outbox.phase != .abandoned { ended(self, error) } }
      sink.close()
    }
  }

  /// Number of lines that the reader did not get, whether or not this has been reported to it. Includes lines
  /// that are queued or being sent.
  var missed: Int { state.withLock { $0.queue.missed + $0.queue.waitingCount + $0.underWay } }

  func offer(_ batch: LineBatch) {
    state.withLock { $0.queue.append(batch) }
    outbox.wake.signal()
  }

  func offer(_ line: [UInt8], _ kind: LineQueue.Kind) {
    state.withLock { $0.queue.append(line, kind) }
    outbox.wake.signal()
  }

  /// Rejects the reader before it is started.
  func refuse() { sink.close() }

  /// Marks the end: no further lines are added.
  func end() { outbox.end() }

  /// Waits until everything is sent or the reader has accepted no data for `patience`. If the thread is
  /// blocked on a full pipe then, it is left running.
  func finish(within patience: Duration) async {
    // A reader that was slow before the end gets the whole time, too.
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

/// Destination of one reader's lines. Called on the reader's own thread, so calls may block.
protocol LineSink: Sendable {
  /// Waits until the reader accepts data, and writes as many bytes as possible.
  ///
  /// - Returns: number of bytes written.
  /// - Throws: EPIPE or ECONNRESET if the reader has disconnected.
  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int
  /// Closes the sink. Interrupts a waiting `write`. May be called from any thread.
  func close()
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
