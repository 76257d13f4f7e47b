import BLEWire
import ColmiRing

/// The raw stream of a COLMI ring (0xA1): first captured frames, then frames computed from a simulated
/// `Wearer`.
///
/// Deterministic: all runs have the same stream. One tick is one frame of each subtype, as the rings send
/// them (reference `colmi-ring-protocol.md`, 5.2 and 5.3).
struct RingSignal {
  /// Contents of a tick's three frames, in the order in which they are sent.
  enum Subtype: UInt8, CaseIterable {
    case spo2 = 1
    case ppg = 2
    case accelerometer = 3
  }

  /// The 16 bytes of a `RingFrame`, inline so that a stream does not allocate.
  typealias Frame = InlineArray<16, UInt8>

  // The following frames are in `ring-test-vectors.json`. All were captured from real rings.
  /// Captured SpO2 frames: raw-spo2-ei-1 (edgeimpulse/example-data-collection-colmi-r02), raw-spo2-r06
  /// (CitizenOneX/colmi_r06_fbp).
  static let capturedSpO2: [Frame] = [
    [0xA1, 0x01, 0x00, 0xA0, 0x00, 0xC2, 0x00, 0x72, 0x00, 0x95, 0x01, 0, 0, 0, 0, 0x0C],
    [0xA1, 0x01, 0x00, 0x4A, 0x00, 0x88, 0x00, 0x4C, 0x00, 0x65, 0x01, 0, 0, 0, 0, 0x26],
  ]
  /// Captured PPG frames: raw-ppg-ei-1, raw-ppg-ei-zero (edgeimpulse), raw-ppg-oc (PaulinaRogala/open-colmi).
  static let capturedPPG: [Frame] = [
    [0xA1, 0x02, 0x29, 0x81, 0x2A, 0xCD, 0x29, 0xC1, 0x01, 0x0C, 0x01, 0, 0, 0, 0, 0x3C],
    [0xA1, 0x02, 0x00, 0x00, 0x2A, 0xCD, 0x29, 0xC1, 0x01, 0x0C, 0x01, 0, 0, 0, 0, 0x92],
    [0xA1, 0x02, 0x06, 0x63, 0x20, 0x28, 0x1F, 0x51, 0x00, 0xD7, 0x00, 0, 0, 0, 0, 0x9B],
  ]
  /// Captured accelerometer frames: raw-acc-ei-1, raw-acc-ei-3 (edgeimpulse), raw-acc-r06 (CitizenOneX),
  /// raw-acc-oc-highnibble (open-colmi).
  static let capturedAccelerometer: [Frame] = [
    [0xA1, 0x03, 0x12, 0x03, 0x0B, 0x0D, 0x17, 0x04, 0, 0, 0, 0, 0, 0, 0, 0xEC],
    [0xA1, 0x03, 0x12, 0x01, 0x0C, 0x00, 0x16, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0xE7],
    [0xA1, 0x03, 0x00, 0x0C, 0x1F, 0x06, 0xFB, 0x03, 0, 0, 0, 0, 0, 0, 0, 0xD3],
    [0xA1, 0x03, 0xDE, 0xB4, 0xFD, 0xC8, 0xFB, 0x3E, 0, 0, 0, 0, 0, 0, 0, 0x34],
  ]

  /// Resolution of the accelerometer in LSB per g.
  static let unitsPerG = 512.0
  private typealias Bounds = (high: UInt16, low: UInt16)
  /// Bounds of the wave: the maximum and minimum registers of raw-ppg-ei-1 and raw-spo2-ei-1.
  private static let ppgBounds: Bounds = (10_957, 10_689)
  private static let spo2Bounds: Bounds = (194, 114)

  private var noise: UInt64 = 0x5EED
  private var chance: UInt64 = 0xD10
  private let dropoutRate: Double
  private let motion: WearerMotion
  private let light: WearerLight

  /// Creates the stream of a wearer.
  ///
  /// - Parameter dropoutRate: probability that an optical frame has no reading, 0 … 1.
  init(_ wearer: Wearer = .even, dropoutRate: Double = 0) {
    self.dropoutRate = dropoutRate
    motion = WearerMotion(wearer)
    light = WearerLight(wearer, motion)
  }

