import BLEEmulation
import BLEHost
import BLELinux
import BLESensors
import BLEStack
import BLEWire
import Foundation
import Recording
import Relay
import SensorSessions
import Synchronization
import TestKit
import Testing

/// A relay whose sensor and central share its only controller, in emulated air time.
@Suite(.timeLimit(.minutes(5))) struct RelayTests {
  /// At rest with 72 beats/min, then walking with 72, then with the ring taken off.
  @Test func tellsThePulseOfARing() async throws {
    var ring = quietRing(rate: 75)
    (ring.wearer.motion, ring.wearer.boutSeconds, ring.wearer.takenOffAfterSeconds) = (.walk, 90, 180)
    let configuration = ring
    let scene = RelayScene(for: .seconds(260))
    let outcome = try await scene.run(.ring, LightRelay(), ring.address) { [EmulatedRing(configuration)] }
    let heard = scene.heard()
    let rates = heard.filter { $0.contact == .detected }
    #expect(rates.allSatisfy { abs(Int($0.beatsPerMinute) - 72) <= 2 }, "\(rates)")
    // Eight seconds, plus the delay of the pulse meter.
    #expect(rates.count { $0.seconds < 90 } >= 30)
    #expect(rates.count { (100..<180).contains($0.seconds) } >= 20)
    #expect(rates.allSatisfy { $0.seconds < 200 })
    #expect(heard.allSatisfy { $0.contact != .notSupported })
    #expect(heard.allSatisfy { $0.contact == .detected || $0.beatsPerMinute == 0 })
    #expect(outcome.silences > 0 && outcome.dropped == 0 && outcome.lost == 0)
    #expect(outcome.values == heard.count + scene.unheard)
    print("relay of a ring: \(scene.text(outcome))")
  }

  /// Each measurement arrives as the strap sent it, above all its intervals. A measurement with more
  /// intervals than the smallest MTU allows is sent in two parts.
  @Test func keepsEachInterval() async throws {
    let long = (0..<12).map { UInt16(700 + $0) }
    let sent: [HeartRateMeasurement] = [
      HeartRateMeasurement(beatsPerMinute: 61, contact: .detected, rrIntervals: RRIntervals([1007, 1013])),
      HeartRateMeasurement(beatsPerMinute: 62, contact: .detected, energyExpendedKilojoules: 7),
      HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected),
      HeartRateMeasurement(beatsPerMinute: 300, contact: .notSupported, rrIntervals: RRIntervals([205])),
      HeartRateMeasurement(beatsPerMinute: 63, contact: .detected, rrIntervals: RRIntervals(long)),
    ]
    var strap = StrapModel()
    strap.measurements = sent
    let model = strap
    let scene = RelayScene(for: .seconds(120))
    _ = try await scene.run(.heartRate, HeartRateRelay(), strap.address) { [EmulatedSensor(model)] }
    // Heart Rate Service 1.0, 3.1: flags, rate, intervals of 1/1024 s.
    let expected: [[UInt8]] = [
      [0x16, 61, 0xEF, 0x03, 0xF5, 0x03], [0x06, 62], [0x04, 0], [0x11, 0x2C, 0x01, 0xCD, 0x00],
      [0x16, 63] + long.prefix(8).flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] },
      [0x16, 63] + long.dropFirst(8).flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] },
    ]
    let heard = scene.heard().map(\.octets)
    let first = try #require(heard.firstIndex(of: expected[0]))
    #expect(heard.count - first > 100)
    for (place, value) in heard.dropFirst(first).enumerated() { #expect(value == expected[place % 6]) }
  }

  /// The central is told that there is no contact, and gets the strap's values again when it is back.
  @Test func goesOnWithASensorThatWasLost() async throws {
    var configuration = EmulatedSensor.Configuration()
    configuration.disconnectAfter = 20
    let strap = configuration
    let scene = RelayScene(for: .seconds(120))
    let outcome = try await scene.run(.heartRate, HeartRateRelay(), StrapModel().address) {
      [EmulatedSensor(StrapModel(), strap)]
    }
    #expect(outcome.gaps >= 4)
    let heard = scene.heard()
    let silent = heard.indices.filter { heard[$0].contact == .notDetected }
    #expect(silent.count >= outcome.gaps - 1)
    // Once for each loss, followed by rates.
    #expect(silent.allSatisfy { $0 + 1 == heard.count || heard[$0 + 1].contact == .detected })
    #expect(outcome.values == heard.count + scene.unheard)
  }

  /// A central that listens twice a second loses old values, without delaying others: the other central gets
  /// every value.
  @Test func doesNotWaitForASlowCentral() async throws {
    var configuration = EmulatedSensor.Configuration()
    configuration.ticksPerSecond = 200
    let strap = configuration
    let scene = RelayScene(for: .seconds(40), intervals: [24, 400])
    let outcome = try await scene.run(.heartRate, HeartRateRelay(), StrapModel().address) {
      [EmulatedSensor(StrapModel(), strap)]
    }
    #expect(outcome.values >= 7_000)
    #expect(outcome.dropped > 0)
    let (fast, slow) = (scene.heard(0).count, scene.heard(1).count)
    // The end cuts off values since the last connection event, 30 ms at 200 a second, and one connection
    // event of the strap's link, which delivers the values of 50 ms at once.
    #expect((0...16).contains(outcome.values - fast - scene.unheard(0)))
    #expect(slow < fast && slow > 0)
    print("a slow central: \(outcome.values) values, \(fast) and \(slow) heard, \(outcome.dropped) dropped")
  }

  /// When cancelled, the relay leaves no link and no advertising.
  @Test func leavesNothingOn() async throws {
    let scene = RelayScene(for: .seconds(3600))
    scene.isCancelled.store(true, ordering: .relaxed)
    _ = try await scene.run(.heartRate, HeartRateRelay(), StrapModel().address) {
      [EmulatedSensor(StrapModel())]
    }
    #expect(scene.heard().count == 10)
    let isQuiet = scene.isQuiet.load(ordering: .relaxed)
    #expect(isQuiet)
  }

  @Test func relaysTemperaturesAndTurns() async throws {
    let thermometer = RelayScene(for: .seconds(30), .temperatureMeasurement)
    _ = try await thermometer.run(.thermometer, TemperatureRelay(), ThermometerModel().address) {
      [EmulatedSensor(ThermometerModel())]
    }
    let degrees = try thermometer.heard().map {
      try TemperatureMeasurement(decoding: $0.octets.span).celsius ?? 0
    }
    #expect(degrees.count > 3 && degrees.allSatisfy { (30...42).contains($0) }, "\(degrees)")

    let bicycle = RelayScene(for: .seconds(30), .cscMeasurement)
    _ = try await bicycle.run(.cycling, CyclingRelay(), CyclingModel().address) {
      [EmulatedSensor(CyclingModel())]
    }
    // Wheel and crank. CSC Feature.
    #expect(bicycle.features == [3, 0])
    let turns = try bicycle.heard().map { try CyclingSpeed(decoding: $0.octets.span) }
    #expect(turns.count > 20)
    for (earlier, later) in zip(turns, turns.dropFirst()) {
      // From 60 to 100 turns/min, as the emulated rider pedals.
      if let pace = later.crankChange(since: earlier)?.perMinute { #expect((59...101).contains(pace)) }
    }
  }

  /// A day in virtual time: no value is missing or late, and memory does not grow.
  @Test func aDay() async {
    await #expect(processExitsWith: .success) {
      var configuration = EmulatedSensor.Configuration()
      configuration.ticksPerSecond = 0.5
      let strap = configuration
      // Connection events every four seconds, because they dominate the test's running time.
      let scene = RelayScene(for: .seconds(86_400), intervals: [3200], keeps: false)
      let outcome = try await scene.run(.heartRate, HeartRateRelay(), StrapModel().address, interval: 3200) {
        [EmulatedSensor(StrapModel(), strap)]
      }
      #expect(outcome.values > 43_100 && outcome.gaps == 0 && outcome.dropped == 0 && outcome.lost == 0)
      #expect(scene.count == outcome.values - scene.unheard)
      let (early, late) = scene.memory
      #expect(late < early + (4 << 20), "\(early) and \(late) octets")
      print("a day: \(scene.text(outcome)), \(early >> 20) and \(late >> 20) MiB resident")
    }
  }
}

