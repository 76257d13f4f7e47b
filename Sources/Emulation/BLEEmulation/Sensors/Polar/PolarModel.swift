import BLESensors
public import BLEStack
public import BLEWire
import Physiology

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

/// A running measurement of an emulated Polar sensor.
///
/// Sample n is a function of n, so that receivers can check it. ECG samples are a function of the sensor's
/// time, which is in the frames.
struct PolarStream: Sendable {
  /// A supported measurement and its parameters.
  struct Offer: Sendable {
    let type: PolarMeasurementType
    let frameType: UInt8
    let isCompressed: Bool
    let sampleRates: [UInt16]
    let settings: [PolarSetting]
  }

  /// Measurements that an H10 (ECG, acceleration) and a Verity Sense (PPG) offer.
  static let offers = [
    Offer(
      type: .ecg, frameType: 0, isCompressed: false, sampleRates: [130],
      settings: [PolarSetting(.sampleRate, [130]), PolarSetting(.resolution, [14])]),
    Offer(
      type: .ppg, frameType: 0, isCompressed: true, sampleRates: [28, 44, 55, 135, 176],
      settings: [
        PolarSetting(.sampleRate, [28, 44, 55, 135, 176]), PolarSetting(.resolution, [22]),
        PolarSetting(.channels, [4]),
      ]),
    Offer(
      type: .accelerometer, frameType: 1, isCompressed: true, sampleRates: [25, 50, 100, 200],
      settings: [
        PolarSetting(.sampleRate, [25, 50, 100, 200]), PolarSetting(.resolution, [16]),
        PolarSetting(.range, [2, 4, 8]),
      ]),
  ]

  private static let maximumBlockSamples = 255

  let type: PolarMeasurementType
  private let rate: UInt16
  /// Time of the start in seconds, on the clock of the sensor's ticks.
  private let start: Double
  private let encoder: PolarFrameEncoder?
  private let heart: CardiacWave
  private let motion: WearerMotion?
  private let body: BodyTime
  /// Number of the next sample.
  private var next = 0

  init(_ offer: Offer, rate: UInt16, start: Double, rhythm: HeartRhythm, wearer: Wearer?, body: BodyTime) {
    type = offer.type
    heart = CardiacWave(rhythm: rhythm)
    motion = wearer.map { WearerMotion($0) }
    self.body = body
    self.rate = rate
    self.start = start
    encoder = PolarFrameEncoder(offer.type, frameType: offer.frameType, isCompressed: offer.isCompressed)
  }

  /// Returns frames with the samples since the last call.
  ///
  /// - Parameter byteCount: maximum size of a frame.
  mutating func frames(until seconds: Double, byteCount: Int) -> [[UInt8]] {
    guard let encoder else { return [] }
    let end = Int(((seconds - start) * Double(rate)).rounded(.down))
    var frames: [[UInt8]] = []
    while next < end {
      let count = fitting(end - next, byteCount, encoder)
      guard count > 0 else { return frames }
      frames.append(frame(next..<next + count, encoder))
      next += count
    }
    return frames
  }

  /// Returns the number of samples that fit into a frame, at most `count`.
  private func fitting(_ count: Int, _ byteCount: Int, _ encoder: PolarFrameEncoder) -> Int {
    let room = byteCount - PolarFrame.headerByteCount
    guard encoder.isCompressed else { return min(count, room / encoder.layout.byteCount) }
    var count = min(count, Self.maximumBlockSamples)
    while count > 0, contentByteCount(next..<next + count, encoder) > room { count -= 1 }
    return count
  }

  private func contentByteCount(_ numbers: Range<Int>, _ encoder: PolarFrameEncoder) -> Int {
    guard encoder.isCompressed else { return numbers.count * encoder.layout.byteCount }
    guard numbers.count > 1 else { return encoder.layout.byteCount }
    let (first, rest) = (sample(numbers.lowerBound), samples(numbers.dropFirst()))
    let bits = encoder.deltaBits(rest.span, after: first.span)
    return encoder.layout.byteCount
      + encoder.blockByteCount(deltaBits: bits, sampleCount: numbers.count - 1)
  }

