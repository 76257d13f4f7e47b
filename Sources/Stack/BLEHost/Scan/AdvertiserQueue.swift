public import BLEWire
import Synchronization

/// From the receive thread of a scan to whoever reads, who may be slow.
public final class AdvertiserQueue: Sendable {
  public static let limit = Limit(
    256, "advertisers that wait for whoever reads a scan", by: .air,
    whenFull: "the one that waits longest goes",
    counted: "`lost` of a scan")

  /// Each as it was when it was heard; for one reader.
  public let advertisers: AsyncStream<Advertiser>
  private let sink: AsyncStream<Advertiser>.Continuation
  private let additions = Atomic(0)
  private let losses = Atomic(0)

  public init() {
    (advertisers, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.limit.count))
  }

  /// All that came, those that there was no room for among them.
  package var added: Int { additions.load(ordering: .relaxed) }
  /// Those that there was no room for.
  public var lost: Int { losses.load(ordering: .relaxed) }

  /// Does this when nobody reads any more.
  package func onEnd(_ body: @escaping @Sendable () -> Void) { sink.onTermination = { _ in body() } }

  /// Never waits.
  func add(_ advertiser: Advertiser) -> Scanner.Verdict {
    switch sink.yield(advertiser) {
    case .terminated: return .stop
    case .dropped: losses.add(1, ordering: .relaxed)
    default: break
    }
    additions.add(1, ordering: .relaxed)
    return .goOn
  }

  /// What waits is still read.
  public func finish() { sink.finish() }
}
