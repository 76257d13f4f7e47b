import BLEDissector
import BLEWire
import Foundation
import JSONText
import TestKit
import Testing

/// Output of `ringtap decode`, compared with the vectors.
@Suite struct SensorDecoderTests {
  /// Input to the decoder, which the vectors store beside the expected output.
  private static func context(of vector: SensorVector) -> SensorDecoder.Context {
    var context = SensorDecoder.Context()
    context.operation = vector.operation.flatMap(SensorDecoder.Operation.init(rawValue:))
    context.factor = vector.expect["factor"]?.number
    context.previousTimestampNanoseconds = vector.expect["previousTimestampNanoseconds"]?.text.flatMap(
      UInt64.init)
    context.sampleRate = (vector.expect["sampleRateHz"] ?? vector.expect["requestedSampleRateHz"])?.number
      .map { UInt16($0) }
    return vector.characteristic.hasPrefix("FB005C82") ? context : context.withOperationOnly
  }

  /// Keys that describe the vectors themselves: their precision, and parts that they leave out.
  private static let remarks: Set<String> = [
    "toleranceMilliG", "timestampToleranceNanoseconds", "rawSamplesAre",
  ]

  private static func decode(
    _ frames: [[UInt8]], _ vector: SensorVector, _ context: SensorDecoder.Context
  ) throws -> [String: JSONValue] {
    var line = JSONLine()
    let source = vector.uuid.map { SensorDecoder.Source.characteristic($0) } ?? .manufacturerData
    try #require(SensorDecoder().decode(frames, of: source, context, into: &line))
    return try JSONDecoder().decode([String: JSONValue].self, from: Data(line.octets))
  }

  @Test(arguments: SensorVector.all)
  func decodesTheVector(_ vector: SensorVector) throws {
    let found = try Self.decode(vector.octets, vector, Self.context(of: vector))
    let expected = vector.expect.filter { !Self.remarks.contains($0.key) }
    #expect(Set(found.keys) == Set(expected.keys))
    for (key, value) in expected {
      switch (key, vector.name) {
      case ("frames", "pmd-ecg-h10-three-frames"):
        try Self.checkFrames(found[key]?.array ?? [], value.array ?? [], vector)
      case ("firstSampleMilliG", _): try Self.checkFirstSample(found[key], value, vector)
      case ("rawSamples", "pmd-ppg-delta-type10"):
        // The vector has the first, the second and the last sample.
        let samples = try #require(found[key]?.array)
        #expect(samples.count == 7)
        #expect(.array([samples[0], samples[1], samples[samples.count - 1]]) == value)
      case ("statusBits", "pmd-ppg-delta-type10"):
        // The vector has this value once, because it is the same for all samples.
        let bits = try #require(found[key]?.array)
        #expect(bits.count == 7)
        #expect(Set(bits) == Set(value.array ?? []))
      default: #expect(found[key]?.matches(value) == true, "\(key): \(found[key] ?? .null), not \(value)")
      }
    }
  }

  private static func checkFirstSample(
    _ found: JSONValue?, _ expected: JSONValue, _ vector: SensorVector
  ) throws {
    let tolerance = try #require(vector.expect["toleranceMilliG"]?.number)
    let (ours, theirs) = (try #require(found?.array), try #require(expected.array))
    #expect(ours.count == theirs.count)
    for (ours, theirs) in zip(ours, theirs) {
      #expect(abs(try #require(ours.number) - (try #require(theirs.number))) <= tolerance)
    }
  }

  private static func checkFrames(_ found: [JSONValue], _ expected: [JSONValue], _ vector: SensorVector)
    throws
  {
    let tolerance = try #require(vector.expect["timestampToleranceNanoseconds"]?.number)
    #expect(found.count == expected.count)
    for (frame, expected) in zip(found, expected) {
      let (frame, expected) = (try #require(frame.object), try #require(expected.object))
      #expect(Set(frame.keys) == Set(expected.keys))
      for (key, value) in expected {
        if key == "firstSampleTimestampNanoseconds" {
          let ours = try #require(frame[key]?.text.flatMap(Int64.init))
          let theirs = try #require(value.text.flatMap(Int64.init))
          #expect(Double((ours - theirs).magnitude) <= tolerance)
        } else {
          #expect(frame[key]?.matches(value) == true, "\(key)")
        }
      }
    }
  }

  @Test func hasAllVectors() { #expect(SensorVector.all.count == 120) }

  /// If the operation is not given, the bytes determine it.
  @Test(arguments: SensorVector.all.filter { $0.operation != nil })
  func tellsRequestsFromAnswers(_ vector: SensorVector) throws {
    let found = try Self.decode(vector.octets, vector, SensorDecoder.Context())
    #expect(found["kind"] == vector.expect["kind"])
    #expect(found["command"] == vector.expect["command"])
  }

  /// Any input gives one JSON object: truncations, and random changes. Only a few long frames are tested,
  /// because their samples make long lines; `PolarFrameTests` damages them without JSON.
  @Test(arguments: SensorVector.all)
  func survivesDamage(_ vector: SensorVector) throws {
    var generator = SeededGenerator(state: 11_073)
    let context = Self.context(of: vector)
    let frames = vector.octets
    for (number, frame) in frames.enumerated() {
      var damaged = frames
      for count in stride(from: 0, to: frame.count, by: 1 + frame.count / 20) {
        damaged[number] = Array(frame[..<count])
        _ = try Self.decode(damaged, vector, context)
      }
      for _ in 0..<20 {
        damaged[number] = frame
        for _ in 0..<Int.random(in: 1...4, using: &generator) where !frame.isEmpty {
          damaged[number][Int.random(in: 0..<frame.count, using: &generator)] = .random(
            in: 0...255, using: &generator)
        }
        _ = try Self.decode(damaged, vector, context)
      }
    }
  }

  @Test func doesNotKnowEverything() {
    var line = JSONLine()
    #expect(!SensorDecoder().decode([[0]], of: .characteristic(BluetoothUUID(0xFFF1)), into: &line))
    #expect(line.octets.isEmpty)
  }
}

extension SensorDecoder.Context {
  fileprivate var withOperationOnly: SensorDecoder.Context {
    var context = SensorDecoder.Context()
    context.operation = operation
    return context
  }
}
