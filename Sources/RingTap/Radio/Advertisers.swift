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

  init(_ radio: Radio, _ duration: Duration?) {
    self.radio = radio
    self.duration = duration
  }

  /// A scan of its own; it begins with the first turn.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(radio, duration) }

  /// One scan.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let radio: Radio
    private let duration: Duration?
    private var scan: Scan?

    init(_ radio: Radio, _ duration: Duration?) {
      self.radio = radio
      self.duration = duration
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
        scan = Scan(on: radio, for: duration)
      }
      if let advertiser = await scan?.found.next(isolation: actor) { return advertiser }
      if let failure = scan?.failure.value { throw failure }
      return nil
    }
  }
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

  init(on radio: Radio, for duration: Duration?) {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Advertiser.self, bufferingPolicy: .bufferingNewest(ScanTurn.queueLimit))
    found = stream.makeAsyncIterator()
    let (adapter, failure) = (radio.adapter, failure)
    let task = Task {
      do throws(HostError) {
        _ = try await Scanner().run(on: adapter, for: duration) { advertiser in
          continuation.yield(advertiser)
          return .goOn
        }
      } catch { failure.value = error }
      continuation.finish()
    }
    continuation.onTermination = { _ in task.cancel() }
    radio.scans.begin(task)
  }
}

/// Has one scan end before the radio is asked for something else.
final class ScanTurn: Sendable {
  /// Advertisers that may wait for a slow loop.
  static let queueLimit = 1024

  private let scan = Mutex<Task<Void, Never>?>(nil)

  func begin(_ task: Task<Void, Never>) { scan.withLock { $0 = task } }

  /// Ends the scan that is on, and waits until the radio is free.
  func end() async {
    let task = scan.withLock { $0.take() }
    task?.cancel()
    await task?.value
  }
}