  private func frame(_ numbers: Range<Int>, _ encoder: PolarFrameEncoder) -> [UInt8] {
    let capacity = PolarFrame.headerByteCount + contentByteCount(numbers, encoder)
    return [UInt8](encoding: capacity) { output in
      encoder.encodeHeader(timestampNanoseconds: timestamp(numbers.upperBound - 1), into: &output)
      guard encoder.isCompressed else {
        for number in numbers {
          let sample = sample(number)
          encoder.encodeSample(sample.span, into: &output)
        }
        return
      }
      let (first, rest) = (sample(numbers.lowerBound), samples(numbers.dropFirst()))
      encoder.encodeSample(first.span, into: &output)
      guard !rest.isEmpty else { return }
      let bits = encoder.deltaBits(rest.span, after: first.span)
      encoder.encodeBlock(rest.span, after: first.span, deltaBits: bits, into: &output)
    }
  }

  /// Returns the timestamp of a sample by the sensor's clock, in nanoseconds.
  private func timestamp(_ number: Int) -> UInt64 {
    let started = UInt64((start * 1e9).rounded())
    return PolarModel.epochNanoseconds + started + UInt64(number + 1) * 1_000_000_000 / UInt64(rate)
  }

  private func samples(_ numbers: Range<Int>) -> [Int32] { numbers.flatMap(sample) }

  /// Returns the acceleration of the hand that holds the sensor. The axes differ from those of a ring on the
  /// same hand.
  private func acceleration(at time: Double) -> [Int32] {
    let force = motion?.force(at: time) ?? (x: 0, y: 0, z: 1)
    return [force.z, -force.x, force.y].map { Int32(($0 * 1_000).rounded()) }
  }

  /// Returns all channels of one sample.
  private func sample(_ number: Int) -> [Int32] {
    // Counts up and down in steps, so that differences of both signs occur.
    func wave(_ period: Int32, _ step: Int32) -> Int32 {
      let phase = Int32(truncatingIfNeeded: number) % period
      return step * (phase < period / 2 ? phase : period - phase)
    }
    let time = body.seconds(start + Double(number + 1) / Double(rate))
    return switch type {
    case .ecg: [heart.microvolts(at: time)]
    case .accelerometer where motion != nil: acceleration(at: time)
    case .accelerometer: [wave(50, 3) - 40, wave(30, 2), 1000 - wave(20, 1)]
    default: [320_000 + wave(55, 90), 318_000 + wave(55, 80), 316_000 + wave(55, 70), 5_000 + wave(40, 4)]
    }
  }
}

/// The electrocardiogram of a rhythm: P, Q, R, S and T waves, as a function of time.
///
/// A sum of Gaussians over the phase of the beat, with the angles and widths of McSharry et al. 2003 (see
/// `HeartRhythm`), and a baseline that moves with breathing. The heights are those of a chest lead. Ectopic
/// beats are ventricular: wide and high, with an inverted T wave and no P wave.
struct CardiacWave: Sendable {
  private typealias Wave = (angle: Double, width: Double, height: Double)

  /// Angles and widths in fractions of a beat, heights in microvolts.
  private static let normal: [Wave] = [
    (-70 / 360, 0.25 / (2 * .pi), 120), (-15 / 360, 0.1 / (2 * .pi), -110), (0, 0.1 / (2 * .pi), 1_050),
    (15 / 360, 0.1 / (2 * .pi), -220), (100 / 360, 0.4 / (2 * .pi), 260),
  ]
  private static let ectopic: [Wave] = [
    (0, 0.25 / (2 * .pi), 1_350), (40 / 360, 0.25 / (2 * .pi), -450), (125 / 360, 0.4 / (2 * .pi), -330),
  ]
  private static let baselineMicrovolts = 60.0

  var rhythm: HeartRhythm

  func microvolts(at seconds: Double) -> Int32 {
    let phase = rhythm.phase(at: seconds)
    var sum = Self.baselineMicrovolts * sineAndCosine(turns: HeartRhythm.breathsPerSecond * seconds).sine
    let last = Int(phase.rounded(.down))
    for beat in last - 1...last + 2 {
      let distance = phase - rhythm.place(beat)
      for wave in rhythm.isEctopic(beat) ? Self.ectopic : Self.normal {
        sum += wave.height * Self.bell((distance - wave.angle) / wave.width)
      }
    }
    return Int32(sum.rounded())
  }

  /// Returns exp(−x² / 2), from the series for a sixty-fourth of the exponent, squared six times.
  private static func bell(_ x: Double) -> Double {
    guard abs(x) < 6 else { return 0 }
    let exponent = -x * x / 128
    var term = 1.0
    var sum = 1.0
    for power in 1..<9 {
      term *= exponent / Double(power)
      sum += term
    }
    for _ in 0..<6 { sum *= sum }
    return sum
  }
}
