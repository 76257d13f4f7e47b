import BLEWire
import ColmiRing
import Physiology
import TestKit
import Testing

@Suite struct RingRawSampleTests {
  @Test(arguments: RingVector.of(kind: "raw"))
  func decodesWhatTheRingMeant(_ vector: RingVector) throws {
    let octets = vector.octets
    let expect = vector.expect
    switch try RingRawSample(decoding: octets.span) {
    case .spO2(let sample):
      #expect(expect.subtype == 1)
      #expect(
        [expect.value, expect.max, expect.min, expect.diff]
          == [sample.value, sample.max, sample.min, sample.diff].map(Int.init))
    case .ppg(let sample):
      #expect(expect.subtype == 2)
      #expect(
        [expect.value, expect.max, expect.min, expect.diff]
          == [sample.value, sample.max, sample.min, sample.diff].map(Int.init))
    case .accelerometer(let sample):
      #expect(expect.subtype == 3)
      #expect([expect.x, expect.y, expect.z] == [sample.x, sample.y, sample.z].map(Int.init))
      let magnitude = try #require(expect.magnitudeG)
      #expect(abs(sample.acceleration.magnitude - magnitude) < 0.0005)
      #expect((0.9...1.1).contains(sample.acceleration.magnitude), "a ring at rest feels 1 g")
    case .unknown(let subtype):
      Issue.record("subtype \(subtype) is known")
    }
  }

  @Test func hasAllVectors() {
    #expect(RingVector.of(kind: "raw").count == 9)
  }

  @Test func keepsADroppedReadingAsZero() throws {
    let vector = try #require(RingVector.all.first { $0.name == "raw-ppg-ei-zero" })
    let octets = vector.octets
    let sample = try RingRawSample(decoding: octets.span)
    #expect(sample == .ppg(PPGRawSample(value: 0, max: 10957, min: 10689, diff: 268)))
  }

  /// Bits from the layout table: the extremes of 12-bit two's complement on each axis.
  @Test(arguments: [
    ("7f 0f 80 00 00 01", 1, 2047, -2048), ("ff 0f 00 00 80 00", -2048, -1, 0),
    ("00 00 7f 0f ff 0f", -1, 0, 2047), ("00 f0 00 f0 00 f0", 0, 0, 0),
  ])
  func signExtendsFromBit11(_ axes: String, x: Int16, y: Int16, z: Int16) throws {
    let command = RingCommand(RingCommand.rawStreamOpcode, payload: (octetsOf("03") + octetsOf(axes)).span)
    let octets = [UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) }
    let sample = try RingRawSample(decoding: octets.span)
    #expect(sample == .accelerometer(AccelerometerSample(x: x, y: y, z: z)))
  }

  @Test(arguments: RingVector.of(kind: "raw"))
  func refusesEveryTruncation(_ vector: RingVector) {
    let octets = vector.octets
    for count in 0..<octets.count {
      #expect(
        throws: WireError(.ring, offset: 0, .lengthMismatch(claimed: 16, available: count))
      ) { try RingRawSample(decoding: octets.span.extracting(first: count)) }
    }
    let long = octets + [0]
    #expect(throws: WireError.self) { try RingRawSample(decoding: long.span) }
  }

  /// One wrong bit in any byte changes the sum, because no bit is worth a multiple of 256.
  @Test(arguments: RingVector.of(kind: "raw"))
  func refusesEveryFlippedBit(_ vector: RingVector) {
    for index in 0..<16 {
      for bit in 0..<8 {
        var octets = vector.octets
        octets[index] ^= 1 << UInt8(bit)
        #expect(throws: WireError.self) { try RingRawSample(decoding: octets.span) }
      }
    }
  }

  @Test(arguments: [0, 4, 5, 0xFF] as [UInt8])
  func keepsUnknownSubtypes(_ subtype: UInt8) throws {
    let command = RingCommand(RingCommand.rawStreamOpcode, subtype)
    let octets = [UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) }
    let sample = try RingRawSample(decoding: octets.span)
    #expect(sample == .unknown(subtype: subtype))
  }

  @Test func refusesOtherFrames() {
    for command in [RingCommand.battery, RingCommand(RingCommand.rawStreamOpcode, 0xEE)] {
      let octets = [UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) }
      #expect(throws: WireError(.ring, offset: 0, .unexpectedOpcode(octets[0]))) {
        try RingRawSample(decoding: octets.span)
      }
    }
  }
}
