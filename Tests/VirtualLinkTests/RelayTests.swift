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

/// A relay whose sensor and whose central are both on the one controller that it has, in one air and by its time.
@Suite(.timeLimit(.minutes(5))) struct RelayTests {
  /// At rest with 72 a minute, then walking with 72, then without the ring.
  @Test func tellsThePulseOfARing() async throws {
    var ring = quietRing(rate: 75)
    (ring.wearer.motion, ring.wearer.boutSeconds, ring.wearer.takenOffAfterSeconds) = (.walk, 90, 180)
    let configuration = ring
    let scene = RelayScene(for: .seconds(260))
    let outcome = try await scene.run(.ring, LightRelay(), ring.address) { [EmulatedRing(configuration)] }
    let heard = scene.heard()
    let rates = heard.filter { $0.contact == .detected }
    #expect(rates.allSatisfy { abs(Int($0.beatsPerMinute) - 72) <= 2 }, "\(rates)")
    // Eight seconds, and what the meter waits for them.
    #expect(rates.count { $0.seconds < 90 } >= 30)
    #expect(rates.count { (100..<180).contains($0.seconds) } >= 20)
    #expect(rates.allSatisfy { $0.seconds < 200 })
    #expect(heard.allSatisfy { $0.contact != .notSupported })
    #expect(heard.allSatisfy { $0.contact == .detected || $0.beatsPerMinute == 0 })
    #expect(outcome.silences > 0 && outcome.dropped == 0 && outcome.lost == 0)
    #expect(outcome.values == heard.count + scene.unheard)
    print("relay of a ring: \(scene.text(outcome))")
  }

  /// Each measurement as the strap has sent it, intervals above all; of one that has more of them than the smallest MTU takes,
  /// in two.
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

  /// The central hears that there is no contact, and goes on to hear the strap when that is back.
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
    // Once each time, and then rates again.
    #expect(silent.allSatisfy { $0 + 1 == heard.count || heard[$0 + 1].contact == .detected })
    #expect(outcome.values == heard.count + scene.unheard)
  }

  /// One that listens twice a second loses old values and is a burden to nobody: the other hears each.
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
    // The end cuts off what came since the last connection event, 30 ms of 200 a second, and a connection event of the strap's
    // link, which brings those of 50 ms at once.
    #expect((0...16).contains(outcome.values - fast - scene.unheard(0)))
    #expect(slow < fast && slow > 0)
    print("a slow central: \(outcome.values) values, \(fast) and \(slow) heard, \(outcome.dropped) dropped")
  }

  /// Cancelled, it leaves nothing on: no link, no advertising.
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
      // From 60 to 100 a minute, as the rider is made.
      if let pace = later.crankChange(since: earlier)?.perMinute { #expect((59...101).contains(pace)) }
    }
  }

  /// A day by virtual time: no value is missing, none is late, and memory stays as it is.
  @Test func aDay() async {
    await #expect(processExitsWith: .success) {
      var configuration = EmulatedSensor.Configuration()
      configuration.ticksPerSecond = 0.5
      let strap = configuration
      // Connection events each four seconds: it is they that take time.
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

/// As long as somebody wears it.
@Suite(.timeLimit(.minutes(60))) struct LongRelayTests {
  /// A ring for ten minutes, or for so many hours as the environment asks for: each takes a minute unless optimised.
  @Test func hoursOfARing() async throws {
    let ring = quietRing(rate: 60)
    let scene = RelayScene(for: .seconds(3600 * Self.hours), intervals: [24], keeps: Self.hours <= 1)
    let outcome = try await scene.run(.ring, LightRelay(), ring.address) { [EmulatedRing(ring)] }
    // One each two seconds, but for the first.
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
