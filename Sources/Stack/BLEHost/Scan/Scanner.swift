import BLELinux
import BLEStack
public import BLEWire
import Synchronization

/// A scan that collects advertisers and always turns scanning off at its end.
public struct Scanner: Sendable {
  /// A handler's decision after it received an advertiser.
  public enum Verdict: Sendable {
    case goOn, stop
  }

  public var kind: ScanKind
  public var duplicates: DuplicateFilter
  public var timing: ScanTiming
  /// Maximum number of advertisers to keep. A kept advertiser merges all its reports.
  public var keeping: Int
  /// Receives each report unfiltered, regardless of `duplicates`. Called on the receive thread.
  package var everyReport: (@Sendable (borrowing AdvertisingReport, ReceiveTime) -> Void)?

  public static let advertisers = Limit(
    4_096, "advertisers of a scan", by: .air,
    whenFull: "the one heard longest ago is dropped, and is new when it is heard again",
    counted: "`forgotten` of a scan")
  /// Maximum number of advertisers to keep in a search. A low limit is sufficient: a scan response directly
  /// follows its advertisement, and a search needs no further data of other advertisers.
  public static let searched = Limit(
    256, "advertisers of a search for a device", by: .air, whenFull: "the one heard longest ago is dropped",
    counted: "`forgotten`, reported when the search ends")

  /// Creates a scan.
  ///
  /// - Parameters:
  ///   - kind: whether scan responses are requested.
  ///   - duplicates: whether the handler receives each report or only new content.
  ///   - timing: scan interval and window.
  ///   - keeping: maximum number of advertisers to keep; at least one.
  public init(
    kind: ScanKind = .active, duplicates: DuplicateFilter = .reportOnce, timing: ScanTiming = .continuous,
    keeping: Int = Scanner.advertisers.count
  ) {
    self.kind = kind
    self.duplicates = duplicates
    self.timing = timing
    self.keeping = max(1, keeping)
  }

  /// Scans until `handler` returns `stop`, `duration` has passed, the task is cancelled, or the adapter
  /// fails. Then turns scanning off and waits for the controller's confirmation.
  /// `handler` receives an advertiser when it is first seen and when there is new content, such as its name
  /// from a scan response. With `duplicates: .reportAll`, `handler` receives an advertiser on every report.
  ///
  /// - Parameters:
  ///   - adapter: the adapter that scans.
  ///   - duration: `nil` for no limit.
  ///   - heard: receives the counts of the scan, even if scanning could not be turned off.
  ///   - handler: called on the receive thread; must not block.
  /// - Returns: The counts that `heard` receives.
  @discardableResult public func run(
    on adapter: any Adapter, for duration: Duration?, heard: (ScanReport) -> Void = { _ in },
    _ handler: @escaping @Sendable (Advertiser) -> Verdict
  ) async throws(HostError) -> ScanReport {
    let collector = Collector(
      reportsAll: duplicates == .reportAll, keeping: keeping, resolver: await adapter.addressResolver, handler
    )
    let (malformed, unfinished) = (await adapter.malformed, await adapter.unfinishedReports)
    let everyReport = everyReport
    let filter = everyReport == nil ? duplicates : .reportAll
    try await adapter.startScan(kind, timing: timing, duplicates: filter) { report, time in
      everyReport?(report, time)
      collector.take(report, time)
    }
    // A failed adapter sends no more reports. Turning the scan off then throws the reason.
    await adapter.onLost { collector.finish() }
    await collector.wait(for: duration)
    // Turn scanning off even if the task was cancelled: the calls below do not check for cancellation.
    var failure: HostError?
    do throws(HostError) { try await adapter.stopScan() } catch { failure = error }
    var report = collector.report
    report.malformed += await adapter.malformed - malformed
    report.unfinished = await adapter.unfinishedReports - unfinished
    heard(report)
    if let failure { throw failure }
    return report
  }

  /// Scans into a queue for a reader. If the queue is full, further advertisers are dropped and counted; the
  /// receive thread never waits. The caller finishes the queue.
  @discardableResult public func run(
    on adapter: any Adapter, for duration: Duration?, into queue: AdvertiserQueue,
    heard: (ScanReport) -> Void = { _ in }
  ) async throws(HostError) -> ScanReport {
    func complete(_ report: ScanReport) -> ScanReport {
      var report = report
      report.lost = queue.lost
      return report
    }
    return complete(
      try await run(on: adapter, for: duration, heard: { heard(complete($0)) }) { queue.add($0) })
  }
}

/// Merges reports on the receive thread by identity, or by address if there is no identity. A task can wait
/// for the end of the scan.
final class Collector: Sendable {
  private struct State: Sendable {
    /// Advertisers by identity, or by address if they have no identity.
    var advertisers: RecentTable<DeviceAddress, Advertiser>
    var report = ScanReport()
    var isDone = false
  }

