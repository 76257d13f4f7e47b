package import BLELinux
package import BLEWire
package import Fleet
package import Recording
import Synchronization

/// Where Home Assistant gets its messages.
package struct HomePlan: Hashable, Sendable {
  /// The level above all topics where Home Assistant looks for what there is, unless it was told otherwise.
  package static let defaultPrefix = "homeassistant"

  package var broker: BrokerAddress
  /// PEM; `nil`: those certificates that the system trusts.
  package var certificates: String?
  /// Of this program.
  package var version: String

  package init(_ broker: BrokerAddress, certificates: String?, version: String) {
    (self.broker, self.certificates, self.version) = (broker, certificates, version)
  }

  /// Begins to tell of a device, whose recordings get the run's watcher.
  ///
  /// - Parameters:
  ///   - address: of the device.
  ///   - kind: as commands name it, such as `heart-rate`.
  ///   - name: as it is advertised, or a configuration calls it.
  ///   - note: gets a line about the broker when that changes.
  package func begin(
    _ address: DeviceAddress, kind: String, name: String?, note: @escaping @Sendable (String) -> Void
  ) throws(SystemError) -> HomeRun {
    let device = HomeDevice(address, kind: kind, name: name, below: broker.prefix, version: version)
    return try HomeRun(device, self, note: note)
  }
}

/// What Home Assistant is told while a command records: of one device, or of several.
package final class HomeAssistant: Sendable {
  private let plan: HomePlan
  private let note: @Sendable (String) -> Void
  private let runs = Mutex<[HomeRun]>([])

  package init(_ plan: HomePlan, note: @escaping @Sendable (String) -> Void) {
    (self.plan, self.note) = (plan, note)
  }

  /// - Returns: who watches the recording of a device; `nil` where that cannot be, which is told.
  package func watcher(_ address: DeviceAddress, kind: String, name: String?) -> (any RecordingWatcher)? {
    do throws(SystemError) {
      let run = try plan.begin(address, kind: kind, name: name, note: note)
      runs.withLock { $0.append(run) }
      return run.watcher
    } catch {
      note("Home Assistant is told nothing of \(address): \(error)")
      return nil
    }
  }

  /// Nothing was recorded, or nothing more is wanted.
  package func abandon() { for run in runs.withLock(\.self) { run.abandon() } }

  /// Waits until the broker has the end of all, or is not there.
  ///
  /// - Returns: why something was not told; `nil` where all was.
  package func finish() async -> String? {
    let runs = runs.withLock { $0 }
    return await withTaskGroup(of: String?.self) { group in
      for run in runs { group.addTask { await run.finish() } }
      return await group.reduce(nil) { $0 ?? $1 }
    }
  }
}
