import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// Bicycle sensors: bumble's at the other end of a byte stream, and ours.
  @Suite final class CyclingTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Line: Decodable {
      var event: String
      var sensorLocation: String?
      var wheel_revolutions: Int?
      var wheel_event_1024ths: Int?
      var crank_revolutions: Int?
      var crank_event_1024ths: Int?
      var wheel_rpm: Double?
      var cadence_rpm: Double?
      var kilometersPerHour: Double?
      var values: Int?
    }

    /// Found by its service. The counters equal those that tshark reads; rates are computed by hand from
    /// turns and 1/1024 s.
    @Test func showsWhatBumbleSends() throws {
      let place = "127.0.0.1:\(try freePort())"
      let bicycle = try scene.start(
        Place.bumblePython(), [Place.peer("bumble_cycling.py"), "tcp-server:\(place)"])
      try bicycle.line(containing: "ready")
      let result = try scene.ringtap(
        "cycling", "--transport", "tcp-client:\(place)", "--count", "5", "--circumference", "2000", "--json")
      #expect(result.status == 0, "\(result.errors)")
      let lines = try result.objects(Line.self)
      #expect(
        lines.map(\.event).filter { $0 != "device" } == [String](repeating: "measurement", count: 5) + ["end"]
      )
      let devices = lines.filter { $0.event == "device" }
      #expect(devices.count == 1 && devices.first?.sensorLocation == "frontWheel")
      let values = lines.dropLast().filter { $0.event != "device" }
      #expect(values.map(\.wheel_revolutions) == [1581, 1586, 1586, nil, nil])
      #expect(values.map(\.wheel_event_1024ths) == [43_427, 45_475, 45_475, nil, nil])
      #expect(values.map(\.crank_revolutions) == [2704, 2706, 2706, 65_535, 1])
      #expect(values.map(\.crank_event_1024ths) == [40_744, 41_768, 41_768, 64_512, 1_024])
      #expect(values.map(\.wheel_rpm) == [nil, 150, nil, nil, nil])
      #expect(values.map(\.kilometersPerHour) == [nil, 18, nil, nil, nil])
      #expect(values.map(\.cadence_rpm).prefix(3) == [nil, 120, nil])
      #expect(values.last?.cadence_rpm == 60)
    }

    /// The emulated rider pedals at 60 to 100 turns/min, and the wheel turns 2.5 times as often.
    @Test func recordsTheVirtualBicycle() throws {
      let directory = scene.path("ride")
      let result = try scene.ringtap(
        "cycling", "--transport", "virtual:cycling,rate=2,count=12", "--count", "12", "--output", directory)
      #expect(result.status == 0, "\(result.errors)")
      let rows = try String(contentsOfFile: directory + "/cycling.csv", encoding: .utf8).split(
        separator: "\n")
      #expect(
        rows.first
          == "time_ns,cadence_rpm,wheel_rpm,wheel_revolutions,wheel_event_1024ths,crank_revolutions,crank_event_1024ths"
      )
      let cells = rows.dropFirst().map { $0.split(separator: ",", omittingEmptySubsequences: false) }
      #expect(cells.count == 12 && cells.allSatisfy { $0.count == 7 })
      let (cadence, wheel) = (cells.compactMap { Double($0[1]) }, cells.compactMap { Double($0[2]) })
      #expect(!wheel.isEmpty && wheel.allSatisfy { (149...251).contains($0) })
      #expect(!cadence.isEmpty && cadence.allSatisfy { (59...101).contains($0) })
    }
  }
}
