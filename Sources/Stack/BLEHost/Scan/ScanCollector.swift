import BLELinux
import BLEStack
import BLEWire
import Synchronization

/// Merges reports on the receive thread by identity, or by address if there is no identity. Lets a task wait
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

  /// Counts a report and returns whether to process it.
  private var isWanted: Bool {
    state.withLock { state in
      if state.isDone { state.report.late += 1 } else { state.report.reports += 1 }
      return !state.isDone
    }
  }

  /// Returns when the handler returns `stop`, `duration` has passed, the task is cancelled, or `finish` is
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
