import BLEHost
import BLELinux
import BLEWire
import CMallocCounter
import Synchronization

/// Measures a stream of notifications.
///
/// The receive thread only puts arrivals into a bounded queue, as a capture does with samples. Another thread
/// builds the histograms. The costs per notification are those of the receive thread.
final class NotificationMeter: Sendable {
  /// Kind of the values that are measured.
  enum Content: Hashable, Sendable {
    case opaque
    /// Values with a sequence number and a time, as sent by `EmulatedSource`.
    case source
  }

  /// Start of the measurement, relative to the first notification, and its end.
  struct Window: Hashable, Sendable {
    var settling: Duration
    var duration: Duration
    /// Maximum number of notifications; `nil` if unlimited.
    var count: Int?
  }

  /// One notification, queued for the counting thread.
  fileprivate struct Arrival: BitwiseCopyable, Sendable {
    let stamp: Int64
    let arrived: Int64
    /// Nanoseconds from the sender's timestamp to the callback; negative if unknown.
    let endToEnd: Int64
    let sequence: UInt32
    let batch: UInt32
    let byteCount: UInt16
  }

  /// State of the receive thread. Other threads read it only after the measurement has ended.
  private struct Receiver: Sendable {
    var first: Int64?
    var measured = 0
    var lastBatch: UInt64 = 0
    var batch: UInt32 = 0
    var begin: (usage: ThreadUsage, mallocs: UInt64, process: Int64)?
    var end: (usage: ThreadUsage, mallocs: UInt64, process: Int64)?
  }

  static let capacity = 1 << 16
  private static let gatherMilliseconds = 250

  private let content: Content
  private let window: Window
  private let arrivals = SampleQueue<Arrival>(capacity: capacity)
  private let receiver = Mutex(Receiver())
  private let isOver = Atomic<Bool>(false)
  private let result = OneShot<Measurement>()
  /// The event for which the counting thread waits. Signal the event after adding to the queue.
  let wake: WakeEvent

  init(_ content: Content, _ window: Window) throws(SystemError) {
    self.content = content
    self.window = window
    wake = try WakeEvent { [arrivals] in arrivals.isHalfFull }
    try SystemThread.start(named: "ringtap-meter", as: .patient) { [self] in count() }
  }

  // MARK: The receive thread

  func take(_ notification: borrowing HandleValueNotification, at time: ReceiveTime) {
    guard !isOver.load(ordering: .relaxed) else { return }
    let arrived = SystemClock.now().nanoseconds
    let calls = ThreadUsage.currentSystemCalls
    let value = notification.value
    var (sequence, endToEnd) = (UInt32(0), Int64(-1))
    if content == .source, value.count >= 4 {
      sequence = value.u32(at: 0)
      if value.count >= 12 {
        endToEnd = SystemClock.monotonic().nanoseconds - Int64(bitPattern: value.u64(at: 4))
      }
    }
    let byteCount = UInt16(value.count)
    guard let batch = receiver.withLock({ note(&$0, stamp: time.nanoseconds, calls) }) else { return }
    arrivals.push(
      Arrival(
        stamp: time.nanoseconds, arrived: arrived, endToEnd: endToEnd, sequence: sequence, batch: batch,
        byteCount: byteCount))
    if window.count != nil { receiver.withLock { if $0.measured == window.count { close(&$0) } } }
  }

  /// Counts a notification.
  ///
  /// - Returns: the number of the notification's batch; `nil` outside the window.
  private func note(_ receiver: inout Receiver, stamp: Int64, _ calls: UInt64) -> UInt32? {
    let first = receiver.first ?? stamp
    receiver.first = first
    let elapsed = Duration.nanoseconds(stamp - first)
    guard elapsed >= window.settling else { return nil }
    guard elapsed < window.settling + window.duration else {
      close(&receiver)
      return nil
    }
    if receiver.begin == nil { receiver.begin = Self.usage() }
    if calls != receiver.lastBatch {
      receiver.lastBatch = calls
      receiver.batch &+= 1
    }
    receiver.measured += 1
    return receiver.batch
  }

  private func close(_ receiver: inout Receiver) {
    receiver.end = receiver.end ?? Self.usage()
    isOver.store(true, ordering: .sequentiallyConsistent)
    wake.interrupt()
  }

