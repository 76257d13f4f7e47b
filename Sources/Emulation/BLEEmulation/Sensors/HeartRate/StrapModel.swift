public import BLESensors
public import BLEStack
public import BLEWire

/// A heart-rate chest strap: Heart Rate Service with control point, Device Information, Battery.
///
/// Heart Rate Service 1.0. Off the body, the strap sends a rate of 0, without contact and without intervals,
/// like real straps.
public struct StrapModel: SensorModel {
  public var name = "ringtap strap"
  public var address = DeviceAddress(bits: 0x70CB_0D00_180D, type: .public)
  public var location = BodySensorLocation.chest
  public var batteryPercent: UInt8 = 84
  /// Measurements to send in a cycle instead of the simulated wearer's measurements.
  public var measurements: [HeartRateMeasurement] = []
  /// Rhythm of the simulated wearer's heart. Starts with the first subscription on a link.
  public var rhythm: HeartRhythm {
    get { pulse.rhythm }
    set { pulse.rhythm = newValue }
  }
  /// Number of times that the energy expended was reset.
  public private(set) var resets = 0

  private var pulse = PulseSignal()
  private(set) var body = BodyTime()
  private var latest = 0.0
  private var energyStart = 0.0

  /// Period, in measurements, at which a measurement contains the energy expended. Heart Rate Service 1.0,
  /// 3.1.1.3: about ten.
  private static let energyEvery = 10
  /// Number of bytes for the flags, an 8-bit rate and the energy.
  private static let fixedByteCount = 4

  public init() {}

  public var services: [GATTServiceDescription] {
    .genericServices(name: name, appearance: 0x0341)
      + [Self.service(location, hasControlPoint: true)]
      + .sensorServices(model: "strap", batteryPercent: batteryPercent)
  }

  static func service(_ location: BodySensorLocation, hasControlPoint: Bool) -> GATTServiceDescription {
    typealias Characteristic = GATTCharacteristicDescription
    return GATTServiceDescription(
      .heartRate,
      characteristics: [
        Characteristic(.heartRateMeasurement, .notify),
        Characteristic(.bodySensorLocation, .read, value: [location.rawValue]),
      ] + (hasControlPoint ? [Characteristic(.heartRateControlPoint, .write, maximumByteCount: 1)] : []))
  }

  public var advertisingData: [UInt8] { advertisement(of: [0x180D]) }

  public func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode? {
    guard characteristic == .heartRateControlPoint else { return nil }
    guard value.count == 1 else { return .invalidAttributeValueLength }
    return HeartRateCommand(rawValue: value[0]) == .resetEnergyExpended
      ? nil : ATTErrorCode(rawValue: HeartRateCommand.controlPointNotSupported)
  }

  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] {
    if characteristic == .heartRateControlPoint {
      resets += 1
      energyStart = latest
    }
    return []
  }

  public mutating func connected() {
    pulse.restart()
    (latest, energyStart) = (0, 0)
  }

  public mutating func begin(_ body: BodyTime) {
    self.body = body
    pulse.restart(body)
  }

  public mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    [SensorValue(.heartRateMeasurement, measurement(tick).octets)]
  }

  mutating func measurement(_ tick: SensorTick) -> HeartRateMeasurement {
    latest = tick.seconds
    var beats = pulse.intervals(until: tick.seconds)
    if !measurements.isEmpty { return measurements[tick.number % measurements.count] }
    guard !tick.isOffBody else { return HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected) }
    // If there is not enough room, drop the oldest intervals: Heart Rate Service 1.0, 3.1.1.
    let room = min((tick.valueByteCount - Self.fixedByteCount) / 2, RRIntervals.capacity)
    beats = beats.suffix(room)
    let energy =
      (tick.number + 1).isMultiple(of: Self.energyEvery)
      ? UInt16(clamping: Int((latest - energyStart) / PulseSignal.secondsPerKilojoule)) : nil
    return HeartRateMeasurement(
      beatsPerMinute: UInt16(rhythm.beatsPerMinute(at: body.seconds(tick.seconds)).rounded()),
      contact: .detected,
      energyExpendedKilojoules: energy, rrIntervals: RRIntervals(beats))
  }

  /// Returns a value whose flags announce a 16-bit rate and the energy, but with only one byte after the
  /// flags.
  public func malformed(_ value: SensorValue) -> [UInt8] {
    let flags: HeartRateMeasurement.Flags = [.rateIs16Bit, .hasEnergyExpended]
    return [flags.rawValue, value.octets.count > 1 ? value.octets[1] : 0]
  }
}
