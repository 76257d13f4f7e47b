public import BLEHost
public import BLEWire
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

/// Finds sensors by what they advertise.
public enum SensorFinder {
  /// Scans until one is seen that takes connections; the radio is off again when this returns.
  ///
  /// - Parameters:
  ///   - search: what it advertises.
  ///   - name: an exact name to wait for, `nil` for the first that `search` matches.
  ///   - adapter: what scans.
  ///   - duration: how long to look.
  ///   - heard: gets what the scan heard when it is over, however it ended.
  /// - Throws: `notFound` where none came, and whatever the adapter says.
  public static func find(
    _ search: SensorSearch, named name: String? = nil, on adapter: any Adapter, within duration: Duration,
    heard: @Sendable (ScanReport) -> Void = { _ in }
  ) async throws(HostError) -> Advertiser {
    let found = try await find([search], named: name, on: adapter, within: duration, heard: heard)
    guard let advertiser = found[0] else {
      throw .notFound(
        name.map { "device named \($0)" } ?? search.name, seconds: Int(duration.components.seconds))
    }
    return advertiser
  }

  /// The same for several sensors, each another one.
  ///
  /// - Parameters:
  ///   - searches: what each advertises.
  ///   - name: an exact name to wait for instead.
  ///   - adapter: what scans.
  ///   - duration: how long to look.
  ///   - heard: gets what the scan heard when it is over, however it ended.
  /// - Returns: parallel to `searches`; `nil` for those of which none came in time.
  public static func find(
    _ searches: [SensorSearch], named name: String? = nil, on adapter: any Adapter, within duration: Duration,
    heard: @Sendable (ScanReport) -> Void = { _ in }
  ) async throws(HostError) -> [Advertiser?] {
    let found = Mutex<[Advertiser?]>(searches.map { _ in nil })
    let scanner = Scanner(kind: .active, duplicates: .reportOnce, keeping: Scanner.searched.count)
    try await scanner.run(on: adapter, for: duration, heard: heard) { advertiser in
      guard advertiser.isConnectable else { return .goOn }
      return found.withLock { found in
        let place = found.indices.first {
          found[$0] == nil && (name.map { $0 == advertiser.name } ?? searches[$0].matches(advertiser))
        }
        if let place, !found.contains(where: { $0?.address == advertiser.address }) {
          found[place] = advertiser
        }
        return found.allSatisfy { $0 != nil } ? .stop : .goOn
      }
    }
    return found.withLock { $0 }
  }
}
