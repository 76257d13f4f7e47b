import BLESensors
import BLEWire
import TestKit
import Testing

/// Properties of raw data frames that the JSON vectors cannot express.
@Suite struct PolarFrameTests {
  static let vectors = SensorVector.all.filter { $0.uuid == PolarUUID.data && $0.expect["error"] == nil }

  private func samples(_ octets: [UInt8]) throws -> [[Int32]] {
    var samples: [[Int32]] = []
    try PolarFrame(validating: octets.span).forEachSample { sample in
      samples.append(sample.indices.map { sample[$0] })
    }
    return samples
  }

  /// The bytes with the unused bits cleared: the padding in the last byte of each block, and bits 14, 15 and
  /// 21 to 23 of an ECG sample of type 1.
  private func withoutUnused(_ octets: [UInt8], _ vector: SensorVector) -> [UInt8] {
    var octets = octets
    if vector.name == "pmd-ecg-type1" {
      for start in stride(from: 10, to: octets.count, by: 3) {
        octets[start + 1] &= 0x3F
        octets[start + 2] &= 0x1F
      }
    }
    guard octets[9] & 0x80 != 0, let channels = vector.expect["channels"]?.number,
      let bits = vector.expect["referenceBits"]?.number
    else { return octets }
    var end = 10 + Int(channels * bits / 8)
    while end < octets.count {
      let used = Int(octets[end]) * Int(octets[end + 1]) * Int(channels)
      end += 2 + (used + 7) / 8
      if used % 8 > 0 { octets[end - 1] &= (1 << UInt8(used % 8)) - 1 }
    }
    return octets
  }

  /// The encoder gives the original bytes, block by block, except for the padding, which devices need not
  /// clear.
  @Test(arguments: vectors)
  func encodesWhatItReads(_ vector: SensorVector) throws {
    for octets in vector.octets {
      let frame = try PolarFrame(validating: octets.span)
      let (type, frameType, isCompressed) = (frame.type, frame.frameType, frame.isCompressed)
      guard let encoder = PolarFrameEncoder(type, frameType: frameType, isCompressed: isCompressed) else {
        #expect(vector.name == "pmd-ppg-raw-type9", "the only one without samples")
        continue
      }
      let samples = try samples(octets)
      let time = frame.timestampNanoseconds
      var blocks = frame.deltaBlocks
      let encoded = [UInt8](encoding: 4096) { output in
        encoder.encodeHeader(timestampNanoseconds: time, into: &output)
        guard isCompressed else {
          for sample in samples { encoder.encodeSample(sample.span, into: &output) }
          return
        }
        let reference = samples[0]
        encoder.encodeSample(reference.span, into: &output)
        var next = 1
        while let block = blocks.next() {
          let run = Array(samples[next..<next + block.sampleCount].joined())
          let before = samples[next - 1]
          #expect(encoder.deltaBits(run.span, after: before.span) <= block.deltaBits)
          encoder.encodeBlock(run.span, after: before.span, deltaBits: block.deltaBits, into: &output)
          next += block.sampleCount
        }
      }
      #expect(encoded == withoutUnused(octets, vector))
    }
  }

  /// Each prefix is an error, a plain frame with fewer samples, or a compressed one with fewer blocks.
  @Test(arguments: vectors)
  func tellsTruncation(_ vector: SensorVector) throws {
    for octets in vector.octets {
      let whole = try samples(octets)
      for count in 0..<octets.count {
        let part = Array(octets[..<count])
        do throws(WireError) {
          let frame = try PolarFrame(validating: part.span)
          let found = frame.sampleCount
          #expect(found <= whole.count)
          var index = 0
          frame.forEachSample { sample in
            let values = sample.indices.map { sample[$0] }
            #expect(values == whole[index])
            index += 1
          }
          #expect(index == found)
        } catch {
          #expect(error.layer == .polarMeasurement && error.offset <= count, "\(error)")
          guard case .truncated(let needed, let available) = error.reason else {
            Issue.record("\(error)")
            continue
          }
          #expect(needed > available)
        }
      }
    }
  }

  @Test(arguments: vectors)
  func survivesChangedOctets(_ vector: SensorVector) throws {
    var generator = SeededGenerator(state: 2000)
    for octets in vector.octets {
      for _ in 0..<500 {
        var changed = octets
        for _ in 0..<3 {
          changed[Int.random(in: 0..<octets.count, using: &generator)] = .random(
            in: 0...255, using: &generator)
        }
        guard let found = try? samples(changed) else { continue }
        let frame = try PolarFrame(validating: changed.span)
        let (count, channels) = (frame.sampleCount, frame.layout?.channelCount)
        #expect(found.count == count)
        #expect(found.allSatisfy { $0.count == channels })
      }
    }
  }

