import BLELinux
import Synchronization

/// One reader of a stream, with its queue of lines and the thread that sends them. Adding lines never blocks.
final class StreamReader: Sendable {
  private enum Phase: Int, AtomicRepresentable {
    case open
    /// No more lines come. The queue is still sent.
    case ending
    /// The reader was given up.
    case abandoned
  }

  private let sink: any LineSink
  private let queue = Mutex(LineQueue())
  private let wake: WakeEvent
  private let phase = Atomic<Phase>(.open)
  /// Number of bytes sent, to detect a stalled reader.
  private let sentCount = Atomic<Int>(0)
  private let over = OneShot<Void>()

  init(_ sink: any LineSink) throws(SystemError) {
    self.sink = sink
    wake = try WakeEvent()
  }

  /// Starts to send.
  ///
  /// - Parameter ended: called once, on the reader's thread, if the reader disconnects or writing fails
  ///   before `end` is called.
  func start(ended: @escaping @Sendable (StreamReader, SystemError) -> Void) throws(SystemError) {
    // Low priority: the recording goes first.
    try SystemThread.start(named: "ringtap-stream", as: .patient) { [self] in
      do throws(SystemError) { try send() } catch {
        if phase.load(ordering: .acquiring) != .abandoned { ended(self, error) }
      }
      sink.close()
      over.set(())
    }
  }

  /// Number of lines that the reader did not get, reported or not. At the end it includes queued lines.
  var missed: Int { queue.withLock { $0.missed + $0.waitingCount } }

  func offer(_ batch: LineBatch) {
    queue.withLock { $0.append(batch) }
    wake.signal()
  }

  func offer(_ line: [UInt8], _ kind: LineQueue.Kind) {
    queue.withLock { $0.append(line, kind) }
    wake.signal()
  }

  /// Rejects the reader. Nothing was started.
  func refuse() { sink.close() }

  // MARK: The end

  /// Marks the end: no more lines come.
  func end() {
    _ = phase.compareExchange(expected: .open, desired: .ending, ordering: .acquiringAndReleasing)
    wake.interrupt()
  }

  /// Waits, after `end`, until everything is sent or the reader accepts no data for `patience`.
  func ended(within patience: Duration) async {
    let watch = Task { [self] in
      var seen = sentCount.load(ordering: .relaxed)
      while (try? await Task.sleep(for: patience)) != nil {
        let sent = sentCount.load(ordering: .relaxed)
        guard sent != seen else { return abandon() }
        seen = sent
      }
    }
    await withTaskCancellationHandler {
      await over.value()
    } onCancel: {
      abandon()
    }
    watch.cancel()
  }

  /// Gives up the reader. A thread blocked on a full pipe is left behind.
  private func abandon() {
    guard over.current == nil else { return }
    phase.store(.abandoned, ordering: .releasing)
    sink.close()
    over.set(())
  }

  // MARK: The thread

  private func send() throws(SystemError) {
    var octets: [UInt8] = []
    while phase.load(ordering: .acquiring) != .abandoned {
      // Read the phase first: lines from before the end are taken below.
      let isEnding = phase.load(ordering: .acquiring) != .open
      queue.withLock { $0.take(into: &octets) }
      if octets.isEmpty, isEnding { return }
      try send(octets)
      wake.sleep { queue.withLock(\.isEmpty) && phase.load(ordering: .acquiring) == .open }
    }
  }

  private func send(_ octets: [UInt8]) throws(SystemError) {
    var offset = 0
    while offset < octets.count, phase.load(ordering: .acquiring) != .abandoned {
      let count = try sink.write(octets.span.extracting(offset...))
      offset += count
      queue.withLock { $0.noteSent(count) }
      sentCount.add(count, ordering: .relaxed)
    }
  }
}
