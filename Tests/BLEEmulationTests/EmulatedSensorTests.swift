import BLECore
import BLEEmulation
import BLESensors
import BLEStack
import BLEWire
import EmulatedSensors
import TestKit
import Testing

/// The sensors octet by octet, as a host sees them. Layouts: Heart Rate Service 1.0, Health Thermometer Service 1.0,
/// CoreTemp BLE Service Specification 2.2, and reference `sensor-services.md`, 5.
@Suite struct EmulatedSensorTests {
  /// A link to a sensor, whose values have handles that are looked up by reading the table.
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

    /// Values that come in this time; indications are confirmed.
    func values(_ uuid: BluetoothUUID, _ opcode: String = "1b", milliseconds: Int) -> [String] {
      var values: [String] = []
      var frame = ""
      // Small steps, so that a confirmation is not late.
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
    // Unsubscribed: silence.
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
    // As many seconds of intervals as of time, but for the beat that has not ended, in 1/1024 s.
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
    // 16 bits of rate and the energy are promised, one octet is there.
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
    // 3,600 s is allowed, 3,601 is not.
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
    // Twice is once too often; 131 Hz is no rate.
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
}
