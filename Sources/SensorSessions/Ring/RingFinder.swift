import BLECore
public import BLEHost
import BLEWire
import ColmiRing
import Synchronization

/// Finds rings by their advertised names: their service is usually not advertised.
public enum RingFinder {
  /// Scans until a connectable ring is seen; the radio is off again when this returns.
  ///
  /// - Parameters:
  ///   - name: an exact name to wait for, `nil` for the first ring.
  ///   - adapter: what scans.
  ///   - duration: how long to look.
  /// - Throws: `notFound` where none came, and whatever the adapter says.
  public static func find(
    named name: String? = nil, on adapter: any Adapter, within duration: Duration
  ) async throws(HostError) -> Advertiser {
    let found = try await find(1, named: name, on: adapter, within: duration)
    guard let advertiser = found.first else {
      throw .notFound(name.map { "device named \($0)" } ?? "ring", seconds: Int(duration.components.seconds))
    }
    return advertiser
  }

  /// The same for several rings.
  ///
  /// - Parameters:
  ///   - count: how many to look for.
  ///   - name: an exact name to wait for, `nil` for any ring.
  ///   - adapter: what scans.
  ///   - duration: how long to look.
  /// - Returns: in the order in which they were seen; fewer than asked for where no more came in time.
  public static func find(
    _ count: Int, named name: String? = nil, on adapter: any Adapter, within duration: Duration
  ) async throws(HostError) -> [Advertiser] {
    let found = Mutex<[Advertiser]>([])
    _ = try await Scanner(kind: .active, duplicates: .reportOnce).run(on: adapter, for: duration) {
      advertiser in
      guard advertiser.isConnectable, let candidate = advertiser.name,
        name.map({ $0 == candidate }) ?? RingName.matches(candidate)
      else { return .goOn }
      return found.withLock { found in
        if !found.contains(where: { $0.address == advertiser.address }) { found.append(advertiser) }
        return found.count < count ? .goOn : .stop
      }
    }
    return found.withLock { $0 }
  }
}
