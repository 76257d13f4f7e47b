public import BLEHost
import Synchronization

/// The devices that advertise nearby, as a sequence: `Radio.advertisers(seenWithin:)`.
///
/// The scan starts and ends with the loop. The sequence ends without an error if its time limit has passed,
/// the task is cancelled, or the radio is used for something else. The sequence throws if the adapter rejects
/// the scan or is lost.
public struct Advertisers: AsyncSequence, Sendable {
  /// A device, with all data that it has advertised so far.
  public typealias Element = Advertiser
  /// The adapter's error.
  public typealias Failure = HostError

  private let radio: Radio
  private let duration: Duration?
  private let ended = EndedScans()

  init(_ radio: Radio, _ duration: Duration?) {
    self.radio = radio
    self.duration = duration
  }

  /// Counts of the ended scans of this sequence, including advertisers that the loop did not receive.
  public var report: ScanReport { ended.report.withLock { $0 } }

  /// Creates an independent scan, which starts with the first iteration.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(radio, duration, ended) }

  /// The iterator of one scan.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let radio: Radio
    private let duration: Duration?
    private let ended: EndedScans
    private var scan: Scan?

    fileprivate init(_ radio: Radio, _ duration: Duration?, _ ended: EndedScans) {
      self.radio = radio
      self.duration = duration
      self.ended = ended
    }

    /// Waits for the next device that is new, or whose advertised data has grown.
    ///
    /// - Throws: the adapter's error.
    public mutating func next() async throws(HostError) -> Advertiser? {
      try await next(isolation: #isolation)
    }

    /// Waits for the next device like `next()`, on an actor.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(HostError) -> Advertiser? {
      if scan == nil {
        await radio.scans.end()
        scan = Scan(on: radio, for: duration, ended)
      }
      if let advertiser = await scan?.found.next(isolation: actor) { return advertiser }
      if let failure = scan?.failure.value { throw failure }
      return nil
    }
  }
}

/// Total counts of the scans that have ended.
private final class EndedScans: Sendable {
  let report = Mutex(ScanReport())
}

/// A scan, which runs until `end` is called, its iterator is released, or its time limit has passed.
private struct Scan {
  var found: AsyncStream<Advertiser>.Iterator
  let failure = Failure()

  final class Failure: Sendable {
    private let error = Mutex<HostError?>(nil)
    var value: HostError? {
      get { error.withLock { $0 } }
      set { error.withLock { $0 = newValue } }
    }
  }

  init(on radio: Radio, for duration: Duration?, _ ended: EndedScans) {
    let queue = AdvertiserQueue()
    found = queue.advertisers.makeAsyncIterator()
    let (adapter, failure) = (radio.adapter, failure)
    let task = Task {
      do throws(HostError) {
        try await Scanner().run(on: adapter, for: duration, into: queue) { report in
          ended.report.withLock { $0 += report }
        }
      } catch { failure.value = error }
      queue.finish()
    }
    queue.onEnd { task.cancel() }
    radio.scans.begin(task)
  }
}

/// Ensures that a scan ends before the radio is used for something else.
final class ScanTurn: Sendable {
  private let scan = Mutex<Task<Void, Never>?>(nil)

  func begin(_ task: Task<Void, Never>) { scan.withLock { $0 = task } }

  /// Ends the current scan, and waits until the radio is free.
  func end() async {
    let task = scan.withLock { $0.take() }
    task?.cancel()
    await task?.value
  }
}
