import BLELinux
import Synchronization

/// One reader of a stream, with its queue of lines and the thread that sends them. Adding lines never blocks.
final class StreamReader: Sendable {
  private enum Phase: Int, AtomicRepresentable {
    case open
    /// No further lines are added. The queued lines are still sent.
    case ending
    /// The reader is not served any more.
    case abandoned
  }

  private let sink: any LineSink
  private let queue = Mutex(LineQueue())
  private let wake: WakeEvent
  private let phase = Atomic<Phase>(.open)
  /// Number of bytes sent, for detecting a reader that accepts no data.
  private let sentCount = Atomic<Int>(0)
  private let over = OneShot<Void>()

  init(_ sink: any LineSink) throws(SystemError) {
    self.sink = sink
    wake = try WakeEvent()
  }

  /// Starts the thread that sends lines.
  ///
  /// - Parameter ended: called once, on the reader's thread, if the reader disconnects or writing fails
  ///   before `end` is called.
  func start(ended: @escaping @Sendable (StreamReader, SystemError) -> Void) throws(SystemError) {
    // The thread has a low priority, because the recording has precedence.
    try SystemThread.start(named: "ringtap-stream", as: .patient) { [self] in
      do throws(SystemError) { try send() } catch {
        if phase.load(ordering: .acquiring) != .abandoned { ended(self, error) }
      }
      sink.close()
      over.set(())
    }
  }

  /// Number of lines that the reader did not get, whether or not this has been reported to it. At the end it
  /// includes queued lines.
  var missed: Int { queue.withLock { $0.missed + $0.waitingCount } }

  func offer(_ batch: LineBatch) {
    queue.withLock { $0.append(batch) }
    wake.signal()
  }

  func offer(_ line: [UInt8], _ kind: LineQueue.Kind) {
    queue.withLock { $0.append(line, kind) }
    wake.signal()
  }

  /// Rejects the reader before it is started.
  func refuse() { sink.close() }

  // MARK: The end

  /// Marks the end: no further lines are added.
  func end() {
    _ = phase.compareExchange(expected: .open, desired: .ending, ordering: .acquiringAndReleasing)
    wake.interrupt()
  }

  /// Waits, after `end` was called, until everything is sent or the reader has accepted no data for
  /// `patience`.
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

  /// Stops serving the reader. If the thread is blocked on a full pipe, it is left running.
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
      // Read the phase before taking lines, so that lines added before the end are still sent.
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
