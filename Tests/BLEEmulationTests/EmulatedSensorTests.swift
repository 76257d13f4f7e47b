import BLEEmulation
import BLESensors
import BLEStack
import BLEWire
import Physiology
import TestKit
import Testing

/// The sensors byte by byte, as a host sees them. Layouts: Heart Rate Service 1.0, Health Thermometer Service
/// 1.0, CoreTemp BLE Service Specification 2.2, and reference `sensor-services.md`, 5.
@Suite struct EmulatedSensorTests {
  /// A link to a sensor. Handles of its values are looked up by reading the table.
  private final class Bench {
    let sensor: EmulatedSensor
    let bench: ControllerBench
    private let database: GATTServerDatabase

    init(_ model: some SensorModel, _ change: (inout EmulatedSensor.Configuration) -> Void = { _ in }) {
      var configuration = EmulatedSensor.Configuration()
      change(&configuration)
      sensor = EmulatedSensor(model, configuration)
      database = GATTServerDatabase(sensor.services)
      bench = ControllerBench(VirtualController.Configuration(), [sensor])
      bench.setUp()
      let address = hexOf((0..<6).map { UInt8(truncatingIfNeeded: model.address.bits >> (8 * UInt64($0))) })
      let create = "010d2019 60006000 00 00 " + address + " 00 1800 2800 0000 2a00 0000 0000"
      #expect(bench.send(create) == ["040f0400010d20"])
      #expect(bench.wait(milliseconds: 200).count == 1)
      // MTU 247.
      #expect(bench.request("02f700").hasPrefix("03"))
    }

    func handle(_ uuid: BluetoothUUID, _ offset: UInt16 = 0) -> String {
      let handle = (database.valueHandle(of: uuid)?.rawValue ?? 0) + offset
      return hexOf([UInt8(truncatingIfNeeded: handle), UInt8(handle >> 8)])
    }

    func subscribe(_ uuid: BluetoothUUID, _ configuration: String = "0100") {
      #expect(bench.request("12" + handle(uuid, 1) + configuration) == "13")
    }

    /// Values that arrive in this time; indications are confirmed.
    func values(_ uuid: BluetoothUUID, _ opcode: String = "1b", milliseconds: Int) -> [String] {
      var values: [String] = []
      var frame = ""
      // Small steps, so that confirmations are not late.
      for _ in 0..<milliseconds / 10 {
        for packet in bench.wait(milliseconds: 10) where packet.hasPrefix("0240") {
          // Type, handle and flags, length; then the frame: length, channel, PDU.
          frame = (packet.hasPrefix("024010") ? frame : "") + packet.dropFirst(10)
          let length = octetsOf(String(frame.prefix(4)))
          guard frame.count == 2 * (4 + Int(length[0]) + Int(length[1]) << 8) else { continue }
          let pdu = String(frame.dropFirst(8))
          if pdu.hasPrefix("1d") { _ = bench.send(ControllerBench.att("1e")) }
          if pdu.hasPrefix(opcode + handle(uuid)) { values.append(String(pdu.dropFirst(6))) }
        }
      }
      return values
    }
  }

