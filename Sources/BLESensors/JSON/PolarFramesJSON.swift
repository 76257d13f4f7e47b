import BLECore
import BLEWire
import JSONText

/// Frames of raw data of a Polar sensor.
///
/// Which keys there are follows from what is known: `sampleCount` where the frame states its samples in blocks or the
/// rate tells their times; samples in units beside `rawSamples` where a factor or the frame type tells the unit.
struct PolarFramesJSON {
  /// Acceleration of compressed frames stands twice, in counts and in units, up to so many samples. In longer frames
  /// only the first does, and not even that where a count is a milli-g.
  private static let repeatedSampleLimit = 32

  private let factor: Double
  private let previous: UInt64?
  private let sampleRate: UInt16?

  /// The one rate that an ECG has.
  private static let ecgRate: UInt16 = 130

  init(_ context: SensorDecoder.Context) {
    factor = context.factor ?? 1
    previous = context.previousTimestampNanoseconds
    sampleRate = context.sampleRate
  }

  func write(_ frames: [[UInt8]], into line: inout JSONLine) throws(WireError) {
    let first = frames[0]
    let frame = try PolarFrame(validating: first.span)
    if frames.count == 1 {
      var clock = PolarSampleClock(sampleRateHertz: sampleRate, after: previous)
      line.object { line in
        writeKind(frame, into: &line)
        line.member("timestampNanoseconds", "\(frame.timestampNanoseconds)")
        writeTimes(frame, &clock, into: &line)
        writeContent(frame, into: &line)
        if let previous { line.member("previousTimestampNanoseconds", "\(previous)") }
        if let sampleRate { line.member("sampleRateHz", sampleRate) }
      }
      return
    }
    for frame in frames.dropFirst() { _ = try PolarFrame(validating: frame.span).sampleCount }
    let rate = sampleRate ?? (frame.type == .ecg ? Self.ecgRate : nil)
    var clock = PolarSampleClock(sampleRateHertz: rate, after: previous)
    line.object { line in
      writeKind(frame, into: &line)
      if let rate { line.member("requestedSampleRateHz", rate) }
      if let mean = meanInterval(frames) { line.member("meanSampleIntervalNanoseconds", mean) }
      line.member("frames") { line in
        for octets in frames {
          guard let frame = try? PolarFrame(validating: octets.span) else { continue }
          line.object { line in
            line.member("timestampNanoseconds", "\(frame.timestampNanoseconds)")
            writeTimes(frame, &clock, into: &line)
            writeContent(frame, isOneOfSeveral: true, into: &line)
          }
        }
      }
    }
  }

  private func writeKind(_ frame: borrowing PolarFrame, into line: inout JSONLine) {
    line.member("measurementType", frame.type.jsonName)
    line.member("frameType", frame.frameType)
    line.member("compressed", frame.isCompressed)
  }

  private func writeTimes(
    _ frame: borrowing PolarFrame, _ clock: inout PolarSampleClock, into line: inout JSONLine
  ) {
    guard let timing = clock.timing(of: frame.timestampNanoseconds, sampleCount: frame.sampleCount) else {
      return
    }
    line.member("firstSampleTimestampNanoseconds", "\(timing.nanoseconds(0))")
    if timing.missingSampleCount > 0 { line.member("missingSamples", timing.missingSampleCount) }
  }

  /// Between the last samples of the first and the last frame.
  private func meanInterval(_ frames: [[UInt8]]) -> Double? {
    var first: UInt64?
    var last: UInt64 = 0
    var count = 0
    for octets in frames {
      guard let frame = try? PolarFrame(validating: octets.span) else { return nil }
      if first == nil { first = frame.timestampNanoseconds } else { count += frame.sampleCount }
      last = frame.timestampNanoseconds
    }
    guard let first, first != 0, last > first, count > 0 else { return nil }
    return Double(last - first) / Double(count)
  }

