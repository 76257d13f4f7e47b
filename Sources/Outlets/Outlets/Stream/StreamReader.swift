import BLELinux
import Fleet
import Synchronization

/// One reader of a stream, with its queue of lines and the thread that sends them. Adding lines never blocks.
final class StreamReader: Sendable {
  private let sink: any LineSink
  private let queue = Mutex(LineQueue())
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

  /// Number of lines that the reader did not get, whether or not this has been reported to it. At the end it
  /// includes queued lines.
  var missed: Int { queue.withLock { $0.missed + $0.waitingCount } }

  func offer(_ batch: LineBatch) {
    queue.withLock { $0.append(batch) }
    outbox.wake.signal()
  }

  func offer(_ line: [UInt8], _ kind: LineQueue.Kind) {
    queue.withLock { $0.append(line, kind) }
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
      queue.withLock { $0.take(into: &octets) }
      if octets.isEmpty, isEnding { return }
      try send(octets)
      outbox.wake.sleep { queue.withLock(\.isEmpty) && outbox.phase == .open }
    }
  }

  private func send(_ octets: [UInt8]) throws(SystemError) {
    var offset = 0
    while offset < octets.count, outbox.phase != .abandoned {
      let count = try sink.write(octets.span.extracting(offset...))
      offset += count
      queue.withLock { $0.noteSent(count) }
      outbox.noteProgress()
    }
  }
}