  @Test func advertisements() {
    // Flags, 180D, name.
    #expect(
      EmulatedSensor(StrapModel()).advertisement.map { hexOf($0.data) } == "02010603030d180e09"
        + hexOf("ringtap strap".utf8))
    // CORE Connectivity Implementation Notes 3.1, 2.1: 1809 and greenTEG's data, its service in the scan response.
    let core = EmulatedSensor(CoreModel()).advertisement
    #expect(
      core.map { hexOf($0.data) } == "02010603030918" + "0b09" + hexOf("CORE A1:B2".utf8) + "07fff60b0004948e"
    )
    #expect(core.map { hexOf($0.scanResponse) } == "05030a180f18" + "110721e1da14b5977cb047431e5b00210000")
  }

  @Test func strapSendsItsMeasurementsInTurn() {
    var strap = StrapModel()
    // Vectors of reference `sensor-test-vectors.json`: 72 bpm with contact, 340 and 748 ticks; 300 bpm.
    strap.measurements = [
      HeartRateMeasurement(beatsPerMinute: 72, contact: .detected, rrIntervals: RRIntervals([340, 748])),
      HeartRateMeasurement(beatsPerMinute: 300),
    ]
    let bench = Bench(strap) { $0.ticksPerSecond = 10 }
    #expect(bench.values(.heartRateMeasurement, milliseconds: 1000) == [])
    bench.subscribe(.heartRateMeasurement)
    #expect(
      bench.values(.heartRateMeasurement, milliseconds: 400) == [
        "16485401ec02", "012c01", "16485401ec02", "012c01",
      ])
    #expect(bench.bench.request("0a" + bench.handle(.bodySensorLocation)) == "0b01")
    #expect(bench.bench.request("0a" + bench.handle(.batteryLevel)) == "0b54")
    // Unsubscribed: no values.
    bench.subscribe(.heartRateMeasurement, "0000")
    #expect(bench.values(.heartRateMeasurement, milliseconds: 1000) == [])
    #expect(bench.sensor.sent == 4)
  }

  @Test("energy at each tenth measurement; the reset starts it again, other commands are refused with 0x80")
  func energy() throws {
    let bench = Bench(StrapModel())
    bench.subscribe(.heartRateMeasurement)
    // 60 s at one kilojoule in six seconds.
    let minute = bench.values(.heartRateMeasurement, milliseconds: 60_000).map(octetsOf)
    #expect(minute.count == 60)
    for (number, value) in minute.enumerated() {
      #expect(value[0] == ((number + 1).isMultiple(of: 10) ? 0x1E : 0x16))
      #expect((64...80).contains(value[1]))
    }
    #expect(minute[59][2...3] == [10, 0])
    // The intervals, in 1/1024 s, add up to the time, except for the beat that has not ended.
    let ticks = minute.reduce(0) { sum, value in
      let start = value[0] & 0x08 == 0 ? 2 : 4
      return sum
        + stride(from: start, to: value.count, by: 2).reduce(0) {
          $0 + (Int(value[$1]) | Int(value[$1 + 1]) << 8)
        }
    }
    #expect((59 * 1024...60 * 1024).contains(ticks))
    let point = bench.handle(.heartRateControlPoint)
    #expect(bench.bench.request("12" + point + "02") == "0112" + point + "80")
    #expect(bench.bench.request("12" + point + "01") == "13")
    let next = bench.values(.heartRateMeasurement, milliseconds: 10_000).map(octetsOf)
    // Ten seconds after the reset: one kilojoule.
    #expect(next[9][0] == 0x1E && next[9][2...3] == [1, 0])
  }

  @Test("a value that is cut, one without contact, and the end of the link")
  func troubles() {
    let bench = Bench(StrapModel()) {
      $0.ticksPerSecond = 10
      $0.malformedEvery = 3
      $0.offBodyEvery = 4
      $0.disconnectAfter = 5
    }
    bench.subscribe(.heartRateMeasurement)
    let values = bench.values(.heartRateMeasurement, milliseconds: 2000)
    #expect(values.count == 5)
    // A 16-bit rate and the energy are announced, but only one byte is there.
    #expect(values[2].hasPrefix("09") && values[2].count == 4)
    // Contact supported, not detected; rate 0.
    #expect(values[3] == "0400")
    #expect(bench.sensor.sent == 5 && bench.sensor.sentMalformed == 1)
  }

  @Test("three intermediate values and a result; NaN off the body; the interval has a range")
  func thermometer() {
    var model = ThermometerModel()
    // 36.5 °C with the type "ear", and FLOAT 0x007FFFFF.
    model.measurements = [
      TemperatureMeasurement(IEEE11073Float(mantissa: 3650, exponent: -2), type: .ear),
      TemperatureMeasurement(.nan),
    ]
    let bench = Bench(model) { $0.ticksPerSecond = 10 }
    bench.subscribe(.intermediateTemperature)
    bench.subscribe(.temperatureMeasurement, "0200")
    #expect(
      bench.values(.intermediateTemperature, milliseconds: 400) == [
        "04420e00fe03", "00ffff7f00", "04420e00fe03",
      ])
    #expect(bench.values(.temperatureMeasurement, "1d", milliseconds: 800) == ["00ffff7f00", "00ffff7f00"])
    #expect(bench.bench.request("0a" + bench.handle(.temperatureType)) == "0b03")
    let interval = bench.handle(.measurementInterval)
    #expect(bench.bench.request("0a" + interval) == "0b0400")
    // 3,600 s is allowed, 3,601 s is not.
    #expect(bench.bench.request("12" + interval + "100e") == "13")
    #expect(bench.bench.request("12" + interval + "110e") == "0112" + interval + "80")
    #expect(bench.bench.request("0a" + interval) == "0b100e")
  }

  /// Health Thermometer Service 1.0, 3.4: the time between two measurements.
  @Test func aWrittenIntervalCounts() {
    var model = ThermometerModel()
    model.measurements = [TemperatureMeasurement(IEEE11073Float(mantissa: 3650, exponent: -2), type: .ear)]
    let bench = Bench(model) { $0.ticksPerSecond = 10 }
    let interval = bench.handle(.measurementInterval)
    bench.subscribe(.temperatureMeasurement, "0200")
    #expect(bench.values(.temperatureMeasurement, "1d", milliseconds: 800).count == 2)
    #expect(bench.bench.request("12" + interval + "0200") == "13")
    #expect(bench.values(.temperatureMeasurement, "1d", milliseconds: 800).count == 4)
    #expect(bench.bench.request("12" + interval + "0a00") == "13")
    #expect(bench.values(.temperatureMeasurement, "1d", milliseconds: 900).isEmpty)
    #expect(bench.values(.temperatureMeasurement, "1d", milliseconds: 100).count == 1)
  }

  @Test("CORE: 0x7FFF off the body, and its control point")
  func core() {
    let bench = Bench(CoreModel()) {
      $0.ticksPerSecond = 10
      $0.offBodyEvery = 2
    }
    bench.subscribe(CoreUUID.bodyTemperature)
    let values = bench.values(CoreUUID.bodyTemperature, milliseconds: 200)
    // Flags skin, quality, heart rate, heat strain; 36.50, 33.00 °C; good, no heart rate; 1.2.
    #expect(values == ["35420ee40c13000c", "14ff7f1000"])
    bench.subscribe(CoreUUID.controlPoint, "0200")
    let point = bench.handle(CoreUUID.controlPoint)
    let answers = bench.bench.send(ControllerBench.att("12" + point + "08"))
    #expect(answers.contains { $0.hasSuffix("1d" + point + "80080100") })
    _ = bench.bench.send(ControllerBench.att("1e"))
    let refusal = bench.bench.send(ControllerBench.att("12" + point + "0dff"))
    #expect(refusal.contains { $0.hasSuffix("1d" + point + "800d02") })
  }

  @Test("Polar: settings, start, frames of the rate asked for, stop")
  func polar() throws {
    let bench = Bench(PolarModel()) { $0.ticksPerSecond = 2 }
    let point = bench.handle(PolarUUID.controlPoint)
    // Bits ECG, PPG, ACC.
    #expect(bench.bench.request("0a" + point) == "0b0f07" + String(repeating: "00", count: 15))
    bench.subscribe(PolarUUID.controlPoint, "0200")
    bench.subscribe(PolarUUID.data)
    func command(_ command: String) -> String? {
      let answers = bench.bench.send(ControllerBench.att("12" + point + command))
      _ = bench.bench.send(ControllerBench.att("1e"))
      return answers.first { $0.contains("1d" + point) }.map { String($0.dropFirst(24)) }
    }
    // 130 Hz, 14 bits: the start of an H10's ECG (reference, 5.3).
    #expect(command("0100") == "f001000000" + "00018200" + "01010e00")
    #expect(command("02000001820001010e00") == "f002000000" + "05010000803f")
    // A second start is refused; 131 Hz is not a supported rate.
    #expect(command("02000001820001010e00") == "f002000600")
    #expect(command("0202000183000101100002010800") == "f002020800")
    let frames = bench.values(PolarUUID.data, milliseconds: 2000)
    let samples = try frames.map { text in
      let value = octetsOf(text)
      return try PolarFrame(validating: value.span).sampleCount
    }
    #expect(frames.allSatisfy { $0.hasPrefix("00") && $0.dropFirst(18).hasPrefix("00") })
    #expect((195...260).contains(samples.reduce(0, +)))
    #expect(command("0300") == "f003000000")
    #expect(bench.values(PolarUUID.data, milliseconds: 2000) == [])
  }

  /// A minute of a Polar sensor's ECG by its own clock, in seconds, and microvolts.
  private func electrocardiogram(_ model: PolarModel) throws -> [(seconds: Double, microvolts: Double)] {
    let bench = Bench(model) { $0.ticksPerSecond = 2 }
    bench.subscribe(PolarUUID.controlPoint, "0200")
    bench.subscribe(PolarUUID.data)
    _ = bench.bench.send(
      ControllerBench.att("12" + bench.handle(PolarUUID.controlPoint) + "02000001820001010e00"))
    _ = bench.bench.send(ControllerBench.att("1e"))
    var samples: [(seconds: Double, microvolts: Double)] = []
    for text in bench.values(PolarUUID.data, milliseconds: 62_000) {
      let octets = octetsOf(text)
      let frame = try PolarFrame(validating: octets.span)
      let last = Double(frame.timestampNanoseconds - PolarModel.epochNanoseconds) / 1e9
      var number = 0
      frame.forEachSample { sample in
        number += 1
        samples.append((last - Double(frame.sampleCount - number) / 130, Double(sample[0])))
      }
    }
    return samples
  }

  /// R peaks are at the rhythm's beats, both for the detector and for neurokit2 0.2.13 (`ecg_clean` and
  /// `ecg_peaks` with their defaults on these samples, which a note of figures contains; its results are
  /// whole samples).
  @Test func polarElectrocardiogram() throws {
    let rhythm = HeartRhythm()
    let samples = try electrocardiogram(PolarModel())
    #expect(samples.count >= 60 * 130)
    Figures.note("ECG from \(samples[0].seconds) s: \(samples.prefix(7_800).map { Int($0.microvolts) })")
    var meter = try ECGMeter(rate: 130)
    var beats: [ECGBeat] = []
    var rates: [Double] = []
    for (index, sample) in samples.enumerated() {
      let time = ReceiveTime(nanoseconds: Int64((sample.seconds * 1e9).rounded()))
      let sample = ECGSample(index: index, time: time, microvolts: sample.microvolts)
      guard let window = meter.take(sample) else { continue }
      #expect(window.rejection == nil)
      rates += window.beatsPerMinute.map { [$0] } ?? []
      beats += (0..<meter.beatCount).map { meter.beat($0) }
    }
    #expect(rates.count == 6 && rates.allSatisfy { (62...82).contains($0) })
    // The stream begins at the peak of beat 0, half of which is there.
    let found = beats.map { Double($0.time.nanoseconds) / 1e9 }.filter { $0 > samples[0].seconds + 0.2 }
    let known = (0..<200).map(rhythm.beat).filter {
      $0 > samples[0].seconds + 0.2 && $0 < found[found.count - 1] + 0.1
    }
    #expect(known.count == found.count && known.count >= 70)
    for (theirs, ours) in zip(known, found) { #expect(abs(theirs - ours) < 0.004) }
    // The rhythm varies as it should, by breathing and the slow wave.
    let intervals = zip(known.dropFirst(), known).map { $0 - $1 }
    let range = (intervals.max() ?? 0) / (intervals.min() ?? 1)
    #expect(range > 1.25 && range < 1.5)
    #expect(Self.neurokit2.count >= 70)
    for place in Self.neurokit2 {
      let time = samples[0].seconds + Double(place) / 130
      #expect(known.contains { abs($0 - time) < 0.02 } || time > found[found.count - 1])
    }
    #expect(
      known.filter { $0 < 59 }.allSatisfy { time in
        Self.neurokit2.contains { abs(samples[0].seconds + Double($0) / 130 - time) < 0.02 }
      })
  }

  /// A heart with a constant rate has that rate, and the strap's intervals are the rhythm's, to 1/1024 s.
  @Test func strapSendsItsRhythm() throws {
    var strap = StrapModel()
    strap.rhythm = HeartRhythm(beatsPerMinute: 120...120)
    let bench = Bench(strap)
    bench.subscribe(.heartRateMeasurement)
    var end = 0.0
    var count = 0
    for value in bench.values(.heartRateMeasurement, milliseconds: 60_000).map(octetsOf) {
      let measurement = try HeartRateMeasurement(decoding: value.span)
      #expect(measurement.beatsPerMinute == 120)
      for index in 0..<measurement.rrIntervals.count {
        end += Double(measurement.rrIntervals[index]) / 1024
        count += 1
        #expect(abs(end - strap.rhythm.beat(count)) <= 0.5 / 1024 + 1e-9)
      }
    }
    #expect((119...121).contains(count))
  }

  /// Sample numbers.
  private static let neurokit2 = [
    117, 233, 351, 471, 587, 701, 817, 938, 1057, 1170, 1281, 1395, 1508, 1616, 1721,
    1828, 1938, 2049, 2157, 2263, 2370, 2480, 2587, 2690, 2790, 2890, 2993, 3096, 3196, 3294,
    3394, 3497, 3601, 3701, 3798, 3895, 3993, 4093, 4190, 4286, 4382, 4482, 4585, 4688, 4790,
    4892, 4997, 5105, 5211, 5313, 5414, 5519, 5626, 5733, 5839, 5945, 6057, 6172, 6285, 6395,
    6506, 6621, 6736, 6846, 6956, 7071, 7191, 7311, 7429, 7549, 7674,
  ]
}
