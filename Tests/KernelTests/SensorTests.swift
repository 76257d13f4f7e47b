import Foundation
import TestKit
import Testing

extension OverEachWay {
  /// Heart-rate straps: bumble's own profile as the peer, and ours.
  @Suite final class HeartRateTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// A line of our output, or a line in which bumble prints what it sent.
    private struct Line: Decodable, Equatable {
      var event: String?
      var time_ns: UnixNanoseconds?
      var bpm: Int?
      var contact: Int?
      var energy_kj: Int?
      var rr_1024ths: [Int]?
      /// The packet's content, in the format of `ringtap decode`.
      var packet: Packet?
      var bodySensorLocation: String?
      var batteryLevelPercent: Int?
      var manufacturerName: String?
      var firmwareRevision: String?
      var values: Int?
      var malformed: Int?
      var lost: Int?
    }

    private struct Packet: Decodable, Equatable {
      var heartRateBpm: Int?
      var sensorContact: String?
      var energyExpendedKilojoules: Int?
      var rrIntervals1024ths: [Int]?
    }

    private func decoded<Value: Decodable>(_ text: String, _ type: Value.Type = Line.self) throws -> Value {
      try JSONDecoder().decode(type, from: Data(text.utf8))
    }

    /// Its five measurements twice, with a cut one after every third. One of the five is without contact: a
    /// state, which does not count as a value.
    @Test(arguments: Way.sensorsHere)
    func showsWhatBumbleSends(_ way: Way) throws {
      let strap = try scene.bumbleStrap(over: way, "--malformed", "3", "--count", "10")
      let result = try scene.ringtap(
        reaching: strap, "heart-rate", strap.address, "--count", "8", "--json", "--reset-energy")
      #expect(result.status == 0, "\(result.errors)")
      let lines = try result.outputLines.map { try decoded($0, Line.self) }

      let device = try #require(lines.first { $0.event == "device" })
      #expect(device.bodySensorLocation == "wrist")
      #expect(device.batteryLevelPercent == 57)
      #expect(device.manufacturerName == "bumble strap works")
      #expect(device.firmwareRevision == "1.2.3")

      let values = lines.dropLast().filter { $0.event != "device" }
      let sent = try strap.program.lines(untilThey: "report the values") {
        $0.count { $0.hasPrefix("sent ") } >= values.count
      }
      #expect(sent.contains("reset"))
      let theirs = try sent.filter { $0.hasPrefix("sent ") }.prefix(values.count)
        .map { try decoded(String($0.dropFirst(5)), Packet.self) }
      #expect(values.map(\.packet) == Array(theirs))
      #expect(
        values.prefix(5).map(\.event) == [
          "measurement", "measurement", "state", "measurement", "measurement",
        ])
      #expect(values.prefix(5).map(\.bpm) == [72, 75, nil, 81, 300])
      // The named columns hold the packets' values.
      #expect(values.map(\.rr_1024ths) == theirs.map(\.rrIntervals1024ths))
      #expect(values.map(\.energy_kj) == theirs.map(\.energyExpendedKilojoules))
      let contacts = ["notSupported": nil, "notDetected": 0, "detected": 1] as [String: Int?]
      #expect(values.map(\.contact) == theirs.map { contacts[$0.sensorContact ?? ""] ?? nil })
      #expect(values.first?.rr_1024ths == [853, 832])
      let times = values.compactMap(\.time_ns)
      #expect(times.count == values.count && times == times.sorted())

      let end = try #require(lines.last)
      #expect(end.event == "end")
      #expect(end.values == 8)
      #expect(values.count == 10)
      #expect(end.malformed == 3)
      #expect(end.lost == 0)
      #expect(result.errors.contains("skipped 3 malformed values"))
    }

    /// Found by its service, because no address and no name is given.
    @Test(arguments: Way.sensorsHere)
    func findsBumblesStrap(_ way: Way) throws {
      let strap = try scene.bumbleStrap(over: way)
      let result = try scene.ringtap(reaching: strap, "heart-rate", "--count", "2")
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("found bumble strap \(strap.address) ("))
      #expect(
        result.errors.contains("bumble strap works S-1, firmware 1.2.3, battery 57 %, worn on the wrist"))
      #expect(result.outputLines.first == "72 bpm  833 813 ms")
    }
  }
}

extension WithoutKernel {
  /// The commands with emulated sensors in the same process.
  @Suite final class SensorCommandTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private func lines(_ result: Program.Result) throws -> [[String: Any]] {
      try result.outputLines.map { line in
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      }
    }

