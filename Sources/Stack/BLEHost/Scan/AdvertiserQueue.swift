public import BLEWire
import Synchronization

/// A queue from the receive thread of a scan to a reader, which may be slow.
public final class AdvertiserQueue: Sendable {
  public static let limit = Limit(
    256, "advertisers queued for the reader of a scan", by: .air,
    whenFull: "the oldest is dropped",
    counted: "`lost` of a scan")

  /// Advertisers, each in the state that followed its report. For a single reader.
  public let advertisers: AsyncStream<Advertiser>
  private let sink: AsyncStream<Advertiser>.Continuation
  private let additions = Atomic(0)
  private let losses = Atomic(0)

  public init() {
    (advertisers, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.limit.count))
  }

  /// Number of advertisers added, including those dropped.
  package var added: Int { additions.load(ordering: .relaxed) }
  /// Number of advertisers dropped because the queue was full.
  public var lost: Int { losses.load(ordering: .relaxed) }

  /// Sets a callback for the end of the reader.
  package func onEnd(_ body: @escaping @Sendable () -> Void) { sink.onTermination = { _ in body() } }

  /// Queues an advertiser, or drops it if the queue is full. Never blocks.
  func add(_ advertiser: Advertiser) -> Scanner.Verdict {
    switch sink.yield(advertiser) {
    case .terminated: return .stop
    case .dropped: losses.add(1, ordering: .relaxed)
    default: break
    }
    additions.add(1, ordering: .relaxed)
    return .goOn
  }

  /// Ends the stream after the advertisers that are queued.
  public func finish() { sink.finish() }
}