  private func writeContent(
    _ frame: borrowing PolarFrame, isOneOfSeveral: Bool = false, into line: inout JSONLine
  ) {
    guard let layout = frame.layout else {
      if let information = PolarPPGInformation(frame) {
        writeInformation(information, into: &line)
      } else {
        line.member("content", hex: frame.content)
      }
      return
    }
    if frame.isCompressed || sampleRate != nil || isOneOfSeveral {
      line.member("sampleCount", frame.sampleCount)
    }
    if frame.isCompressed { writeCompression(frame, layout, into: &line) }
    writeUnits(frame, layout, into: &line)
  }

  private func writeCompression(
    _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into line: inout JSONLine
  ) {
    line.member("channels", layout.channelCount)
    line.member("referenceBits", layout.referenceBits)
    line.key("deltaBlocks")
    var blocks = frame.deltaBlocks
    line.array { line in
      while let block = blocks.next() {
        line.object { line in
          line.member("deltaBits", block.deltaBits)
          line.member("sampleCount", block.sampleCount)
        }
      }
    }
    line.member("factor", factor)
    if layout.form == .floats {
      line.samples("samplesFloat", frame) { line, sample in
        line.array { line in
          for index in sample.indices { line.value(Double(PolarUnits.float(sample[index]))) }
        }
      }
    } else {
      line.samples("rawSamples", frame) { line, sample in
        line.array { line in for index in sample.indices { line.value(sample[index]) } }
      }
    }
  }

  /// The samples in units, and fields under their names.
  private func writeUnits(
    _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into line: inout JSONLine
  ) {
    switch frame.type {
    case .ecg: writeECG(frame, layout, into: &line)
    case .accelerometer: writeAcceleration(frame, into: &line)
    case .gyroscope where frame.isCompressed && factor == 1: break
    case .gyroscope where layout.form == .floats:
      line.samples("samplesDegreesPerSecond", frame) { line, sample in
        line.array { line in
          for index in sample.indices { line.value(Double(PolarUnits.float(sample[index])) * factor) }
        }
      }
    case .gyroscope: line.scaledSamples("samplesDegreesPerSecond", frame, factor)
    case .magnetometer: writeMagneticField(frame, layout, into: &line)
    case .ppg: writePPG(frame, layout, into: &line)
    case .ppi:
      line.samples("samples", frame) { line, sample in
        line.object { PolarPPISample(sample).writeMembers(into: &$0) }
      }
    case .pressure where !frame.isCompressed: line.floatSamples("samplesHectopascal", frame)
    case .temperature where !frame.isCompressed, .skinTemperature where !frame.isCompressed:
      line.floatSamples("samplesCelsius", frame)
    case .offlineHeartRate: line.scaledSamples("samples", frame, 1)
    default: break
    }
  }

  private func writeECG(_ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into line: inout JSONLine)
  {
    guard layout.form != .ecgPair else { return line.scaledSamples("samples", frame, 1) }
    line.channel("samplesMicrovolts", frame, 0)
    switch layout.form {
    case .ecgContact:
      line.samples("overSampling", frame) { line, sample in line.value(sample[1] != 0) }
      line.channel("skinContactCode", frame, 2)
      line.channel("contactImpedanceCode", frame, 3)
    case .ecgTags:
      line.channel("ecgDataTag", frame, 1)
      line.channel("paceDataTag", frame, 2)
    default: break
    }
  }

  private func writeAcceleration(_ frame: borrowing PolarFrame, into line: inout JSONLine) {
    // Of type 0, the unit of a count is what the factor tells.
    if frame.isCompressed, frame.frameType == 0, factor == 1 { return }
    let scale = PolarUnits.accelerometerMilliG(
      frameType: frame.frameType, isCompressed: frame.isCompressed, factor: factor)
    if !frame.isCompressed || frame.sampleCount <= Self.repeatedSampleLimit {
      line.scaledSamples("samplesMilliG", frame, scale)
    } else if scale != 1 {
      var isFirst = true
      frame.forEachSample { sample in
        guard isFirst else { return }
        isFirst = false
        line.key("firstSampleMilliG")
        line.array { line in for index in sample.indices { line.value(Double(sample[index]) * scale) } }
      }
    }
  }

