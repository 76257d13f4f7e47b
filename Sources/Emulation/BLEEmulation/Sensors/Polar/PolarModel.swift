import BLESensors
public import BLEStack
public import BLEWire

/// A Polar sensor. Sends Heart Rate like a strap, and raw ECG, acceleration and PPG through its measurement
/// service.
///
/// Online Measurement (2024). ECG frames are plain (type 0); acceleration (type 1) and PPG (type 0) are
/// compressed. Each tick sends the samples since the last tick, in as many frames as the MTU requires; the
/// heart rate is sent once per second. The sensor's clock starts with the first link at 2019-01-01, like the
/// clock of an H10 that is switched on. The clock continues on later links, and advances by one second
/// between two links.
public struct PolarModel: SensorModel {
  /// The time 2019-01-01 in nanoseconds since 2000.
  public static let epochNanoseconds: UInt64 = 599_616_000_000_000_000
  public static let conversionFactor: Float = 1

  public var name = "Polar H10 0A1B2C3D"
  public var address = DeviceAddress(bits: 0x70CB_0D00_5C80, type: .public)
  public var batteryPercent: UInt8 = 77
  /// Time in seconds after which the sensor stops its streams on a link, as a real sensor does on its
  /// charger; `nil` for never.
  public var stopAfterSeconds: Double?
  /// Rhythm of the simulated wearer's heart, for both ECG and heart rate. A beat at s seconds is in the ECG
  /// at `epochNanoseconds` plus s seconds of the sensor's clock.
  public var rhythm: HeartRhythm {
    get { strap.rhythm }
    set { strap.rhythm = newValue }
  }

  /// Wearer whose movement is the source of the acceleration. If `nil`, the samples count up and down, so
  /// that receivers can check each sample.
  public var wearer: Wearer?

  private var strap = StrapModel()
  private var streams: [PolarStream] = []
  /// Time of the last tick by the sensor's clock, in seconds.
  private var latest = 0.0
  /// Start of the link by the sensor's clock, in seconds.
  private var linkStart = 0.0
  private var heartRates = 0

  public init() {}

  public var services: [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    return .genericServices(name: name, appearance: 0x0341) + [
      StrapModel.service(.chest, hasControlPoint: false),
      GATTServiceDescription(
        PolarUUID.service,
        characteristics: [
          Characteristic(
            PolarUUID.controlPoint, [.read, .write, .indicate],
            value: PolarFeatures(PolarStream.offers.map(\.type)).octets),
          Characteristic(PolarUUID.data, .notify),
        ]),
    ] + .sensorServices(model: "H10", batteryPercent: batteryPercent)
  }

  public var advertisingData: [UInt8] { advertisement(of: [0x180D]) }

  public var scanResponse: [UInt8] {
    let data = PolarAdvertisement(flags: 0, transmitterCode: 0x1B, fastAverage: 64, slowAverage: 64).octets
    return [UInt8(data.count + 1), 0xFF] + data
  }

  public mutating func connected() {
    strap.connected()
    streams = []
    if latest > 0 { linkStart = latest.rounded(.up) + 1 }
    (latest, heartRates) = (linkStart, 0)
  }

  public mutating func begin(_ body: BodyTime) { strap.begin(body) }

  // MARK: Control point

  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] {
    guard characteristic == PolarUUID.controlPoint, let request = try? PolarRequest(decoding: value.span)
    else {
      return []
    }
    return [SensorValue(characteristic, .indication, answer(request).octets)]
  }

  private mutating func answer(_ request: PolarRequest) -> PolarResponse {
    func response(_ status: PolarStatus, _ settings: [PolarSetting] = []) -> PolarResponse {
      PolarResponse(
        to: request.opcode, request.type, status: status.rawValue,
        parameters: settings.flatMap { setting in
          [UInt8](encoding: setting.encodedByteCount) { setting.encode(into: &$0) }
        })
    }
    guard [.getSettings, .start, .stop].contains(request.opcode) else { return response(.invalidOpcode) }
    guard let offer = PolarStream.offers.first(where: { $0.type == request.type }) else {
      return response(.invalidType)
    }
    let running = streams.firstIndex { $0.type == request.type }
    switch request.opcode {
    case .getSettings: return response(.success, offer.settings)
    case .stop:
      guard let running else { return response(.alreadyInState) }
      streams.remove(at: running)
      return response(.success)
    default:
      guard running == nil else { return response(.alreadyInState) }
      let rates = request.settings.filter { $0.kind == .sampleRate }.flatMap(\.values)
      guard rates.count == 1, let rate = offer.sampleRates.first(where: { UInt32($0) == rates[0] }) else {
        return response(.invalidSampleRate)
      }
      streams.append(
        PolarStream(offer, rate: rate, start: latest, rhythm: rhythm, wearer: wearer, body: strap.body))
      return response(.success, [.conversionFactor(Self.conversionFactor)])
    }
  }

  // MARK: Values

  public mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    latest = linkStart + tick.seconds
    var values: [SensorValue] = []
    if Int(tick.seconds) > heartRates {
      heartRates = Int(tick.seconds)
      var beat = tick
      beat.number = heartRates - 1
      values.append(SensorValue(.heartRateMeasurement, strap.measurement(beat).octets))
    }
    if let stopAfterSeconds, tick.seconds > stopAfterSeconds, !streams.isEmpty {
      let event = PolarStopEvent(streams.map(\.type))
      streams = []
      return values + [SensorValue(PolarUUID.controlPoint, .indication, event.octets)]
    }
    for index in streams.indices {
      for frame in streams[index].frames(until: latest, byteCount: tick.valueByteCount) {
        values.append(SensorValue(PolarUUID.data, frame))
      }
    }
    return values
  }

  /// Returns a truncated header, which ends within its timestamp.
  public func malformed(_ value: SensorValue) -> [UInt8] {
    value.characteristic == PolarUUID.data ? Array(value.octets.prefix(6)) : Array(value.octets.prefix(1))
  }
}

/// Result of a request to the control point. Online Measurement (2024), 3.3.
enum PolarStatus: UInt8 {
  case success = 0
  case invalidOpcode = 1
  case invalidType = 2
  case alreadyInState = 6
  case invalidSampleRate = 8
}
