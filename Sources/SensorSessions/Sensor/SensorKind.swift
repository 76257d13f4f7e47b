import BLECore
public import BLEHost
import BLESensors
import BLEWire
import ColmiRing
import Synchronization

/// What a scan looks for: a sensor by its advertised service, or by how its name begins.
public enum SensorKind: Hashable, Sendable {
  case heartRate
  /// Health Thermometer, and CORE sensors, whose own service stands in the scan response only.
  case thermometer
  /// Cycling Speed and Cadence.
  case cycling
  /// Polar sensors that have raw data: their service for it is not advertised.
  case polar
  /// COLMI rings, which seldom advertise their service.
  case ring

  /// For messages.
  var text: String {
    switch self {
    case .heartRate: "heart-rate sensor"
    case .thermometer: "thermometer"
    case .cycling: "cycling sensor"
    case .polar: "Polar sensor"
    case .ring: "ring"
    }
  }

  private var services: [BluetoothUUID] {
    switch self {
    case .heartRate: [.heartRate]
    case .thermometer: [.healthThermometer, CoreUUID.service, CoreUUID.legacyService]
    case .cycling: [.cyclingSpeedAndCadence]
    case .polar: [PolarUUID.service]
    case .ring: [RingUUID.commandService]
    }
  }

  /// Reference `sensor-services.md`, 1.4 and 4.1.
  private var nameStarts: [String] {
    switch self {
    case .heartRate: ["Polar ", "TICKR ", "HRM-"]
    case .thermometer: ["CORE"]
    case .polar: ["Polar "]
    case .cycling, .ring: []
    }
  }

  /// Whether it is one, as far as an advertisement tells.
  public func matches(_ advertiser: Advertiser) -> Bool {
    if services.contains(where: advertiser.services.contains) { return true }
    guard let name = advertiser.name else { return false }
    return nameStarts.contains { name.hasPrefix($0) } || self == .ring && RingName.matches(name)
  }
}

/// Finds a sensor by what it advertises.
public enum SensorFinder {
  /// Scans until one is seen that takes connections; the radio is off again when this returns.
  ///
  /// - Parameters:
  ///   - kind: by what it advertises.
  ///   - name: an exact name to wait for, `nil` for the first of the kind.
  ///   - adapter: what scans.
  ///   - duration: how long to look.
  /// - Throws: `notFound` where none came, and whatever the adapter says.
  public static func find(
    _ kind: SensorKind, named name: String? = nil, on adapter: any Adapter, within duration: Duration
  ) async throws(HostError) -> Advertiser {
    let found = Mutex<Advertiser?>(nil)
    _ = try await Scanner(kind: .active, duplicates: .reportOnce).run(on: adapter, for: duration) {
      advertiser in
      guard advertiser.isConnectable, name.map({ $0 == advertiser.name }) ?? kind.matches(advertiser) else {
        return .goOn
      }
      found.withLock { $0 = $0 ?? advertiser }
      return .stop
    }
    guard let advertiser = found.withLock({ $0 }) else {
      throw .notFound(
        name.map { "device named \($0)" } ?? kind.text, seconds: Int(duration.components.seconds))
    }
    return advertiser
  }
}