  private let reportsAll: Bool
  private let resolver: AddressResolver?
  private let handler: @Sendable (Advertiser) -> Scanner.Verdict
  private let state: Mutex<State>
  private let done = OneShot<Void>()

  init(
    reportsAll: Bool, keeping limit: Int = Scanner.advertisers.count, resolver: AddressResolver? = nil,
    _ handler: @escaping @Sendable (Advertiser) -> Scanner.Verdict
  ) {
    self.reportsAll = reportsAll
    self.resolver = resolver
    self.handler = handler
    state = Mutex(State(advertisers: RecentTable(limit: limit)))
  }

  /// Counts of the scan. Advertisers dropped for a slow reader are not included.
  var report: ScanReport {
    state.withLock { state in
      var report = state.report
      report.forgotten = state.advertisers.forgotten
      return report
    }
  }

  /// Number of advertisers currently kept.
  var count: Int { state.withLock(\.advertisers.count) }

  func take(_ report: borrowing AdvertisingReport, _ time: ReceiveTime) {
    guard isWanted else { return }
    let identity = resolver?(report.address)
    var change = Advertiser.Change()
    let advertiser = state.withLock { state in
      state.advertisers.use(identity ?? report.address, first: Advertiser(address: .any)) { advertiser in
        change = advertiser.take(report, at: time)
        change.set(&advertiser.address, report.address)
        change.set(&advertiser.identity, identity)
        return change.isNews || reportsAll ? advertiser : nil
      }
    }
    if change.leftOut > 0 || change.error != nil {
      state.withLock { state in
        state.report.leftOut += change.leftOut
        state.report.malformed += change.error == nil ? 0 : 1
      }
    }
    if let advertiser, handler(advertiser) == .stop { finish() }
  }

  /// Whether to process a report. Reading this property counts the report.
  private var isWanted: Bool {
    state.withLock { state in
      if state.isDone { state.report.late += 1 } else { state.report.reports += 1 }
      return !state.isDone
    }
  }

  /// Waits until the handler returns `stop`, `duration` has passed, the task is cancelled, or `finish` is
  /// called.
  func wait(for duration: Duration?) async {
    let timer = duration.map { duration in
      Task { [self] in
        try? await Task.sleep(for: duration)
        finish()
      }
    }
    await withTaskCancellationHandler {
      await done.value()
    } onCancel: {
      finish()
    }
    timer?.cancel()
  }

  /// Ends the wait.
  func finish() {
    state.withLock { $0.isDone = true }
    done.set(())
  }
}

/// Counts of a scan: received reports, and losses. In a `--duplicates` scan each report is shown or counted
/// as `lost`.
public struct ScanReport: Hashable, Sendable {
  /// Advertising reports that were processed.
  public var reports = 0
  /// Reports that arrived while the scan was being turned off and were ignored.
  public var late = 0
  /// Malformed reports and structures.
  public var malformed = 0
  /// Long advertisements that were not received completely, including advertisements in progress when the
  /// scan ended.
  public var unfinished = 0
  /// Advertisers that were removed because the table was full (`Scanner.advertisers`).
  public var forgotten = 0
  /// Service UUIDs and structures that exceeded the limits of an advertiser.
  public var leftOut = 0
  /// Advertisers dropped because the reader was too slow (`AdvertiserQueue.limit`).
  public var lost = 0

  public init() {}

  /// Whether everything received fit within the limits.
  ///
  /// Ignores as many incomplete advertisements as the controller can send in fragments at the same time,
  /// because the end of the scan may interrupt them.
  public var isComplete: Bool {
    forgotten == 0 && leftOut == 0 && lost == 0
      && unfinished <= AdvertisingReportAssembler.limit.count
  }

  public static func += (all: inout ScanReport, part: ScanReport) {
    all.reports += part.reports
    all.late += part.late
    all.malformed += part.malformed
    all.unfinished += part.unfinished
    all.forgotten += part.forgotten
    all.leftOut += part.leftOut
    all.lost += part.lost
  }
}

/// A queue from the receive thread of a scan to a reader, which may be slow.
public final class AdvertiserQueue: Sendable {
  public static let limit = Limit(
    256, "advertisers queued for the reader of a scan", by: .air,
    whenFull: "the oldest is dropped",
    counted: "`lost` of a scan")

  /// Advertisers, each in its state after one report. For a single reader.
  public let advertisers: AsyncStream<Advertiser>
  private let sink: AsyncStream<Advertiser>.Continuation
  private let additions = Atomic(0)
  private let losses = Atomic(0)

  public init() {
    (advertisers, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.limit.count))
  }

  /// Number of advertisers added, including dropped advertisers.
  package var added: Int { additions.load(ordering: .relaxed) }
  /// Number of advertisers dropped because the queue was full.
  public var lost: Int { losses.load(ordering: .relaxed) }

  /// Sets a callback that is called when the reader ends.
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

  /// Ends the stream after the queued advertisers.
  public func finish() { sink.finish() }
}