  private static func usage() -> (ThreadUsage, UInt64, Int64) {
    (ThreadUsage.current(), malloc_counter_calls(), ThreadUsage.processNanoseconds)
  }

  // MARK: The end

  /// Waits for the end of the window, or until `stop` is called.
  func measurement() async -> Measurement { await result.value() }

  /// Ends the window. Call on the receive thread only.
  func stop() { receiver.withLock { close(&$0) } }

  /// Calls `stop` on the receive thread.
  actor Stopper {
    private let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

    init(_ loop: EventLoop) { self.loop = loop }

    func stop(_ meter: NotificationMeter) { meter.stop() }
  }

  // MARK: The thread that counts

  private func count() {
    var measurement = Measurement()
    var last: Arrival?
    var interval: Int64?
    var inBatch = 0
    while true {
      // Read this flag before draining the queue, so that arrivals before the end are counted.
      let isLast = isOver.load(ordering: .sequentiallyConsistent)
      let hadNothing = arrivals.isEmpty
      while let arrival = arrivals.pop() {
        measurement.take(arrival, after: last, &interval, &inBatch)
        last = arrival
      }
      if isLast { break }
      // Pauses to collect arrivals, as a capture's writer does, so that not every batch preempts the receive
      // thread.
      if hadNothing { wake.sleep { arrivals.isEmpty && !isOver.load(ordering: .sequentiallyConsistent) } }
      if !isOver.load(ordering: .sequentiallyConsistent) { wake.pause(milliseconds: Self.gatherMilliseconds) }
    }
    measurement.endBatch(inBatch)
    measurement.lostInQueue = arrivals.dropped
    receiver.withLock { receiver in
      guard let begin = receiver.begin, let end = receiver.end else { return }
      measurement.receiveNanoseconds = end.usage.processorNanoseconds - begin.usage.processorNanoseconds
      measurement.processNanoseconds = end.process - begin.process
      measurement.systemCalls = Int(end.usage.systemCalls - begin.usage.systemCalls)
      measurement.mallocs = Int(end.mallocs - begin.mallocs)
    }
    result.set(measurement)
  }

  /// Results of the measurement.
  struct Measurement: Sendable {
    var count = 0
    var octets = 0
    /// Kernel timestamps of the first and last notification.
    var first: Int64 = 0
    var last: Int64 = 0
    /// Time from the kernel's timestamp to the subscriber's callback.
    var latency = Durations()
    /// Time from the sender's timestamp to the subscriber's callback.
    var endToEnd = Durations()
    var intervals = Durations()
    /// Absolute differences between successive intervals.
    var jitter = Durations()
    /// Notifications received per system call. The values are counts, not durations.
    var batches = Durations()
    var batchCount = 0
    var lostInSequence = 0
    var lostInQueue = 0
    var receiveNanoseconds: Int64 = 0
    var processNanoseconds: Int64 = 0
    var systemCalls = 0
    var mallocs = 0

    fileprivate mutating func take(
      _ arrival: Arrival, after last: Arrival?, _ interval: inout Int64?, _ inBatch: inout Int
    ) {
      count += 1
      octets += Int(arrival.byteCount)
      if count == 1 { first = arrival.stamp }
      self.last = arrival.stamp
      latency.add(arrival.arrived - arrival.stamp)
      if arrival.endToEnd >= 0 { endToEnd.add(arrival.endToEnd) }
      guard let last else {
        inBatch = 1
        return
      }
      let between = arrival.stamp - last.stamp
      intervals.add(between)
      if let interval { jitter.add(abs(between - interval)) }
      interval = between
      // The count includes drops of the local queue, which `BenchReport` subtracts.
      if arrival.sequence > last.sequence { lostInSequence += Int(arrival.sequence - last.sequence) - 1 }
      if arrival.batch == last.batch {
        inBatch += 1
      } else {
        endBatch(inBatch)
        inBatch = 1
      }
    }

    fileprivate mutating func endBatch(_ size: Int) {
      guard size > 0 else { return }
      batches.add(Int64(size))
      batchCount += 1
    }

    var seconds: Double { Double(last - first) / 1e9 }
    var perSecond: Double { seconds > 0 ? Double(count - 1) / seconds : 0 }
  }
}
