public import BLECore
public import BLEHost
import BLEWire
import Synchronization

/// How a sensor is told from other devices while it advertises: by a service, or by how its name begins.
///
/// ```swift
/// let straps = SensorSearch("heart-rate sensor", services: [.heartRate], nameStarts: ["Polar ", "TICKR "])
/// let strap = try await SensorFinder.find(straps, on: adapter, within: .seconds(20))
/// ```
public struct SensorSearch: Sendable {
  /// What is looked for, as messages say it: "no heart-rate sensor found within 20 s".
  public var name: String
  /// Any of these services is enough.
  public var services: [BluetoothUUID]
  /// Any of these beginnings of the advertised name is enough: many sensors do not advertise their service.
  public var nameStarts: [String]
  /// For names with a form of their own.
  package var matchesName: @Sendable (String) -> Bool = { _ in false }

  /// - Parameters:
  ///   - name: what is looked for, in a word or two.
  ///   - services: those that it advertises.
  ///   - nameStarts: how its advertised name begins, upper and lower case as it sends them.
  public init(_ name: String, services: [BluetoothUUID], nameStarts: [String] = []) {
    self.name = name
    self.services = services
    self.nameStarts = nameStarts
  }

  /// Whether it is one, as far as an advertisement tells.
  public func matches(_ advertiser: Advertiser) -> Bool {
    if services.contains(where: advertiser.services.contains) { return true }
    guard let name = advertiser.name else { return false }
    return nameStarts.contains { name.hasPrefix($0) } || matchesName(name)
  }
}

/// Finds a sensor by what it advertises.
public enum SensorFinder {
  /// Scans until one is seen that takes connections; the radio is off again when this returns.
  ///
  /// - Parameters:
  ///   - search: what it advertises.
  ///   - name: an exact name to wait for, `nil` for the first that `search` matches.
  ///   - adapter: what scans.
  ///   - duration: how long to look.
  /// - Throws: `notFound` where none came, and whatever the adapter says.
  public static func find(
    _ search: SensorSearch, named name: String? = nil, on adapter: any Adapter, within duration: Duration
  ) async throws(HostError) -> Advertiser {
    let found = Mutex<Advertiser?>(nil)
    _ = try await Scanner(kind: .active, duplicates: .reportOnce).run(on: adapter, for: duration) {
      advertiser in
      guard advertiser.isConnectable, name.map({ $0 == advertiser.name }) ?? search.matches(advertiser) else {
        return .goOn
      }
      found.withLock { $0 = $0 ?? advertiser }
      return .stop
    }
    guard let advertiser = found.withLock({ $0 }) else {
      throw .notFound(
        name.map { "device named \($0)" } ?? search.name, seconds: Int(duration.components.seconds))
    }
    return advertiser
  }
}