  /// Returns a frame of a tick.
  ///
  /// - Parameters:
  ///   - tick: number of the tick since the start of the stream, from 0.
  ///   - seconds: the wearer's time at that tick.
  mutating func frame(_ subtype: Subtype, tick: Int, seconds: Double) -> Frame {
    switch subtype {
    case .spo2:
      if tick < Self.capturedSpO2.count { return Self.capturedSpO2[tick] }
      return optical(subtype, Self.spo2Bounds, seconds)
    case .ppg:
      if tick < Self.capturedPPG.count { return Self.capturedPPG[tick] }
      return optical(subtype, Self.ppgBounds, seconds)
    case .accelerometer:
      if tick < Self.capturedAccelerometer.count { return Self.capturedAccelerometer[tick] }
      return acceleration(seconds)
    }
  }

  /// Returns an optical frame: value, maximum, minimum and difference, all big-endian. Byte 10 is 1, as in
  /// the captures.
  private mutating func optical(_ subtype: Subtype, _ bounds: Bounds, _ seconds: Double) -> Frame {
    // At rest the wave uses 90 % of the range, so that the wave with the noise stays within the bounds. In
    // motion the wave may exceed the bounds, as in real rings.
    let swing = Double(bounds.high - bounds.low) * 0.9 - 5
    let counts = light.counts(low: Double(bounds.low) + 5, swing: swing, at: seconds)
    let noise = nextNoise(3 + Int(swing * motion.noise(at: seconds).light))
    let value = UInt16(clamping: max(1, Int(counts) + noise))
    var frame = Self.start(subtype)
    Self.set(&frame, 2, isDropout() ? 0 : value)
    Self.set(&frame, 4, bounds.high)
    Self.set(&frame, 6, bounds.low)
    Self.set(&frame, 8, bounds.high - bounds.low)
    frame[10] = 1
    return Self.summed(frame)
  }

  /// Returns an accelerometer frame: the hand's acceleration with noise.
  private mutating func acceleration(_ seconds: Double) -> Frame {
    var frame = Self.start(.accelerometer)
    let force = motion.force(at: seconds)
    let noise = 2 + Int(motion.noise(at: seconds).acceleration * Self.unitsPerG)
    setAxis(&frame, 2, force.y, noise)
    setAxis(&frame, 4, force.z, noise)
    setAxis(&frame, 6, force.x, noise)
    return Self.summed(frame)
  }

  /// Writes an acceleration as twelve bits in two's complement: the high eight bits, then the low four bits.
  private mutating func setAxis(_ frame: inout Frame, _ index: Int, _ g: Double, _ noise: Int) {
    let raw = UInt16(bitPattern: Int16((g * Self.unitsPerG).rounded()) + Int16(nextNoise(noise))) & 0x0FFF
    frame[index] = UInt8(raw >> 4)
    frame[index + 1] = UInt8(raw & 0x0F)
  }

  private static func start(_ subtype: Subtype) -> Frame {
    var frame = Frame(repeating: 0)
    frame[0] = RingCommand.rawStreamOpcode
    frame[1] = subtype.rawValue
    return frame
  }

  private static func set(_ frame: inout Frame, _ index: Int, _ value: UInt16) {
    frame[index] = UInt8(value >> 8)
    frame[index + 1] = UInt8(value & 0xFF)
  }

  /// Returns the frame with its checksum. The checksum field must be 0 before the call.
  private static func summed(_ frame: Frame) -> Frame {
    var frame = frame
    var sum: UInt8 = 0
    for index in 0..<RingFrame.byteCount { sum &+= frame[index] }
    frame[RingFrame.byteCount - 1] = sum
    return frame
  }

  private mutating func isDropout() -> Bool {
    guard dropoutRate > 0 else { return false }
    chance = chance &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Double(chance >> 11) < dropoutRate * Double(1 << 53 as UInt64)
  }

  /// Returns a pseudorandom number in −amplitude … amplitude, from a linear congruential generator.
  private mutating func nextNoise(_ amplitude: Int) -> Int {
    noise = noise &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int(noise >> 40) % (2 * amplitude + 1) - amplitude
  }
}

/// Returns a frame in the format of the ring: padded with zeros, with checksum.
func ringFrame(_ start: [UInt8]) -> [UInt8] {
  [UInt8](encoding: RingFrame.byteCount) {
    RingCommand(start[0], payload: start.span.extracting(1...)).encode(into: &$0)
  }
}