  /// Extreme widths of a block, by the rules of the reference (section 5.6): two's complement, wrapping at 32
  /// bits.
  @Test func readsEveryWidth() throws {
    let encoder = try #require(PolarFrameEncoder(.skinTemperature, frameType: 0, isCompressed: true))
    for bits in 1...32 {
      let extremes: [Int32] = [.min >> Int32(32 - bits), .max >> Int32(32 - bits), 0, -1]
      var values: [Int32] = [0x7FFF_FFF0]
      for delta in extremes { values.append(values[values.count - 1] &+ delta) }
      let run = Array(values.dropFirst())
      let octets = [UInt8](encoding: 64) { output in
        encoder.encodeHeader(timestampNanoseconds: 1, into: &output)
        encoder.encodeSample(values.span.extracting(first: 1), into: &output)
        encoder.encodeBlock(run.span, after: values.span.extracting(first: 1), deltaBits: bits, into: &output)
      }
      #expect(octets.count == 10 + 4 + encoder.blockByteCount(deltaBits: bits, sampleCount: 4))
      #expect(try samples(octets) == values.map { [$0] })
      #expect(encoder.deltaBits(run.span, after: values.span.extracting(first: 1)) == bits)
    }
  }

  /// -1 in one bit: 2 samples of three channels with all differences -1 or 0, written by hand.
  @Test func readsOneBit() throws {
    let found = try samples(octetsOf("02 0100000000000000 81 0a00 1400 1e00 01 02 15"))
    #expect(found == [[10, 20, 30], [9, 20, 29], [9, 19, 29]])
  }

  @Test(
    arguments: [
      ("02 0100000000000000 81 0a00 1400 1e00 21 01 00000000", 16, .invalidValue(33)),
      ("02 0100000000000000 81 0a00 1400 1e00 08", 17, .truncated(needed: 1, available: 0)),
      ("02 0100000000000000 81 0a00 1400 1e00 08 02 010203", 18, .truncated(needed: 6, available: 3)),
      ("02 0100000000000000 81 0a00 1400 1e", 10, .truncated(needed: 6, available: 5)),
      ("02 0100000000000000 01 0a00 1400 1e00 0a", 16, .truncated(needed: 6, available: 1)),
      ("02 01000000000000", 1, .truncated(needed: 8, available: 7)),
    ] as [(String, Int, WireError.Reason)])
  func tellsWhatIsWrong(_ hex: String, _ offset: Int, _ reason: WireError.Reason) {
    let octets = octetsOf(hex)
    #expect(throws: WireError(.polarMeasurement, offset: offset, reason)) {
      _ = try PolarFrame(validating: octets.span).sampleCount
    }
  }

  @Test func copiesWholeSamplesOnly() throws {
    let octets = octetsOf("02 0100000000000000 01 0100 0200 0300 0400 0500 0600")
    let frame = try PolarFrame(validating: octets.span)
    var count = 0
    let copied = [Int32](capacity: 5) { output in count = frame.copySamples(into: &output) }
    #expect(copied == [1, 2, 3])
    #expect(count == 1)
  }

  @Test func keepsUnknownFrames() throws {
    let octets = octetsOf("3f 0100000000000000 05 0102")
    let frame = try PolarFrame(validating: octets.span)
    let (hasLayout, count, content) = (frame.layout != nil, frame.sampleCount, frame.content.count)
    #expect(!hasLayout && count == 0 && content == 2)
  }
}

/// Times of samples; the vectors have the ordinary cases.
@Suite struct PolarSampleClockTests {
  @Test func endsEachFrameAtItsStamp() throws {
    var clock = PolarSampleClock(sampleRateHertz: 50)
    let firstFound = clock.timing(of: 1_000_000_000, sampleCount: 5)
    let first = try #require(firstFound)
    #expect(
      (0..<5).map(first.nanoseconds) == [920_000_000, 940_000_000, 960_000_000, 980_000_000, 1_000_000_000])
    let secondFound = clock.timing(of: 1_110_000_000, sampleCount: 5)
    let second = try #require(secondFound)
    #expect(
      (0..<5).map(second.nanoseconds) == [
        1_022_000_000, 1_044_000_000, 1_066_000_000, 1_088_000_000, 1_110_000_000,
      ])
    #expect(second.missingSampleCount == 0)
  }

  /// A frame of 5 samples and a gap of another 10: 300 ms at 50 Hz have room for 15.
  @Test func countsWhatAGapTook() throws {
    var clock = PolarSampleClock(sampleRateHertz: 50)
    _ = clock.timing(of: 1_000_000_000, sampleCount: 5)
    let timingFound = clock.timing(of: 1_300_000_000, sampleCount: 5)
    let timing = try #require(timingFound)
    #expect(timing.missingSampleCount == 10)
    #expect(timing.nanoseconds(0) == 1_220_000_000)
  }

  @Test func beginsAnewWhenTheClockIsSetBack() throws {
    var clock = PolarSampleClock(sampleRateHertz: 50)
    _ = clock.timing(of: 1_000_000_000, sampleCount: 5)
    let timingFound = clock.timing(of: 500_000_000, sampleCount: 2)
    let timing = try #require(timingFound)
    #expect((0..<2).map(timing.nanoseconds) == [480_000_000, 500_000_000])
  }

  @Test func doesNotGuess() {
    var clock = PolarSampleClock(sampleRateHertz: nil)
    let (first, unknown) = (clock.timing(of: 1_000, sampleCount: 5), clock.timing(of: 0, sampleCount: 5))
    #expect(first == nil && unknown == nil)
    let second = clock.timing(of: .max, sampleCount: 3)
    // No overflow, and exact even if a Double would not be.
    #expect(second?.nanoseconds(2) == UInt64.max)
    #expect(second?.nanoseconds(0) == 6_148_914_691_236_517_872)
  }
}
