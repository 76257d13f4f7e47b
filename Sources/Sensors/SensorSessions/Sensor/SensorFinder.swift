public import BLEHost
public import BLEWire
import Synchronization

/// Criteria to recognise an advertising sensor: its services, or the start of its name.
///
/// ```swift
/// let straps = SensorSearch("heart-rate sensor", services: [.heartRate], nameStarts: ["Polar ", "TICKR "])
/// let strap = try await SensorFinder.find(straps, on: adapter, within: .seconds(20))
/// ```
public struct SensorSearch: Sendable {
  /// Description of the sensor for messages, such as "no heart-rate sensor found within 20 s".
  public var name: String
  /// Advertised services; one match is sufficient.
  public var services: [BluetoothUUID]
  /// Prefixes of the advertised name; one match is sufficient. Many sensors do not advertise their service.
  public var nameStarts: [String]
  /// Predicate for names that a prefix cannot describe.
  package var matchesName: @Sendable (String) -> Bool = { _ in false }

  /// Creates search criteria.
  ///
  /// - Parameters:
  ///   - name: short description of the sensor.
  ///   - services: advertised services, one of which must match.
  ///   - nameStarts: prefixes of the advertised name, case-sensitive.
  public init(_ name: String, services: [BluetoothUUID], nameStarts: [String] = []) {
    self.name = name
    self.services = services
    self.nameStarts = nameStarts
  }

  /// Returns whether an advertiser matches the criteria.
  public func matches(_ advertiser: Advertiser) -> Bool {
    if services.contains(where: advertiser.services.contains) { return true }
    guard let name = advertiser.name else { return false }
    return nameStarts.contains { name.hasPrefix($0) } || matchesName(name)
  }
}

/// Finds sensors by their advertisements.
public enum SensorFinder {
  /// Scans until a matching connectable sensor is found, and stops the scan.
  ///
  /// - Parameters:
  ///   - search: criteria of the sensor.
  ///   - name: exact name of the sensor; `nil` for the first sensor that matches `search`.
  ///   - adapter: adapter to scan with.
  ///   - duration: maximum time of the scan.
  ///   - heard: called with a report of the scan when it ends, even after an error.
  /// - Throws: `notFound` if no sensor was found, and errors of the adapter.
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

  /// Scans for several different sensors at once.
  ///
  /// - Parameters:
  ///   - searches: criteria of each sensor.
  ///   - name: exact name of the sensor, used instead of `searches`; `nil` to use `searches`.
  ///   - adapter: adapter to scan with.
  ///   - duration: maximum time of the scan.
  ///   - heard: called with a report of the scan when it ends, even after an error.
  /// - Returns: advertisers in the order of `searches`; `nil` for each sensor that was not found in time.
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
