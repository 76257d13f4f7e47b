import BLECore
import BLELinux
import BLEWire
import Synchronization

/// Merges reports by address, or by who is known to be behind it, on the receive thread and lets a task wait for the verdict.
final class Collector: Sendable {
  private struct State: Sendable {
    /// By identity, else by address.
    var advertisers: [DeviceAddress: Advertiser] = [:]
    var malformed = 0
    var isDone = false
  }

  private let reportsAll: Bool
  private let resolver: AddressResolver?
  private let handler: @Sendable (Advertiser) -> Scanner.Verdict
  private let state = Mutex(State())
  private let done = OneShot<Void>()

  init(
    reportsAll: Bool, resolver: AddressResolver? = nil,
    _ handler: @escaping @Sendable (Advertiser) -> Scanner.Verdict
  ) {
    self.reportsAll = reportsAll
    self.resolver = resolver
    self.handler = handler
  }

  var malformed: Int { state.withLock(\.malformed) }

  func take(_ report: borrowing AdvertisingReport, _ time: ReceiveTime) {
    let identity = resolver?(report.address)
    let key = identity ?? report.address
    var advertiser = state.withLock { $0.advertisers[key] } ?? Advertiser(address: report.address)
    let isNew = advertiser.latest.nanoseconds == 0 || advertiser.address != report.address
    advertiser.address = report.address
    advertiser.identity = identity
    var known = advertiser
    do throws(WireError) {
      _ = try advertiser.merge(report, at: time)
    } catch {
      // What came before the bad structure counts: a name is a name, whatever its padding.
      state.withLock { $0.malformed += 1 }
    }
    known.rssi = advertiser.rssi
    known.latest = advertiser.latest
    let isChanged = isNew || known != advertiser
    let isDone = state.withLock {
      $0.advertisers[key] = advertiser
      return $0.isDone
    }
    guard !isDone, isChanged || reportsAll else { return }
    if handler(advertiser) == .stop { finish() }
  }

  /// Returns when the handler said stop, `duration` is over, the task is cancelled, or somebody finished it.
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
