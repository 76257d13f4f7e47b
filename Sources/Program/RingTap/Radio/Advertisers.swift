public import BLEHost
import Synchronization

/// What advertises nearby, as a sequence: `Radio.advertisers(seenWithin:)`.
///
/// The scan begins with the loop and ends with it, whatever ends that. It ends without an error where the time is over, the
/// task is cancelled, or the radio is asked for something else; with one where the adapter refuses or is lost.
public struct Advertisers: AsyncSequence, Sendable {
  /// A device, as far as it is known then.
  public typealias Element = Advertiser
  /// What the adapter says.
  public typealias Failure = HostError

  private let radio: Radio
  private let duration: Duration?
  private let ended = EndedScans()

  init(_ radio: Radio, _ duration: Duration?) {
    self.radio = radio
    self.duration = duration
  }

  /// What the scans of this sequence heard that have ended, and what of it the loop did not get.
  public var report: ScanReport { ended.report.withLock { $0 } }

  /// A scan of its own; it begins with the first turn.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(radio, duration, ended) }

  /// One scan.
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

    /// The next device that is new, or of which more is known.
    ///
    /// - Throws: what the adapter says.
    public mutating func next() async throws(HostError) -> Advertiser? {
      try await next(isolation: #isolation)
    }

    /// The same, for an actor.
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

/// What those heard that are over.
private final class EndedScans: Sendable {
  let report = Mutex(ScanReport())
}

/// A scan that goes on until somebody ends it, nobody listens any more, or its time is over.
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

/// Has one scan end before the radio is asked for something else.
final class ScanTurn: Sendable {
  private let scan = Mutex<Task<Void, Never>?>(nil)

  func begin(_ task: Task<Void, Never>) { scan.withLock { $0 = task } }

  /// Ends the scan that is on, and waits until the radio is free.
  func end() async {
    let task = scan.withLock { $0.take() }
    task?.cancel()
    await task?.value
  }
}
