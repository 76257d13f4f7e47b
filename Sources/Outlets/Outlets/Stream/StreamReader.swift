import BLELinux
import Synchronization

/// One reader of a stream: the lines that wait for it, and the thread that sends them. Whoever has lines for it never waits.
final class StreamReader: Sendable {
  private enum Phase: Int, AtomicRepresentable {
    case open
    /// Nothing more comes; what waits is sent.
    case ending
    /// Nobody waits for it any more.
    case abandoned
  }

  private let sink: any LineSink
  private let queue = Mutex(LineQueue())
  private let wake: WakeEvent
  private let phase = Atomic<Phase>(.open)
  /// Octets, for who looks whether it goes on.
  private let sentCount = Atomic<Int>(0)
  private let over = OneShot<Void>()

  init(_ sink: any LineSink) throws(SystemError) {
    self.sink = sink
    wake = try WakeEvent()
  }

  /// Begins to send.
  ///
  /// - Parameter ended: called once on the reader's thread where the reader has gone, or can take no more, before it was told to
  ///   end.
  func start(ended: @escaping @Sendable (StreamReader, SystemError) -> Void) throws(SystemError) {
    // It has time: the recording goes first.
    try SystemThread.start(named: "ringtap-stream", as: .patient) { [self] in
      do throws(SystemError) { try send() } catch {
        if phase.load(ordering: .acquiring) != .abandoned { ended(self, error) }
      }
      sink.close()
      over.set(())
    }
  }

  /// Lines that the reader did not get, told or not; at the end those that wait, too.
  var missed: Int { queue.withLock { $0.missed + $0.waitingCount } }

  func offer(_ batch: LineBatch) {
    queue.withLock { $0.append(batch) }
    wake.signal()
  }

  func offer(_ line: [UInt8], _ kind: LineQueue.Kind) {
    queue.withLock { $0.append(line, kind) }
    wake.signal()
  }

  /// Refuses it: nothing was started.
  func refuse() { sink.close() }

  // MARK: The end

  /// Nothing more comes.
  func end() {
    _ = phase.compareExchange(expected: .open, desired: .ending, ordering: .acquiringAndReleasing)
    wake.interrupt()
  }

  /// After `end`: waits until all is sent, for as long as the reader takes something within `patience`.
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

  /// Waits for it no longer. A thread that stands before a full pipe is left there.
  private func abandon() {
    guard over.current == nil else { return }
    phase.store(.abandoned, ordering: .releasing)
    sink.close()
    over.set(())
  }

  // MARK: Its thread

  private func send() throws(SystemError) {
    var octets: [UInt8] = []
    while phase.load(ordering: .acquiring) != .abandoned {
      // Read first: what came before the end is taken below.
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