/// As long as a sensor is worn.
@Suite(.timeLimit(.minutes(60))) struct LongRelayTests {
  /// A ring for ten minutes, or for the number of hours in the environment variable; each takes a minute in
  /// an unoptimised build.
  @Test func hoursOfARing() async throws {
    let ring = quietRing(rate: 60)
    let scene = RelayScene(for: .seconds(3600 * Self.hours), intervals: [24], keeps: Self.hours <= 1)
    let outcome = try await scene.run(.ring, LightRelay(), ring.address) { [EmulatedRing(ring)] }
    // One value every two seconds, except at the start.
    #expect(outcome.values >= Int(1_800 * Self.hours) - 20 && outcome.silences == 0 && outcome.dropped == 0)
    #expect(scene.count == outcome.values - scene.unheard)
    let rates = scene.heard().map { Int($0.beatsPerMinute) }
    #expect(rates.allSatisfy { abs($0 - 72) <= 2 })
    let (early, late) = scene.memory
    if Self.hours > 1 { #expect(late < early + (4 << 20), "\(early) and \(late) octets") }
    print(
      "\(Self.hours) hours of a ring: \(scene.text(outcome)), \(early >> 20) and \(late >> 20) MiB resident")
  }

  private static let hours =
    ProcessInfo.processInfo.environment["RINGTAP_RELAY_HOURS"].flatMap { Double($0) } ?? 1.0 / 6
}
