import BLEEmulation
import BLEHost
import BLELinux
import BLESensors
import BLEStack
import BLEWire
import Foundation
import Recording
import SensorSessions
import Synchronization
import TestKit
import Testing

@testable import CaptureTools

/// Recordings of sensors that send known values: the tables contain them.
@Suite(.timeLimit(.minutes(1))) struct SensorRecordingTests {
  private func record<Sample>(
    _ kind: SensorKind<Sample>, _ model: some SensorModel, count: Int?, into directory: String,
    as format: TableFormat = .csv,
    patience: Duration = .zero,
    _ change: (inout EmulatedSensor.Configuration) -> Void = { _ in }
  ) async throws -> SensorRecording.Result {
    var configuration = EmulatedSensor.Configuration()
    configuration.ticksPerSecond = 100
    configuration.advertisingInterval = .milliseconds(20)
    change(&configuration)
    let sensor = configuration
    let link = try await VirtualLink.open { [EmulatedSensor(model, sensor)] }
    var recording = SensorRecording(
      of: model.address, on: link.adapter, into: directory, RecordingLimits(count: count))
    recording.plan.patience = patience
    recording.tableFormat = format
    let result = try await recording.run(kind)
    await link.close()
    return result
  }

  private func lines(_ path: String) throws -> [String] {
    try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map(String.init)
  }

  /// Rows without their timestamp.
  private func values(_ path: String) throws -> [String] {
    try lines(path).dropFirst().map { String($0.drop { $0 != "," }.dropFirst()) }
  }

  /// The names of the list are those of known devices and of emulations, so that one word means one kind.
  @Test func eachKindHasOneName() throws {
    #expect(AnySensorKind.names == ["ring", "heart-rate", "thermometer", "cycling", "polar"])
    for name in AnySensorKind.names {
      let kind = try #require(AnySensorKind(named: name))
      #expect(kind.name == name && AnySensorKind(named: name + ":junk") == nil)
      #expect(KnownDevice.Kind(rawValue: name) != nil)
      #expect(VirtualPeripheralSpecification.Kind(rawValue: name) != nil)
    }
    #expect(AnySensorKind(named: "source") == nil)
  }

  /// The files exist when the stream is reported; a sensor that is absent leaves none.
  @Test func filesBeginWithTheStream() async throws {
    try await withFolder { folder in
      let strap = StrapModel()
      let link = try await VirtualLink.open { [EmulatedSensor(strap)] }
      var recording = SensorRecording(
        of: strap.address, on: link.adapter, into: folder + "/strap", RecordingLimits(count: 1))
      let found = Mutex<[String]>([])
      recording.news = { news in
        if case .begun = news { found.withLock { $0 = Files.names(in: folder + "/strap").sorted() } }
      }
      #expect(try await recording.run(.heartRate).failure == nil)
      #expect(
        found.withLock { $0 }.filter { !$0.hasPrefix(".") }
          == ["heart_rate.csv", "packets.btsnoop", "rr_intervals.csv", "session.json"])
      recording.plan.peer = DeviceAddress(bits: 0x1234, type: .public)
      recording.plan.connectTimeout = .seconds(1)
      recording.directory = folder + "/absent"
      await #expect(throws: HostError.self) { try await recording.run(.heartRate) }
      #expect(Files.names(in: folder).allSatisfy { $0 != "absent" })
      await link.close()
    }
  }

  @Test func heartRate() async throws {
    try await withFolder { folder in
      var strap = StrapModel()
      strap.measurements = [
        HeartRateMeasurement(beatsPerMinute: 61, contact: .detected, rrIntervals: RRIntervals([1000, 1007])),
        HeartRateMeasurement(beatsPerMinute: 300, energyExpendedKilojoules: 65_535),
        HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected),
      ]
      let directory = folder + "/strap"
      let result = try await record(.heartRate, strap, count: 5, into: directory)
      #expect(result.failure == nil && result.values == 5)
      #expect(result.report.endReason == "count reached" && result.report.lost.total == 0)
      // Two values and a state in turn.
      let turn = ["61,1,", "300,,65535", ",0,"]
      #expect(try values(directory + "/heart_rate.csv") == turn + turn + [turn[0]])
      let intervals = ["1000,976.563", "1007,983.398"]
      #expect(try values(directory + "/rr_intervals.csv") == intervals + intervals + intervals)
      #expect(result.report.streams.map(\.samples) == [7, 6])
      let stamps = try lines(directory + "/heart_rate.csv").dropFirst().compactMap { row in
        row.split(separator: ",").first.flatMap { Int64($0) }
      }
      #expect(stamps.count == 7 && stamps == stamps.sorted())
      let session = try JSONSerialization.jsonObject(
        with: Data(contentsOf: URL(filePath: directory + "/session.json")))
      #expect((session as? [String: Any])?["endReason"] as? String == "count reached")
      #expect(Files.exists(directory + "/packets.btsnoop"))
    }
  }

  /// A lost link and truncated values: complete values are recorded, and the report counts the rest.
  @Test func untilTheLinkIsLost() async throws {
    try await withFolder { folder in
      var strap = StrapModel()
      strap.measurements = [HeartRateMeasurement(beatsPerMinute: 72)]
      let directory = folder + "/strap"
      let result = try await record(.heartRate, strap, count: nil, into: directory) {
        $0.disconnectAfter = 12
        $0.malformedEvery = 4
      }
      #expect(result.failure != nil)
      #expect(try values(directory + "/heart_rate.csv") == [String](repeating: "72,,", count: 9))
      #expect(result.report.malformed == 3 && result.report.received == 12 && result.report.lost.total == 3)
    }
  }

  /// The sensor stops, for example on its charger: the recording ends and gives the reason.
  @Test func untilAPolarSensorStops() async throws {
    try await withFolder { folder in
      var polar = PolarModel()
      polar.stopAfterSeconds = 0.5
      let directory = folder + "/polar"
      let result = try await record(.polar, polar, count: nil, into: directory)
      #expect(result.failure == .unsuitable("the sensor stopped the stream by itself"))
      #expect(result.report.endReason == "the sensor stopped the stream by itself")
      #expect(result.report.gapCount == 0 && result.report.timeToFirstSample != nil)
      #expect(try lines(directory + "/ecg.csv").count - 1 == result.report.streams.first?.samples)
    }
  }

  /// A CORE sensor that is taken off, and a thermometer: a state is not a number.
  @Test func temperatures() async throws {
    try await withFolder { folder in
      let directory = folder + "/core"
      let result = try await record(.thermometer, CoreModel(), count: 4, into: directory) {
        $0.offBodyEvery = 3
      }
      #expect(result.failure == nil && result.values == 4)
      let rows = try values(directory + "/temperature.csv").map { row in
        row.split(separator: ",", omittingEmptySubsequences: false).prefix(2).map(String.init)
      }
      #expect(rows.map(\.first) == ["measured", "measured", "not_on_body", "measured", "measured"])
      #expect(rows.first?.last == "36.500" && rows[2].last == "")
    }
  }

  /// Each sample of a frame has a row, and device times increase at the sensor's rate.
  @Test func polar() async throws {
    try await withFolder { folder in
      let directory = folder + "/polar"
      let result = try await record(.polar, PolarModel(), count: 4, into: directory)
      #expect(result.failure == nil && result.values == 4)
      let rows = try lines(directory + "/ecg.csv")
      #expect(rows.first == "time_ns,frame_time_ns,device_time_ns,ecg_uv")
      #expect(rows.count - 1 == result.report.streams.first?.samples)
      let times = rows.dropFirst().compactMap { Int64($0.split(separator: ",")[2]) }
      // 130 Hz, the only rate of an H10's ECG.
      #expect(zip(times, times.dropFirst()).allSatisfy { abs($1 - $0 - 7_692_308) <= 1 })
    }
  }

  /// In arrays, and text made of them: the same rows.
  @Test func inArrays() async throws {
    try await withFolder { folder in
      var strap = StrapModel()
      strap.measurements = [
        HeartRateMeasurement(beatsPerMinute: 61, contact: .detected, rrIntervals: RRIntervals([1000, 1007])),
        HeartRateMeasurement(beatsPerMinute: 300, energyExpendedKilojoules: 65_535),
        HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected),
      ]
      let result = try await record(.heartRate, strap, count: 2, into: folder + "/strap", as: .npy)
      #expect(result.report.streams.map(\.file) == ["heart_rate", "rr_intervals"])
      _ = try await record(.thermometer, CoreModel(), count: 3, into: folder + "/core", as: .npy) {
        $0.offBodyEvery = 3
      }
      let polar = try await record(.polar, PolarModel(), count: 4, into: folder + "/polar", as: .npy)
      for name in ["strap", "core", "polar"] {
        let report = try CaptureConversion.run(
          folder + "/" + name, to: .csv, output: folder + "/\(name)-text"
        ) { _ in }
        #expect(report.problems.isEmpty)
      }
      #expect(try values(folder + "/strap-text/heart_rate.csv") == ["61,1,", "300,,65535"])
      #expect(try values(folder + "/strap-text/rr_intervals.csv") == ["1000,976.563", "1007,983.398"])
      let states = try values(folder + "/core-text/temperature.csv").map { $0.prefix { $0 != "," } }
      #expect(states == ["measured", "measured", "not_on_body", "measured"])
      let rows = try lines(folder + "/polar-text/ecg.csv")
      #expect(rows.first == "time_ns,frame_time_ns,device_time_ns,ecg_uv")
      let times = rows.dropFirst().compactMap { Int64($0.split(separator: ",")[2]) }
      #expect(times.count >= 4 && times.count == polar.report.streams.first?.samples)
      #expect(zip(times, times.dropFirst()).allSatisfy { abs($1 - $0 - 7_692_308) <= 1 })
    }
  }

  /// The analysis of a capture finds the values that were sent, and the report of its packet log agrees.
  @Test func analysesEach() async throws {
    try await withFolder { folder in
      var strap = StrapModel()
      strap.measurements = [
        HeartRateMeasurement(beatsPerMinute: 60, contact: .detected, rrIntervals: RRIntervals([1024, 1024])),
        HeartRateMeasurement(beatsPerMinute: 64, contact: .detected, energyExpendedKilojoules: 10),
        HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected),
      ]
      _ = try await record(.heartRate, strap, count: 30, into: folder + "/strap")
      _ = try await record(.thermometer, CoreModel(), count: 12, into: folder + "/core") {
        $0.offBodyEvery = 4
      }
      _ = try await record(.cycling, CyclingModel(), count: 200, into: folder + "/cycling")
      let heart = try CaptureAnalysis.run(folder + "/strap", output: nil)
      #expect(heart.heartRate.rate.mean == 62 && heart.heartRate.contacts == 30)
      #expect(heart.heartRate.losses == 14 && heart.variability.first?.intervals == 30)
      let core = try CaptureAnalysis.run(folder + "/core", output: nil).temperature
      #expect(core.body.lowest == 36.5 && core.states["not_on_body"] == 3)
      let cycling = try CaptureAnalysis.run(folder + "/cycling", output: nil).cycling
      #expect(try #require(cycling.crankRevolutions) > 0 && cycling.cadence.count > 0)
      for (name, title) in [
        ("strap", "Heart rate"), ("strap", "Variability by RR intervals"), ("core", "Temperature"),
        ("cycling", "Cycling"),
      ] {
        let page = try ReportDocument.read(folder + "/" + name, title: nil) { _ in }
        let log = try ReportDocument.read(folder + "/\(name)/packets.btsnoop", title: nil) { _ in }
        let facts = try #require(page.sections[0].facts.first { $0.title == title })
        let same = try #require(log.sections[0].facts.first { $0.title == title })
        #expect(facts.rows.map(\.value) == same.rows.map(\.value), "\(title)")
        #expect(facts.rows.count > 1)
      }
    }
  }
}
