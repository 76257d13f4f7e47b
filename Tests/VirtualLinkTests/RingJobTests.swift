import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Synchronization
import Testing

@testable import SensorSessions

/// Every request to a ring, with one that has stored a week.
@Suite(.timeLimit(.minutes(2))) struct RingJobTests {
  private static let history = RingHistory()

  private static func day(_ daysAgo: Int) throws -> RingDate {
    try RingDate(year: 2025, month: 12, day: 11 - daysAgo)
  }

  @Test func tellsWhatItIs() async throws {
    try await withStoredRing { ring in
      let revisions = try await ring.revisions()
      #expect(revisions.hardware == "R02_V3.0")
      #expect(revisions.firmware == "R02_3.00.06_240523")
      let battery = try await ring.ask(.battery)
      guard case .battery(let battery) = battery else { return #expect(Bool(false), "\(battery)") }
      #expect(battery.percent == 64)
      try await ring.tell(.findDevice)
      try await ring.tell(.blinkTwice)
      #expect(await ring.counters == .init())
    }
  }

  @Test func logsHoldWhatWasStored() async throws {
    try await withStoredRing { ring in
      let date = try Self.day(2)
      let heartRates = try #require(try await ring.heartRateLog(of: date))
      #expect(heartRates.isComplete && heartRates.samples == Self.history.heartRates(date))
      let stress = try #require(try await ring.stressLog(daysAgo: 2))
      #expect(stress.isComplete && stress.samples == Self.history.stress(date))
      let variability = try #require(try await ring.heartRateVariabilityLog(daysAgo: 2))
      #expect(variability.samples == Self.history.heartRateVariability(date))
      let steps = try #require(try await ring.activityLog(daysAgo: 2))
      #expect(steps.records.map(\.steps) == Self.history.activity(date).map(\.steps))
      #expect(steps.records.map(\.date) == Array(repeating: .valid(date), count: steps.recordCount))
      #expect(try await ring.stressLog(daysAgo: 7) == nil)
      #expect(try await ring.activityLog(daysAgo: 7) == nil)
      #expect(try await ring.heartRateLog(of: try Self.day(7)) == nil)
    }
  }

  /// The clock shows 22:54.
  @Test func todayEndsNow() async throws {
    try await withStoredRing { ring in
      let heartRates = try #require(try await ring.heartRateLog(of: try Self.day(0)))
      let last = try #require(heartRates.entries.last)
      #expect(273...274 ~= last.slot)
      #expect(heartRates.samples[..<275] == Self.history.heartRates(try Self.day(0))[..<275])
      let stress = try #require(try await ring.stressLog(daysAgo: 0))
      #expect(stress.entries.last?.slot == 45)
    }
  }

  @Test func bigDataHoldsWhatWasStored() async throws {
    try await withStoredRing { ring in
      let nights = try await ring.nights().flatMap { answer -> [RingSleep] in
        if case .sleepLog(let nights) = answer.reply { nights } else { [] }
      }
      #expect(nights.map(\.daysAgo) == [6, 5, 4, 3, 2, 1, 0])
      for night in nights {
        let stored = Self.history.night(try Self.day(Int(night.daysAgo)))
        #expect(night.stages == stored.stages)
        #expect(night.startMinuteOfEndDay == stored.startMinute)
        #expect(night.stageMinutes == Int(night.endMinute) - stored.startMinute)
      }
      guard case .spO2(let days) = try await ring.oxygen().reply else {
        return #expect(Bool(false), "no blood oxygen")
      }
      #expect(days.map(\.daysAgo) == [6, 5, 4, 3, 2, 1, 0])
      #expect(days[0].hours.map(\.maximum) == Self.history.oxygen(try Self.day(6)))
      guard case .temperature(let days) = try await ring.temperature(days: 2).reply else {
        return #expect(Bool(false), "no temperature")
      }
      #expect(days.map(\.daysAgo) == [1, 0])
      #expect(
        days[0].readings.map { Int(($0.celsius * 10).rounded()) }
          == Self.history.temperatures(try Self.day(1)))
      guard case .manualHeartRate(let log) = try await ring.manualHeartRates(daysAgo: 1).reply else {
        return #expect(Bool(false), "no heart rate")
      }
      #expect(log.entries.map { Int($0.minute) } == [Self.history.manualHeartRate(try Self.day(1)).minute])
    }
  }

  @Test func keepsSettings() async throws {
    try await withStoredRing { ring in
      var settings = RingHeartRateLogSettings(isEnabled: false, intervalMinutes: 30)
      settings.lowAlarm = 45
      _ = try await ring.ask(.writeHeartRateLogSettings(settings))
      #expect(try await ring.ask(.readHeartRateLogSettings) == .heartRateLogSettings(settings))
      let wearer = RingPreferences(ageYears: 40, heightCentimeters: 180, weightKilograms: 75)
      #expect(try await ring.ask(.writePreferences(wearer)) == .preferencesWritten)
      #expect(try await ring.ask(.readPreferences) == .preferences(wearer))
      for sensor in RingAutomaticSensor.allCases {
        for isEnabled in [true, false] {
          let state = RingAutomaticMeasurement(sensor, isEnabled: isEnabled)
          #expect(
            try await ring.ask(.writeAutomaticMeasurement(state)) == .automaticMeasurementWritten(state))
          #expect(try await ring.ask(.readAutomaticMeasurement(sensor)) == .automaticMeasurement(state))
        }
      }
    }
  }

  /// The ring refuses features that an R02 lacks. Once it has reported its capabilities, they are not
  /// requested.
  @Test func refusesWhatTheRingLacks() async throws {
    try await withStoredRing {
      $0.features = .captured
    } _: { ring in
      await #expect(throws: RingError.refused(opcode: 0x39, code: 0xEE)) {
        try await ring.heartRateVariabilityLog(daysAgo: 0)
      }
      _ = try await ring.setTime(try storedRingClock())
      await #expect(throws: RingError.lacking("heart rate variability")) {
        try await ring.heartRateVariabilityLog(daysAgo: 0)
      }
      await #expect(throws: RingError.lacking("heart rate variability")) {
        try await ring.measure(.heartRateVariability, for: .seconds(1)) { _, _ in }
      }
      await #expect(throws: RingError.lacking("temperature")) { try await ring.temperature(days: 1) }
      #expect(try await ring.stressLog(daysAgo: 0) != nil)
    }
  }

  /// The ring's clock was set to UTC by another program while local time is two hours ahead, and the reverse.
  @Test(arguments: [(0, RingClockCheck.Finding.inStep), (120, .otherConvention(minutes: 120))])
  func judgesTheClock(_ aheadMinutes: Int, _ finding: RingClockCheck.Finding) async throws {
    // At noon, entries of the next two hours are still from today.
    let noon = try RingDateTime(date: try Self.day(0), hour: 12)
    let shown = try RingDateTime(date: try Self.day(0), hour: 12 + aheadMinutes / 60)
    let judged = try await withStoredRing {
      $0.clock = shown
    } _: { ring in
      try await ring.judgeClock(noon, localOffsetMinutes: 120)
    }
    #expect(judged == finding)
  }

  @Test(arguments: [RingMeasurement.heartRate, .spO2, .heartRateVariability, .stress])
  func measuresAndStops(_ measurement: RingMeasurement) async throws {
    let values = Mutex<[UInt8]>([])
    try await withStoredRing { ring in
      try await ring.measure(measurement, for: .seconds(130)) { frame, _ in
        values.withLock { $0.append(frame.value) }
      }
      // Kept alive beyond its minute: two frames a second, starting after half a second.
      #expect(values.withLock(\.count) > 250)
      #expect(values.withLock { $0.dropFirst(4).allSatisfy { $0 != 0 } })
      let count = values.withLock(\.count)
      let counters = await ring.counters
      try await ring.connection.loop.wait(for: .seconds(5))
      #expect(values.withLock(\.count) == count)
      #expect(await ring.counters == counters)
    }
  }

  @Test func aCancelledMeasurementIsStopped() async throws {
    try await withStoredRing { ring in
      let (begun, begin) = AsyncStream<Void>.makeStream()
      let work = Task(executorPreference: ring.connection.loop.preference) {
        try await ring.measure(.heartRate, for: nil) { _, _ in begin.yield() }
      }
      for await _ in begun { break }
      work.cancel()
      try await work.value
      let foreign = await ring.counters.foreign
      try await ring.connection.loop.wait(for: .seconds(5))
      #expect(await ring.counters.foreign == foreign)
      // The conversation continues.
      #expect(try await ring.ask(.goals) != .phoneNameWritten)
    }
  }

  /// A report each second while the workout lasts, and none while it is paused or after its end.
  @Test func watchesAWorkout() async throws {
    let samples = Mutex<[RingSportSample]>([])
    try await withStoredRing { ring in
      func reports(_ duration: Duration) async throws -> Int {
        let before = samples.withLock(\.count)
        try await ring.watchWorkout(for: duration) { sample, _ in samples.withLock { $0.append(sample) } }
        return samples.withLock(\.count) - before
      }
      try await ring.workout(.start, .run)
      #expect((9...10).contains(try await reports(.seconds(10))))
      try await ring.workout(.pause, .run)
      #expect(try await reports(.seconds(10)) == 0)
      try await ring.workout(.resume, .run)
      #expect((4...5).contains(try await reports(.seconds(5))))
      try await ring.workout(.end, .run)
      #expect(try await reports(.seconds(5)) == 0)
      let seconds = samples.withLock { $0.map(\.seconds) }
      #expect(zip(seconds, seconds.dropFirst()).allSatisfy { $1 == $0 + 1 })
      #expect(samples.withLock { $0.allSatisfy { $0.sport == .run && $0.heartRate > 0 } })
    }
  }

  /// A ring without stored data refuses workouts too.
  @Test func aRingWithoutWorkoutsRefuses() async throws {
    try await withStoredRing {
      $0.history = nil
    } _: { ring in
      await #expect(throws: RingError.refused(opcode: 0x77, code: 0xEE)) {
        try await ring.workout(.start, .walk)
      }
    }
  }

  /// A cancelled request does not wait for the end of the previous one.
  @Test func aCancelledRequestLeavesTheLine() async throws {
    try await withStoredRing { ring in
      let loop = ring.connection.loop
      let silence = Duration.seconds(60)
      let begin = loop.clock.monotonic()
      @Sendable func askInVain() async throws(RingError) -> Bool {
        try await ring.exchange(.command(RingRequest.battery.command), patience: silence) { _ in .foreign }
      }
      let first = Task(executorPreference: loop.preference) { try await askInVain() }
      try await loop.wait(for: .seconds(1))
      let second = Task(executorPreference: loop.preference) { try await askInVain() }
      try await loop.wait(for: .seconds(1))
      second.cancel()
      await #expect(throws: RingError.interrupted) { try await second.value }
      #expect(begin.duration(to: loop.clock.monotonic()) < .seconds(3))
      #expect(try await first.value == false)
      #expect(begin.duration(to: loop.clock.monotonic()) >= silence)
    }
  }

  @Test func aPoweredOffRingIsGone() async throws {
    try await withStoredRing { ring in
      try await ring.order(.powerOff)
      _ = await ring.connection.ended()
      await #expect(throws: RingError.self) { try await ring.ask(.battery) }
    }
  }

  @Test func aResetRingHasForgotten() async throws {
    var ring = quietRing()
    ring.history = RingHistory()
    ring.clock = try storedRingClock()
    let configuration = ring
    let link = try await VirtualLink.open([configuration])
    func connect() async throws -> RingConversation {
      let connection = try await link.adapter.connect(
        to: configuration.address, asking: LinkRequest(), timeout: .seconds(5), tap: nil)
      return try await RingConversation.begin(on: connection)
    }
    let first = try await connect()
    #expect(try await first.stressLog(daysAgo: 1) != nil)
    try await first.order(.factoryReset)
    _ = await first.connection.ended()
    let second = try await connect()
    #expect(try await second.stressLog(daysAgo: 1) == nil)
    #expect(try await second.activityLog(daysAgo: 0) == nil)
    await second.connection.close()
    await link.close()
  }
}
