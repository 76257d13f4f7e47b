import Foundation
import Testing

extension OverEachWay {
  /// Heart-rate straps: bumble's own profile at the other end, and ours.
  @Suite final class HeartRateTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    deinit { scene.end() }

    /// A line of ours, or what bumble says that it sent.
    private struct Line: Decodable, Equatable {
      var event: String?
      var timeNs: Int64?
      var heartRateBpm: Int?
      var sensorContact: String?
      var energyExpendedKilojoules: Int?
      var rrIntervals1024ths: [Int]?
      var bodySensorLocation: String?
      var batteryLevelPercent: Int?
      var manufacturerName: String?
      var firmwareRevision: String?
      var values: Int?
      var malformed: Int?
      var lost: Int?

      /// What bumble knows too.
      var measurement: Line {
        var line = self
        (line.event, line.timeNs) = (nil, nil)
        return line
      }
    }

    private func decoded(_ text: String) throws -> Line {
      try JSONDecoder().decode(Line.self, from: Data(text.utf8))
    }

    /// Its five measurements twice, and a cut one after every third. One of five is without contact: a state, which
    /// does not count.
    @Test(arguments: Way.sensorsHere)
    func showsWhatBumbleSends(_ way: Way) throws {
      let strap = try scene.bumbleStrap(over: way, "--malformed", "3", "--count", "10")
      let result = try scene.ringtap(
        reaching: strap, "heart-rate", strap.address, "--count", "8", "--json", "--reset-energy")
      #expect(result.status == 0, "\(result.errors)")
      let lines = try result.outputLines.map(decoded)

      let device = try #require(lines.first)
      #expect(device.event == "device")
      #expect(device.bodySensorLocation == "wrist")
      #expect(device.batteryLevelPercent == 57)
      #expect(device.manufacturerName == "bumble strap works")
      #expect(device.firmwareRevision == "1.2.3")

      let values = Array(lines.dropFirst().dropLast())
      let sent = try strap.program.outputLines(untilThey: "tell of what came") {
        $0.count { $0.hasPrefix("sent ") } >= values.count
      }
      #expect(sent.contains("reset"))
      let theirs = try sent.filter { $0.hasPrefix("sent ") }.prefix(values.count)
        .map { try decoded(String($0.dropFirst(5))) }
      #expect(values.map(\.measurement) == Array(theirs))
      #expect(
        values.prefix(5).map(\.event) == [
          "measurement", "measurement", "state", "measurement", "measurement",
        ])
      #expect(values.prefix(5).map(\.heartRateBpm) == [72, 75, 0, 81, 300])
      #expect(values.first?.rrIntervals1024ths == [853, 832])
      let times = values.compactMap(\.timeNs)
      #expect(times.count == values.count && times == times.sorted())

      let end = try #require(lines.last)
      #expect(end.event == "end")
      #expect(end.values == 8)
      #expect(values.count == 10)
      #expect(end.malformed == 3)
      #expect(end.lost == 0)
      #expect(result.errors.contains("3 values were malformed"))
    }

    /// By its service, as nobody gave an address or a name.
    @Test(arguments: Way.sensorsHere)
    func findsBumblesStrap(_ way: Way) throws {
      let strap = try scene.bumbleStrap(over: way)
      let result = try scene.ringtap(reaching: strap, "heart-rate", "--count", "2")
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("found bumble strap at \(strap.address)"))
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
    deinit { scene.end() }

    private func lines(_ result: Program.Result) throws -> [[String: Any]] {
      try result.outputLines.map { line in
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      }
    }

    @Test func heartRateOfTheVirtualStrap() throws {
      let result = try scene.ringtap(
        "heart-rate", "--transport", "virtual:heart-rate,rate=50,count=33,off-body-every=4,malformed-every=5",
        "--json",
        "--count", "20")
      #expect(result.status == 0, "\(result.errors)")
      let lines = try lines(result)
      #expect(lines.first?["event"] as? String == "device")
      #expect(lines.first?["bodySensorLocation"] as? String == "chest")
      #expect(lines.first?["batteryLevelPercent"] as? Int == 84)
      let end = try #require(lines.last)
      #expect(end["event"] as? String == "end")
      #expect(end["values"] as? Int == 20)
      let states = lines.filter { $0["event"] as? String == "state" }
      #expect(states.allSatisfy { $0["state"] as? String == "noContact" && $0["heartRateBpm"] as? Int == 0 })
      let rates = lines.filter { $0["event"] as? String == "measurement" }.compactMap {
        $0["heartRateBpm"] as? Int
      }
      #expect(rates.count == 20 && rates.allSatisfy { (64...80).contains($0) })
      // Tick n is malformed at each fifth, else off the body at each fourth; the 20th value is tick 33.
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
      let values = lines.filter { $0[celsius] is Double }
      #expect(values.count == 8)
      for value in values {
        let degrees = try #require(value[celsius] as? Double)
        #expect((36.5...37.3).contains(degrees))
        #expect(try #require(value[fahrenheit] as? Double) == ((degrees * 1.8 + 32) * 100).rounded() / 100)
      }
      // Each third tick is on no body; the tenth value is cut. The first ticks of a thermometer may come before the second
      // subscription.
      #expect((3...4).contains(lines.count { $0["state"] as? String == "notOnBody" }))
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
        "heart-rate", "--transport", "virtual:heart-rate,rate=50,disconnect-after=5")
      #expect(result.status == 1)
      #expect(result.outputLines.count == 5)
      #expect(result.errors.contains("after 5 values"))
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
  }
}
