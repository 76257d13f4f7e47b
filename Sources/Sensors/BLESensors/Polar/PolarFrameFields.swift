#if !hasFeature(Embedded)
  package import BLEWire
  package import JSONText

  /// Decodes raw data frames of a Polar sensor.
  ///
  /// The keys depend on what is known. `sampleCount` is present if the frame declares its samples in blocks, or
  /// if the sample rate determines their times. Samples in units are present beside `rawSamples` if a factor or
  /// the frame type determines the unit.
  package struct PolarFrameFields {
    /// Maximum number of samples for which compressed acceleration is shown both in counts and in units. In
    /// longer frames, only the first sample is also shown in units, unless one count is one milli-g.
    private static let repeatedSampleLimit = 32

    private let factor: Double
    private let previous: UInt64?
    private let sampleRate: UInt16?

    /// The only sample rate of an ECG.
    private static let ecgRate: UInt16 = 130

    /// - Parameters:
    ///   - factor: the factor in the response to the start command; 1 if it is unknown.
    ///   - previous: timestamp of the frame before the first one, in nanoseconds.
    ///   - sampleRate: nominal sample rate in hertz; above 0.
    package init(factor: Double, after previous: UInt64?, sampleRate: UInt16?) {
      (self.factor, self.previous, self.sampleRate) = (factor, previous, sampleRate)
    }

    /// Adds the fields of frames of one stream, in order.
    ///
    /// - Throws: the error of the first frame that is malformed.
    package func write(_ frames: [[UInt8]], into fields: inout FieldList) throws(WireError) {
      let first = frames[0]
      let frame = try PolarFrame(validating: first.span)
      if frames.count == 1 {
        var clock = PolarSampleClock(sampleRateHertz: sampleRate, after: previous)
        writeKind(frame, into: &fields)
        fields.member("timestampNanoseconds", "\(frame.timestampNanoseconds)")
        writeTimes(frame, &clock, into: &fields)
        writeContent(frame, into: &fields)
        if let previous { fields.member("previousTimestampNanoseconds", "\(previous)") }
        if let sampleRate { fields.member("sampleRateHz", sampleRate) }
        return
      }
      for frame in frames.dropFirst() { _ = try PolarFrame(validating: frame.span).sampleCount }
      let rate = sampleRate ?? (frame.type == .ecg ? Self.ecgRate : nil)
      var clock = PolarSampleClock(sampleRateHertz: rate, after: previous)
      writeKind(frame, into: &fields)
      if let rate { fields.member("requestedSampleRateHz", rate) }
      if let mean = meanInterval(frames) { fields.member("meanSampleIntervalNanoseconds", mean) }
      fields.member("frames") { fields in
        for octets in frames {
          guard let frame = try? PolarFrame(validating: octets.span) else { continue }
          fields.object { fields in
            fields.member("timestampNanoseconds", "\(frame.timestampNanoseconds)")
            writeTimes(frame, &clock, into: &fields)
            writeContent(frame, isOneOfSeveral: true, into: &fields)
          }
        }
      }
    }

    private func writeKind(_ frame: borrowing PolarFrame, into fields: inout FieldList) {
      fields.member("measurementType", frame.type.jsonName)
      fields.member("frameType", frame.frameType)
      fields.member("compressed", frame.isCompressed)
    }

    private func writeTimes(
      _ frame: borrowing PolarFrame, _ clock: inout PolarSampleClock, into fields: inout FieldList
    ) {
      guard let timing = clock.timing(of: frame.timestampNanoseconds, sampleCount: frame.sampleCount) else {
        return
      }
      fields.member("firstSampleTimestampNanoseconds", "\(timing.nanoseconds(0))")
      // Two frames alone do not determine the period, so the nominal period is used.
      let missing = timing.missingSampleCount + (previous == nil ? 0 : clock.doubtfulSampleCount)
      if missing > 0 { fields.member("missingSamples", missing) }
    }

    /// Returns the mean interval between samples, from the timestamps of the first and the last frame.
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
      _ frame: borrowing PolarFrame, isOneOfSeveral: Bool = false, into fields: inout FieldList
    ) {
      guard let layout = frame.layout else {
        if let information = PolarPPGInformation(frame) {
          writeInformation(information, into: &fields)
        } else {
          fields.member("content", hex: frame.content)
        }
        return
      }
      if frame.isCompressed || sampleRate != nil || isOneOfSeveral {
        fields.member("sampleCount", frame.sampleCount)
      }
      if frame.isCompressed { writeCompression(frame, layout, into: &fields) }
      writeUnits(frame, layout, into: &fields)
    }

    private func writeCompression(
      _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into fields: inout FieldList
    ) {
      fields.member("channels", layout.channelCount)
      fields.member("referenceBits", layout.referenceBits)
      var blocks = frame.deltaBlocks
      fields.member("deltaBlocks") { fields in
        while let block = blocks.next() {
          fields.object { fields in
            fields.member("deltaBits", block.deltaBits)
            fields.member("sampleCount", block.sampleCount)
          }
        }
      }
      fields.member("factor", factor)
      if layout.form == .floats {
        fields.samples("samplesFloat", frame) { fields, sample in
          fields.array { fields in
            for index in sample.indices { fields.value(Double(PolarUnits.float(sample[index]))) }
          }
        }
      } else {
        fields.samples("rawSamples", frame) { fields, sample in
          fields.array { fields in for index in sample.indices { fields.value(sample[index]) } }
        }
      }
    }

    /// Adds the samples in units, and the other channels under their own names.
    private func writeUnits(
      _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into fields: inout FieldList
    ) {
      switch frame.type {
      case .ecg: writeECG(frame, layout, into: &fields)
      case .accelerometer: writeAcceleration(frame, into: &fields)
      case .gyroscope where frame.isCompressed && factor == 1: break
      case .gyroscope where layout.form == .floats:
        fields.samples("samplesDegreesPerSecond", frame) { fields, sample in
          fields.array { fields in
            for index in sample.indices { fields.value(Double(PolarUnits.float(sample[index])) * factor) }
          }
        }
      case .gyroscope: fields.scaledSamples("samplesDegreesPerSecond", frame, factor)
      case .magnetometer: writeMagneticField(frame, layout, into: &fields)
      case .ppg: writePPG(frame, layout, into: &fields)
      case .ppi:
        fields.samples("samples", frame) { fields, sample in
          fields.object { PolarPPISample(sample).describe(into: &$0) }
        }
      case .pressure where !frame.isCompressed: fields.floatSamples("samplesHectopascal", frame)
      case .temperature where !frame.isCompressed, .skinTemperature where !frame.isCompressed:
        fields.floatSamples("samplesCelsius", frame)
      case .offlineHeartRate: fields.scaledSamples("samples", frame, 1)
      default: break
      }
    }

    private func writeECG(
      _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into fields: inout FieldList
    ) {
      guard layout.form != .ecgPair else { return fields.scaledSamples("samples", frame, 1) }
      fields.channel("samplesMicrovolts", frame, 0)
      switch layout.form {
      case .ecgContact:
        fields.samples("overSampling", frame) { fields, sample in fields.value(sample[1] != 0) }
        fields.channel("skinContactCode", frame, 2)
        fields.channel("contactImpedanceCode", frame, 3)
      case .ecgTags:
        fields.channel("ecgDataTag", frame, 1)
        fields.channel("paceDataTag", frame, 2)
      default: break
      }
    }

    private func writeAcceleration(_ frame: borrowing PolarFrame, into fields: inout FieldList) {
      // In frame type 0, only the factor determines the unit of a count.
      if frame.isCompressed, frame.frameType == 0, factor == 1 { return }
      let scale = PolarUnits.accelerometerMilliG(
        frameType: frame.frameType, isCompressed: frame.isCompressed, factor: factor)
      if !frame.isCompressed || frame.sampleCount <= Self.repeatedSampleLimit {
        fields.scaledSamples("samplesMilliG", frame, scale)
      } else if scale != 1 {
        var isFirst = true
        frame.forEachSample { sample in
          guard isFirst else { return }
          isFirst = false
          fields.member("firstSampleMilliG") { fields in
            for index in sample.indices { fields.value(Double(sample[index]) * scale) }
          }
        }
      }
    }

    private func writeMagneticField(
      _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into fields: inout FieldList
    ) {
      // The same rule as for acceleration.
      if frame.isCompressed, frame.frameType == 0, factor == 1 { return }
      let scale = PolarUnits.magnetometerGauss(frameType: frame.frameType, factor: factor)
      fields.scaledSamples("samplesGauss", frame, scale, channels: 3)
      guard layout.channelCount == 4 else { return }
      fields.samples("calibrationStatus", frame) { fields, sample in
        fields.value(name(UInt8(truncatingIfNeeded: sample[3]), in: ["unknown", "poor", "ok", "good"]))
      }
    }

    private func writePPG(
      _ frame: borrowing PolarFrame, _ layout: PolarSampleLayout, into fields: inout FieldList
    ) {
      switch (frame.isCompressed, layout.channelCount) {
      case (false, _):
        fields.scaledSamples("samplesPpg", frame, 1, channels: 3)
        fields.channel("ambient", frame, 3)
      case (true, 4): break
      default:
        let frameType = frame.frameType
        if frameType == 10 { fields.member("channelOrder", "8 red, 6 green, 6 infrared, 1 status") }
        fields.samples("statusBits", frame) { fields, sample in
          fields.value(PolarUnits.ppgStatus(sample[sample.count - 1], frameType: frameType))
        }
      }
    }

    private func writeInformation(_ information: PolarPPGInformation, into fields: inout FieldList) {
      switch information {
      case .integration(let gains):
        let channels = 0..<PolarPPGInformation.InlineGains.channelCount
        fields.member("integrationCounts") { fields in
          for channel in channels { fields.value(gains.integrationCount(channel)) }
        }
        fields.member("channel1Gains") { fields in
          for channel in channels { fields.value(gains.firstGain(channel)) }
        }
        fields.member("channel2Gains") { fields in
          for channel in channels { fields.value(gains.secondGain(channel)) }
        }
      case .operationMode(let mode): fields.member("operationMode", mode)
      case .sport(let identifier): fields.member("sportId", "\(identifier)")
      case .gains(let count, let first, let second):
        fields.member("integrationCount", count)
        fields.member("channel1Gain", first)
        fields.member("channel2Gain", second)
      }
    }
  }

  extension PolarPPISample {
    fileprivate func describe(into fields: inout FieldList) {
      fields.member("heartRateBpm", heartRate)
      fields.member("ppIntervalMilliseconds", intervalMilliseconds)
      fields.member("errorEstimateMilliseconds", errorEstimateMilliseconds)
      fields.member("blocker", isBlocked)
      fields.member("skinContact", hasSkinContact)
      fields.member("skinContactSupported", isSkinContactSupported)
    }
  }

  extension FieldList {
    fileprivate mutating func samples(
      _ name: String, _ frame: borrowing PolarFrame, _ body: (inout FieldList, Span<Int32>) -> Void
    ) {
      member(name) { list in frame.forEachSample { sample in body(&list, sample) } }
    }

    /// Adds samples in units.
    ///
    /// - Parameter channels: number of channels to write, from the first one on; `nil` for all channels.
    fileprivate mutating func scaledSamples(
      _ name: String, _ frame: borrowing PolarFrame, _ scale: Double, channels: Int? = nil
    ) {
      samples(name, frame) { fields, sample in
        fields.array { fields in
          for index in 0..<(channels ?? sample.count) {
            if scale == 1 { fields.value(sample[index]) } else { fields.value(Double(sample[index]) * scale) }
          }
        }
      }
    }

    fileprivate mutating func channel(_ name: String, _ frame: borrowing PolarFrame, _ channel: Int) {
      samples(name, frame) { fields, sample in fields.value(sample[channel]) }
    }

    fileprivate mutating func floatSamples(_ name: String, _ frame: borrowing PolarFrame) {
      samples(name, frame) { fields, sample in fields.value(Double(PolarUnits.float(sample[0]))) }
    }
  }
#endif
