public import BLEWire

/// A scan that collects advertisers, with the radio switched off again whatever happens.
public struct Scanner: Sendable {
  /// What a handler wants after an advertiser.
  public enum Verdict: Sendable {
    case goOn, stop
  }

  public var kind: ScanKind
  public var duplicates: DuplicateFilter
  public var timing: ScanTiming
  /// Advertisers that are kept, so that what they say in several reports is put together.
  public var keeping: Int
  /// Gets each report, with nothing filtered, whatever `duplicates` says of the handler; on the receive thread.
  package var everyReport: (@Sendable (borrowing AdvertisingReport, ReceiveTime) -> Void)?

  public static let advertisers = Limit(
    4_096, "advertisers of a scan", by: .air,
    whenFull: "the one heard longest ago goes, and is a new one when it is heard again",
    counted: "`forgotten` of a scan")
  /// A scan response follows its advertisement: who looks for a device needs no more of the others.
  public static let searched = Limit(
    256, "advertisers of a search for a device", by: .air, whenFull: "the one heard longest ago goes",
    counted: "`forgotten`, told when the search ends")

  /// - Parameters:
  ///   - kind: whether scan responses are asked for.
  ///   - duplicates: whether the handler gets each report, or what is new.
  ///   - timing: how much of the time is listened.
  ///   - keeping: as many advertisers, at least one.
  public init(
    kind: ScanKind = .active, duplicates: DuplicateFilter = .reportOnce, timing: ScanTiming = .continuous,
    keeping: Int = Scanner.advertisers.count
  ) {
    self.kind = kind
    self.duplicates = duplicates
    self.timing = timing
    self.keeping = max(1, keeping)
  }

  /// Scans until `handler` says stop, `duration` is over, the task is cancelled, or the adapter is lost; then
  /// switches scanning off and waits for the controller to confirm it.
  ///
  /// `handler` gets an advertiser when it is first seen and when more of it is known (its name from a scan
  /// response, say); with `duplicates: .reportAll` on every report.
  ///
  /// - Parameters:
  ///   - adapter: what scans.
  ///   - duration: `nil` for no end.
  ///   - heard: gets what came, and what of it was not kept, also where scanning could not be switched off.
  ///   - handler: runs on the receive thread; must not block.
  /// - Returns: the same as `heard` gets.
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
    // Without the adapter nothing more will come; to switch it off fails then, and says why.
    await adapter.onLost { collector.finish() }
    await collector.wait(for: duration)
    // A cancelled task still stops the radio: nothing below looks at cancellation.
    var failure: HostError?
    do throws(HostError) { try await adapter.stopScan() } catch { failure = error }
    var report = collector.report
    report.malformed += await adapter.malformed - malformed
    report.unfinished = await adapter.unfinishedReports - unfinished
    heard(report)
    if let failure { throw failure }
    return report
  }

  /// The same with a queue to whoever reads on: what it has no room for is counted, and the receive thread never waits. The
  /// caller finishes the queue.
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