    /// bumble's ring and strap in range of bumble's controller, recorded at once. Each log ends with the last
    /// requested value, by btmon and tshark; the tables have what bumble says it sent.
    @Test func recordsBumblesRingAndStrapAtOnce() throws {
      let strap = try scene.bumbleStrap(over: .tcp, "--with-ring")
      let ring = "F0:F1:F2:F3:F4:F5"
      let path = scene.path("ride")
      let result = try scene.ringtap(
        reaching: strap, "capture", ring, "heart-rate@\(strap.address)", "--count", "10", "--output", path)
      result.expectSuccess()

      let ofRing = try CaptureFolder(path + "/F0-F1-F2-F3-F4-F5")
      ofRing.expectNoTrouble(samples: 10, stamps: .arrival)
      // bumble's ring numbers its frames, starting with these.
      #expect(ofRing.tables["spo2"]?.compactMap { $0.values.first } == [0, 1, 2, 3])
      #expect(try scene.btmonNotifications(ofRing.packetLog) == 10)
      #expect(try (1...5).contains(scene.requestsBeforeTheStream(ofRing.packetLog)))

      let ofStrap = path + "/F0-F1-F2-F3-F4-F6"
      func column(_ name: String, _ number: Int) throws -> [String] {
        try String(contentsOfFile: ofStrap + "/\(name).csv", encoding: .utf8).split(separator: "\n")
          .dropFirst()
          .map { String($0.split(separator: ",", omittingEmptySubsequences: false)[number]) }
      }
      // One of five is without contact and not a value: 12 measurements contain 10 values.
      let sent = try strap.program.lines(untilThey: "report the values") {
        $0.count { $0.hasPrefix("sent {") } >= 12
      }
      let theirs = try sent.filter { $0.hasPrefix("sent {") }.prefix(12).map { line in
        try #require(
          try JSONSerialization.jsonObject(with: Data(line.dropFirst(5).utf8)) as? [String: Any])
      }
      #expect(
        try column("heart_rate", 1)
          == theirs.map {
            $0["sensorContact"] as? String == "notDetected" ? "" : "\($0["heartRateBpm"] ?? "")"
          })
      let intervals = theirs.flatMap { $0["rrIntervals1024ths"] as? [Int] ?? [] }
      #expect(try column("rr_intervals", 1) == intervals.map(String.init))
      #expect(intervals.count == 15)
      #expect(try scene.btmonNotifications(ofStrap + "/packets.btsnoop") == 12)
      #expect(try (1...5).contains(scene.requestsBeforeTheStream(ofStrap + "/packets.btsnoop")))
    }

    @Test func heartRateOfTheVirtualStrap() throws {
      let result = try scene.ringtap(
        "heart-rate", "--transport", "virtual:heart-rate,rate=50,count=33,off-body-every=4,malformed-every=5",
        "--json",
        "--count", "20")
      #expect(result.status == 0, "\(result.errors)")
      let lines = try lines(result)
      #expect(lines.count { $0["event"] as? String == "device" } == 1)
      let device = try #require(lines.first { $0["event"] as? String == "device" })
      #expect(device["bodySensorLocation"] as? String == "chest")
      #expect(device["batteryLevelPercent"] as? Int == 84)
      let end = try #require(lines.last)
      #expect(end["event"] as? String == "end")
      #expect(end["values"] as? Int == 20)
      let states = lines.filter { $0["event"] as? String == "state" }
      #expect(states.allSatisfy { $0["state"] as? String == "noContact" && $0["bpm"] is NSNull })
      let rates = lines.filter { $0["event"] as? String == "measurement" }.compactMap { $0["bpm"] as? Int }
      #expect(rates.count == 20 && rates.allSatisfy { (64...80).contains($0) })
      // Every fifth tick is malformed; of the others, every fourth is not worn. The 20th value is tick 33.
      #expect(states.count == 7)
      #expect(end["malformed"] as? Int == 6)
    }

    @Test(arguments: [
      ("thermometer", "temperatureCelsius", "temperatureFahrenheit"),
      ("core", "coreTemperatureCelsius", "coreTemperatureFahrenheit"),
    ])
    func bothUnits(kind: String, celsius: String, fahrenheit: String) throws {
      let result = try scene.ringtap(
        "thermometer", "--transport", "virtual:\(kind),rate=50,count=13,off-body-every=3,malformed-every=10",
        "--json",
        "--unit",
        "fahrenheit", "--count", "8")
      #expect(result.status == 0, "\(result.errors)")
      let lines = try lines(result)
      let values = lines.filter { ($0["packet"] as? [String: Any])?[celsius] is Double }
      #expect(values.count == 8)
      for value in values {
        let degrees = try #require(value["temperature_celsius"] as? Double)
        #expect((value["packet"] as? [String: Any])?[celsius] as? Double == degrees)
        #expect((36.5...37.3).contains(degrees))
        #expect(try #require(value[fahrenheit] as? Double) == ((degrees * 1.8 + 32) * 100).rounded() / 100)
      }
      // Every third tick is not worn; the tenth value is cut. A thermometer's first ticks may arrive before
      // the second subscription.
      #expect((3...4).contains(lines.count { $0["state"] as? String == "not_on_body" }))
      #expect(lines.last?["malformed"] as? Int == 1)
    }

    @Test func fahrenheitOfTheSensorItself() throws {
      let result = try scene.ringtap(
        "thermometer", "--transport", "virtual:core,rate=50,fahrenheit", "--count", "3", "--unit", "celsius")
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.outputLines.allSatisfy { $0.hasPrefix("36.5") && $0.contains(" °C  skin 33") })
      #expect(result.outputLines.count == 3)
    }

    @Test func aLostLinkIsAFailure() throws {
      let result = try scene.ringtap(
        "heart-rate", "--transport", "virtual:heart-rate,rate=50,disconnect-after=5", "--patience", "0")
      #expect(result.status == 1)
      #expect(result.outputLines.count == 5)
      #expect(result.errors.contains("after 5 values"))
    }

    /// The sensor comes back: the same output continues.
    @Test(arguments: [
      ("heart-rate", "heart-rate"), ("thermometer", "core"), ("polar", "polar"),
    ]) func aLostLinkIsMadeAgain(_ command: String, _ sensor: String) throws {
      let result = try scene.ringtap(
        command, "--transport", "virtual:\(sensor),rate=50,disconnect-after=5", "--count", "12", "--json")
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.messages.count { $0.contains("(0x08, Connection Timeout); reconnecting") } == 2)
      #expect(result.messages.count { $0.contains("streaming again") } == 2)
      let events = try result.outputLines.map { line in
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      }
      #expect(events.count { $0["event"] as? String == "device" } == 1)
      #expect(events.last?["gaps"] as? Int == 2 && events.last?["values"] as? Int == 12)
      let times = events.compactMap { ($0["frame_time_ns"] ?? $0["time_ns"]) as? String }.compactMap {
        Int($0)
      }
      #expect(times.count == 12 && zip(times, times.dropFirst()).allSatisfy { $0 <= $1 })
    }

    @Test func otherDevicesAreRefused() throws {
      let ring = ["--transport", "virtual:ring,quiet", "70:CB:0D:00:A1:B2"]
      let heartRate = try scene.run(Place.ringtap, ["heart-rate"] + ring)
      heartRate.expectFailure(saying: "no heart-rate service (180d)", "ringtap gatt 70:CB:0D:00:A1:B2")
      let thermometer = try scene.run(Place.ringtap, ["thermometer"] + ring)
      thermometer.expectFailure(saying: "no thermometer service (1809)")
      let thermometers = ["--transport", "virtual:thermometer", "70:CB:0D:00:18:09"]
      try scene.run(Place.ringtap, ["heart-rate"] + thermometers).expectFailure(
        saying: "no heart-rate service")
      let nobody = try scene.ringtap("heart-rate", "--transport", "virtual:ring", "--timeout", "1")
      nobody.expectFailure(saying: "heart-rate sensor")
    }

    /// Sample n by the emulation's own formula, and times of an even clock: 2019-01-01 (599,616,000 s after
    /// 2000) and 20 ms for each sample.
    @Test func accelerationOfTheVirtualPolarSensor() throws {
      let result = try scene.ringtap(
        "polar", "--transport", "virtual:polar,rate=10,real-time", "--stream", "acc", "--rate", "50",
        "--count", "12")
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.outputLines.first == "time_ns,frame_time_ns,device_time_ns,x_mg,y_mg,z_mg")
      let rows = try result.outputLines.dropFirst().map { line in
        // A sensor whose counts are milli-g.
        try line.split(separator: ",").map {
          try #require(Int64($0) ?? Double($0).flatMap(Int64.init(exactly:)))
        }
      }
      #expect(rows.count == 60)
      let first = try #require(rows.first)
      #expect((first[2] - 599_616_000_000_000_000) % 20_000_000 == 0)
      for (number, row) in rows.enumerated() {
        #expect(row[2] == first[2] + Int64(number) * 20_000_000)
        // Up 25 steps of 3 and down again, from -40.
        let step = number % 50
        #expect(row[3] == Int64(3 * (step < 25 ? step : 50 - step) - 40))
      }
      let (times, frames) = (rows.map { $0[0] }, rows.map { $0[1] })
      #expect(frames == frames.sorted())
      // Each sample has its own time, at most a tenth off the sensor's steps.
      #expect(zip(times, times.dropFirst()).allSatisfy { (17_999_999...22_000_001).contains($1 - $0) })
    }

    @Test(arguments: [
      ("ecg", 130, false), ("acc", 100, true), ("ppg", 55, true),
    ])
    func framesOfTheVirtualPolarSensor(stream: String, rate: Int, isCompressed: Bool) throws {
      let result = try scene.ringtap(
        "polar", "--transport", "virtual:polar,rate=10,count=23,malformed-every=7", "--stream", stream,
        "--rate",
        "\(rate)", "--json",
        "--count", "20")
      #expect(
        result.status == 3 && result.errors.contains("are missing by the sensor's clock"), "\(result.errors)")
      let lines = try lines(result)
      let device = try #require(lines.first { $0["event"] as? String == "device" })
      #expect(device["sampleRateHz"] as? Int == rate)
      #expect(device["modelNumber"] as? String == "H10")
      let frames = lines.compactMap { $0["frame"] as? [String: Any] }
      #expect(frames.count == 20)
      #expect(frames.allSatisfy { $0["compressed"] as? Bool == isCompressed })
      // Every seventh frame is cut: its samples count as missing.
      #expect(frames.contains { $0["missingSamples"] != nil })
      let samples = frames.reduce(0) {
        $0 + ($1["sampleCount"] as? Int ?? 0) + ($1["missingSamples"] as? Int ?? 0)
      }
      let times = try frames.map {
        try #require(($0["timestampNanoseconds"] as? String).flatMap { Int64($0) })
      }
      let firstCount = try #require(frames.first?["sampleCount"] as? Int)
      let last = try #require(times.last)
      let elapsed = Double(last - times[0]) / 1e9
      #expect(((elapsed * Double(rate)).rounded()) == Double(samples - firstCount))
      #expect(lines.last?["malformed"] as? Int == 3)
    }

    @Test func polarRefusals() throws {
      let polar = ["--transport", "virtual:polar,rate=10", "--stream", "ecg", "--rate", "500"]
      try scene.run(Place.ringtap, ["polar"] + polar).expectFailure(
        saying: "does not offer 500 Hz; it has 130")
      let strap = ["--transport", "virtual:heart-rate", "70:CB:0D:00:18:0D"]
      try scene.run(Place.ringtap, ["polar"] + strap).expectFailure(saying: "no Polar raw data service")
    }
  }

  /// bumble's profiles as the client of our strap.
  @Suite final class ForeignHeartRateTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    @Test func readsTheEmulatedStrap() throws {
      let place = "127.0.0.1:\(try freePort())"
      let strap = try scene.startRingtap(
        "emulate", "heart-rate", "--transport", "tcp-server:\(place)", "--rate", "20", "--off-body-every", "4"
      )
      try strap.line(containing: "ready")
      let told = try scene.demand(
        Place.bumblePython(),
        [Place.peer("bumble_heart_rate_client.py"), "tcp-client:\(place)", "ringtap strap", "40"]
      ).outputLines
      #expect(
        told.prefix(4) == [
          "found 70:CB:0D:00:18:0D ringtap strap", "location 1", "battery 84", "manufacturer ringtap",
        ])
      let values = told.filter { $0.hasPrefix("measurement ") }
      #expect(values.count == 40)
      for (number, value) in values.enumerated() {
        if (number + 1).isMultiple(of: 4) {
          #expect(value == "measurement [0, false, null, []]")
        } else {
          #expect(value.contains(", true, "))
        }
      }
      // Energy is in every tenth value, and still 0 kJ. At 64 to 80 beats/min intervals are 768 to 960 of
      // 1/1024 s.
      #expect(values[9].contains(", 0, ["))
      let intervals = values.compactMap { value in
        value.split(separator: "[").last.flatMap { Int($0.prefix { $0.isNumber }) }
      }
      #expect(!intervals.isEmpty && intervals.allSatisfy { (768...960).contains($0) })
      // Heart Rate Service 1.0, 3.3: Control Point Not Supported, 0x80.
      #expect(told.suffix(2) == ["reset", "refused 128"])
    }
  }
}
