public import BLEWire

/// A scan that collects advertisers and always turns scanning off at its end.
public struct Scanner: Sendable {
  /// A handler's decision after it received an advertiser.
  public enum Verdict: Sendable {
    case goOn, stop
  }

  public var kind: ScanKind
  public var duplicates: DuplicateFilter
  public var timing: ScanTiming
  /// Maximum number of advertisers to keep, in order to merge the reports of each.
  public var keeping: Int
  /// Receives each report unfiltered, regardless of `duplicates`. Called on the receive thread.
  package var everyReport: (@Sendable (borrowing AdvertisingReport, ReceiveTime) -> Void)?

  public static let advertisers = Limit(
    4_096, "advertisers of a scan", by: .air,
    whenFull: "the one heard longest ago is dropped, and is new when it is heard again",
    counted: "`forgotten` of a scan")
  /// Few are enough: a scan response follows its advertisement, and a search needs no other data of other
  /// advertisers.
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
  ///
  /// `handler` receives an advertiser when it is first seen and when there is new content, such as its name
  /// from a scan response; with `duplicates: .reportAll`, on every report.
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
    // A failed adapter sends no more reports. Turning the scan off then fails with the reason.
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

  /// Scans into a queue for a reader. Advertisers for which the queue has no room are dropped and counted;
  /// the receive thread never waits. The caller finishes the queue.
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
