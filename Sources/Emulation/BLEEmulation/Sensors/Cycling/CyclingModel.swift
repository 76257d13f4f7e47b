import BLESensors
public import BLEStack
public import BLEWire

/// A bicycle with a simulated rider: the cadence rises from 60 to 100 crank revolutions per minute and falls
/// back every two minutes, with 2.5 wheel revolutions per crank revolution. Speed and cadence are 0 when the
/// sensor is not worn.
///
/// Cycling Speed and Cadence Service 1.0.
public struct CyclingModel: SensorModel {
  private static let wheelTurns = 2.5

  public var name = "ringtap bicycle"
  public var address = DeviceAddress(bits: 0x70CB_0D00_1816, type: .public)
  public var batteryPercent: UInt8 = 93

  /// Number of crank revolutions since the start.
  private var turns = 0.0
  /// Time of the previous tick, in seconds.
  private var seconds = 0.0
  private var wheel = CyclingSpeed.Wheel(revolutions: 0, lastEventTicks: 0)
  private var crank = CyclingSpeed.Crank(revolutions: 0, lastEventTicks: 0)

  public init() {}

  public mutating func connected() { seconds = 0 }

  public var services: [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    // Appearance: speed and cadence sensor. Features: wheel and crank. Location: rear wheel.
    return .genericServices(name: name, appearance: 0x0485) + [
      GATTServiceDescription(
        .cyclingSpeedAndCadence,
        characteristics: [
          Characteristic(.cscMeasurement, .notify), Characteristic(.cscFeature, .read, value: [3, 0]),
          Characteristic(.sensorLocation, .read, value: [12]),
        ])
    ] + .sensorServices(model: "bicycle", batteryPercent: batteryPercent)
  }

  public var advertisingData: [UInt8] { advertisement(of: [0x1816]) }

  public mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    let elapsed = tick.seconds - seconds
    seconds = tick.seconds
    if !tick.isOffBody, elapsed > 0 {
      let perSecond = triangle(60...100, period: 120, at: seconds) / 60
      turns += perSecond * elapsed
      let cranks = UInt16(truncatingIfNeeded: Int(turns))
      let wheels = UInt32(truncatingIfNeeded: Int(turns * Self.wheelTurns))
      // The event time changes only with the number of revolutions.
      if cranks != crank.revolutions {
        crank = CyclingSpeed.Crank(
          revolutions: cranks, lastEventTicks: ticks(since: turns, perSecond))
      }
      if wheels != wheel.revolutions {
        wheel = CyclingSpeed.Wheel(
          revolutions: wheels,
          lastEventTicks: ticks(since: turns * Self.wheelTurns, perSecond * Self.wheelTurns))
      }
    }
    return [SensorValue(.cscMeasurement, CyclingSpeed(wheel: wheel, crank: crank).octets)]
  }

  /// Returns the time at which the last complete revolution ended, in 1/1024 s.
  private func ticks(since turns: Double, _ perSecond: Double) -> UInt16 {
    let rest = turns.truncatingRemainder(dividingBy: 1) / perSecond
    return UInt16(truncatingIfNeeded: Int(max(0, seconds - rest) * 1024))
  }
}
