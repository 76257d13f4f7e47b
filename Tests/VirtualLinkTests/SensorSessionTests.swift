import BLEEmulation
import BLEHost
import BLELinux
import BLESensors
import BLEStack
import BLEWire
import SensorSessions
import Testing

/// The sensor sessions over a virtual link, against sensors that send known values in turn.
@Suite(.timeLimit(.minutes(1))) struct SensorSessionTests {
  /// Runs a session between our host and one sensor until the link is lost for good or `body` returns.
  ///
  /// - Parameter settings: settings with which the stream is started.
  /// - Returns: the session, for the history of its links, and its result.
  @discardableResult
  private func withSession<Session: SensorSession>(
    _ type: Session.Type, _ settings: Session.Settings, with model: some SensorModel,
    patience: Duration = .zero, _ change: (inout EmulatedSensor.Configuration) -> Void = { _ in },
    _ body: (Session, SensorProfile<Session>, ControllerAttachment) async throws -> Void
  ) async throws -> (session: DeviceSession, failure: HostError?) {
    var configuration = EmulatedSensor.Configuration()
    configuration.ticksPerSecond = 100
    configuration.advertisingInterval = .milliseconds(20)
    change(&configuration)
    let sensor = configuration
    let link = try await VirtualLink.open { [EmulatedSensor(model, sensor)] }
    var plan = DeviceSession.Plan(model.address)
    plan.patience = patience
    let session = DeviceSession(plan, on: link.adapter)
    let profile = SensorProfile<Session>(settings)
    let running = Task { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    if let first = await profile.firstStream() { try await body(first.session, profile, link.emulation) }
    running.cancel()
    let failure = await running.value
    await link.close()
    return (session, failure)
  }

  /// All samples until the session ends.
  private func all<Sample>(_ samples: SampleChannel<Sample>) async -> [Sample] {
    var values: [Sample] = []
    for await sample in samples { values.append(sample) }
    return values
  }

  @Test func tellsWhoItIs() async throws {
    var strap = StrapModel()
    strap.location = .earLobe
    try await withSession(HeartRateSession.self, .none, with: strap) { _, profile, _ in
      let facts = await profile.learned()
      #expect(profile.times.first != nil, "it is asked after its first value")
      #expect(facts.bodyLocation == .earLobe)
      #expect(facts.battery?.percent == 84)
      #expect(facts.manufacturer == "ringtap")
    }
    try await withSession(ThermometerSession.self, (), with: ThermometerModel()) {
      // Silent for longer than any timeout: the session asks it anyway.
      $0.ticksPerSecond = 0.05
    } _: { session, profile, _ in
      #expect(session.kind == .healthThermometer)
      #expect(await profile.learned().temperatureType == .ear)
      #expect(profile.times.first == nil)
    }
  }

  @Test func heartRateUntilTheLinkIsLost() async throws {
    var strap = StrapModel()
    strap.measurements = [
      HeartRateMeasurement(beatsPerMinute: 61, contact: .detected, rrIntervals: RRIntervals([1000, 1007])),
      HeartRateMeasurement(beatsPerMinute: 300, energyExpendedKilojoules: 65_535),
      HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected),
    ]
    let sent = strap.measurements
    let end = try await withSession(HeartRateSession.self, .none, with: strap) {
      $0.disconnectAfter = 12
      $0.malformedEvery = 4
    } _: { _, profile, _ in
      let samples = await all(profile.samples)
      // The fourth, eighth and twelfth are cut.
      let wanted = [0, 1, 2, 4, 5, 6, 8, 9, 10].map { (number: Int) in sent[number % 3] }
      #expect(samples.map(\.measurement) == wanted)
      #expect(profile.samples.malformed == 3)
      #expect(profile.samples.dropped == 0)
    }
    #expect(end.failure == .gatt(.closed(.linkLost(.silence))))
    #expect(await end.session.links.count == 1)
  }

  /// The same after five lost links: one sequence, with gaps in between.
  @Test func heartRateOverSeveralLinks() async throws {
    var strap = StrapModel()
    strap.measurements = (60..<70).map { HeartRateMeasurement(beatsPerMinute: $0) }
    let end = try await withSession(
      HeartRateSession.self, .resetEnergy, with: strap, patience: .seconds(20)
    ) {
      $0.disconnectAfter = 10
      // Slow enough that a link ends after its start has finished; otherwise it would be a failed attempt and
      // not a gap.
      $0.ticksPerSecond = 25
    } _: { _, profile, emulation in
      var rates: [UInt16] = []
      for await sample in profile.samples {
        rates.append(sample.measurement.beatsPerMinute)
        if rates.count == 55 { break }
      }
      // Each link brings ten values, whichever of the ten rates comes first.
      for start in stride(from: 0, to: 50, by: 10) { #expect(Set(rates[start..<start + 10]).count == 10) }
      let resets = await emulation.inspect { controller in
        controller.peripherals.compactMap { (($0 as? EmulatedSensor)?.model as? StrapModel)?.resets }
      }
      #expect(resets == [1], "the energy is reset once")
    }
    #expect(end.failure == nil)
    let gaps = await end.session.gaps
    #expect(gaps.count == 5)
    #expect(gaps.allSatisfy { $0.reason?.rawValue == 0x08 && $0.firstSampleAt != nil && $0.attempts >= 1 })
    #expect(await end.session.linkCount >= 6)
  }

  @Test func theEnergyIsResetBeforeTheFirstMeasurement() async throws {
    try await withSession(HeartRateSession.self, .resetEnergy, with: StrapModel()) { _, _, emulation in
      let resets = await emulation.inspect { controller in
        controller.peripherals.compactMap { (($0 as? EmulatedSensor)?.model as? StrapModel)?.resets }
      }
      #expect(resets == [1])
    }
    // A Polar sensor has no control point.
    let end = try await withSession(HeartRateSession.self, .resetEnergy, with: PolarModel()) { _, _, _ in
      Issue.record("a sensor without a control point reset its energy")
    }
    #expect(end.failure.map { "\($0)" }?.contains("no heart-rate control point (2a39)") == true)
  }

  @Test func resultsAreIndicatedAndIntermediateOnesNotified() async throws {
    var thermometer = ThermometerModel()
    thermometer.measurements = [
      TemperatureMeasurement(IEEE11073Float(mantissa: 981, exponent: -1), unit: .fahrenheit, type: .mouth),
      TemperatureMeasurement(.nan),
    ]
    try await withSession(ThermometerSession.self, (), with: thermometer) {
      // Slow enough that both subscriptions are made before the first tick.
      $0.ticksPerSecond = 5
      $0.disconnectAfter = 9
    } _: { session, profile, _ in
      #expect(session.kind == .healthThermometer)
      let samples = await all(profile.samples)
      // The ninth value is a notification, sent before the link ends.
      #expect(samples.count == 9)
      for (number, sample) in samples.enumerated() {
        switch sample.reading {
        case .result: #expect((number + 1) % 4 == 0)
        case .intermediate: #expect((number + 1) % 4 != 0)
        case .core: Issue.record("a thermometer is no CORE sensor")
        }
        #expect(sample.isOffBody == !number.isMultiple(of: 2))
      }
      #expect(samples.first?.degrees == 98.1)
      // 98.1 °F by definition: (98.1 − 32) / 1.8.
      let celsius = try #require(samples.first?.degrees(in: .celsius))
      #expect((36.722...36.723).contains(celsius))
      #expect(samples[1].degrees == nil)
    }
  }

  @Test func ofACoreSensorItsOwnServiceIsTaken() async throws {
    try await withSession(ThermometerSession.self, (), with: CoreModel()) {
      $0.offBodyEvery = 3
      $0.disconnectAfter = 6
    } _: { session, profile, _ in
      #expect(session.kind == .core)
      let samples = await all(profile.samples)
      #expect(samples.map(\.isOffBody) == [false, false, true, false, false, true])
      #expect(samples.first?.degrees == 36.5)
    }
  }

  /// The control point indicates 01 and the types; reference `sensor-services.md`, 5.2.
  @Test func aPolarSensorStopsItsStream() async throws {
    var polar = PolarModel()
    polar.stopAfterSeconds = 0.5
    let settings = PolarSession.Settings(.ecg)
    let ended = try await withSession(PolarSession.self, settings, with: polar) { session, profile, _ in
      let frames = await all(profile.samples)
      #expect(profile.isEndedBySensor)
      #expect(frames.count < 100)
    }
    // The link is up, but the stream has ended.
    #expect(ended.failure == nil)
    #expect(await ended.session.gapCount == 0)
  }

  @Test(arguments: [50, 200] as [UInt16]) func aPolarStream(_ rate: UInt16) async throws {
    let settings = PolarSession.Settings(.accelerometer, sampleRate: rate)
    try await withSession(PolarSession.self, settings, with: PolarModel()) { session, profile, _ in
      #expect(session.streams[0].sampleRate == rate)
      #expect(session.streams[0].factor == 1)
      var stamps: [UInt64] = []
      var counts: [Int] = []
      for await sample in profile.samples {
        let octets = sample.octets
        let frame = try PolarFrame(validating: octets.span)
        stamps.append(frame.timestampNanoseconds)
        counts.append(frame.sampleCount)
        if stamps.count == 5 { break }
      }
      // The time between frames is the number of samples times the period.
      for index in 1..<stamps.count {
        #expect(stamps[index] - stamps[index - 1] == UInt64(counts[index]) * 1_000_000_000 / UInt64(rate))
      }
    }
  }

  /// A stop and another start on the same link.
  @Test func severalStartsOfAPolarStream() async throws {
    let link = try await VirtualLink.open { [EmulatedSensor(PolarModel(), EmulatedSensor.Configuration())] }
    let connection = try await link.adapter.connect(
      to: PolarModel().address, asking: LinkRequest(), timeout: .seconds(20), tap: nil)
    for rate: UInt16 in [50, 200] {
      let profile = SensorProfile<PolarSession>(PolarSession.Settings(.accelerometer, sampleRate: rate))
      let session = try await profile.start(on: connection)
      #expect(session.streams[0].sampleRate == rate)
      for await _ in profile.samples { break }
      await session.stop()
    }
    await link.close()
  }
}
