import BLECore
public import BLEHost
import BLESensors
import BLEWire
import Synchronization

/// Finds a ring by its advertised name: its service is usually not advertised.
public enum RingFinder {
  /// Scans until a connectable ring is seen; the radio is off again when this returns.
  ///
  /// - Parameters:
  ///   - name: an exact name to wait for, `nil` for the first ring.
  ///   - duration: how long to look.
  /// - Throws: `notFound` where none came, and whatever the adapter says.
  public static func find(
    named name: String? = nil, on adapter: any Adapter, within duration: Duration
  ) async throws(HostError) -> Advertiser {
    let found = Mutex<Advertiser?>(nil)
    _ = try await Scanner(kind: .active, duplicates: .reportOnce).run(on: adapter, for: duration) {
      advertiser in
      guard advertiser.isConnectable, let candidate = advertiser.name,
        name.map({ $0 == candidate }) ?? RingName.matches(candidate)
      else { return .goOn }
      found.withLock { $0 = advertiser }
      return .stop
    }
    guard let advertiser = found.withLock({ $0 }) else {
      throw .notFound(name.map { "device named \($0)" } ?? "ring", seconds: Int(duration.components.seconds))
    }
    return advertiser
  }
}
