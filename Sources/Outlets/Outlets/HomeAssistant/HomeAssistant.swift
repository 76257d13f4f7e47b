package import BLELinux
package import BLEWire
package import Fleet
package import Recording
import Synchronization

/// Broker and settings for publishing to Home Assistant.
package struct HomePlan: Hashable, Sendable {
  /// Default discovery prefix of Home Assistant: the first level of all topics.
  package static let defaultPrefix = "homeassistant"

  package var broker: BrokerAddress
  /// PEM file of CA certificates; `nil` for the system's certificates.
  package var certificates: String?
  /// Version of ringtap.
  package var version: String

  package init(_ broker: BrokerAddress, certificates: String?, version: String) {
    (self.broker, self.certificates, self.version) = (broker, certificates, version)
  }

  /// Starts publishing a device. Each recording of the device must use the watcher of the returned run.
  ///
  /// - Parameters:
  ///   - address: address of the device.
  ///   - kind: the device kind that commands use, such as `heart-rate`.
  ///   - name: the advertised name, or the name from the configuration.
  ///   - note: called with a line of text when the state of the broker changes.
  package func begin(
    _ address: DeviceAddress, kind: String, name: String?, note: @escaping @Sendable (String) -> Void
  ) throws(SystemError) -> HomeRun {
    let device = HomeDevice(address, kind: kind, name: name, below: broker.prefix, version: version)
    return try HomeRun(device, self, note: note)
  }
}

/// Publishes one or more devices to Home Assistant while a command records.
package final class HomeAssistant: Sendable {
  private let plan: HomePlan
  private let note: @Sendable (String) -> Void
  private let runs = Mutex<[HomeRun]>([])

  package init(_ plan: HomePlan, note: @escaping @Sendable (String) -> Void) {
    (self.plan, self.note) = (plan, note)
  }

  /// Returns a watcher for the recording of a device.
  ///
  /// - Returns: `nil` on failure. In this case, the user has been notified.
  package func watcher(_ address: DeviceAddress, kind: String, name: String?) -> (any RecordingWatcher)? {
    do throws(SystemError) {
      let run = try plan.begin(address, kind: kind, name: name, note: note)
      runs.withLock { $0.append(run) }
      return run.watcher
    } catch {
      note("cannot publish \(address) to Home Assistant: \(error)")
      return nil
    }
  }

  /// Stops publishing at once. Call this if nothing was recorded or the user cancelled.
  package func abandon() { for run in runs.withLock(\.self) { run.abandon() } }

  /// Waits until the broker has all final messages, or cannot be reached.
  ///
  /// - Returns: the reason why a message was not published; `nil` if all messages were published.
  package func finish() async -> String? {
    let runs = runs.withLock { $0 }
    return await withTaskGroup(of: String?.self) { group in
      for run in runs { group.addTask { await run.finish() } }
      return await group.reduce(nil) { $0 ?? $1 }
    }
  }
}