  private func writeMagneticField(
    _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into line: inout JSONLine
  ) {
    // As with acceleration.
    if frame.isCompressed, frame.frameType == 0, factor == 1 { return }
    let scale = PolarUnits.magnetometerGauss(frameType: frame.frameType, factor: factor)
    line.scaledSamples("samplesGauss", frame, scale, channels: 3)
    guard layout.channelCount == 4 else { return }
    line.samples("calibrationStatus", frame) { line, sample in
      line.value(name(UInt8(truncatingIfNeeded: sample[3]), in: ["unknown", "poor", "ok", "good"]))
    }
  }

  private func writePPG(_ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into line: inout JSONLine)
  {
    switch (frame.isCompressed, layout.channelCount) {
    case (false, _):
      line.scaledSamples("samplesPpg", frame, 1, channels: 3)
      line.channel("ambient", frame, 3)
    case (true, 4): break
    default:
      let frameType = frame.frameType
      if frameType == 10 { line.member("channelOrder", "8 red, 6 green, 6 infrared, 1 status") }
      line.samples("statusBits", frame) { line, sample in
        line.value(PolarUnits.ppgStatus(sample[sample.count - 1], frameType: frameType))
      }
    }
  }

  private func writeInformation(_ information: PolarPPGInformation, into line: inout JSONLine) {
    switch information {
    case .integration(let gains):
      let channels = 0..<PolarPPGInformation.InlineGains.channelCount
      line.member("integrationCounts") { line in
        for channel in channels { line.value(gains.integrationCount(channel)) }
      }
      line.member("channel1Gains") { line in for channel in channels { line.value(gains.firstGain(channel)) }
      }
      line.member("channel2Gains") { line in for channel in channels { line.value(gains.secondGain(channel)) }
      }
    case .operationMode(let mode): line.member("operationMode", mode)
    case .sport(let identifier): line.member("sportId", "\(identifier)")
    case .gains(let count, let first, let second):
      line.member("integrationCount", count)
      line.member("channel1Gain", first)
      line.member("channel2Gain", second)
    }
  }
}

extension PolarPPISample {
  fileprivate func writeMembers(into line: inout JSONLine) {
    line.member("heartRateBpm", heartRate)
    line.member("ppIntervalMilliseconds", intervalMilliseconds)
    line.member("errorEstimateMilliseconds", errorEstimateMilliseconds)
    line.member("blocker", isBlocked)
    line.member("skinContact", hasSkinContact)
    line.member("skinContactSupported", isSkinContactSupported)
  }
}

extension JSONLine {
  fileprivate mutating func samples(
    _ name: String, _ frame: borrowing PolarFrame, _ body: (inout JSONLine, Span<Int32>) -> Void
  ) {
    key(name)
    array { line in frame.forEachSample { sample in body(&line, sample) } }
  }

  /// - Parameter channels: the first so many; `nil` for all.
  fileprivate mutating func scaledSamples(
    _ name: String, _ frame: borrowing PolarFrame, _ scale: Double, channels: Int? = nil
  ) {
    samples(name, frame) { line, sample in
      line.array { line in
        for index in 0..<(channels ?? sample.count) {
          if scale == 1 { line.value(sample[index]) } else { line.value(Double(sample[index]) * scale) }
        }
      }
    }
  }

  fileprivate mutating func channel(_ name: String, _ frame: borrowing PolarFrame, _ channel: Int) {
    samples(name, frame) { line, sample in line.value(sample[channel]) }
  }

  fileprivate mutating func floatSamples(_ name: String, _ frame: borrowing PolarFrame) {
    samples(name, frame) { line, sample in line.value(Double(PolarUnits.float(sample[0]))) }
  }
}
