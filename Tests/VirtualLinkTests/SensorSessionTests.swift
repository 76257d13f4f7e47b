import BLECore
import BLEEmulation
import BLEHost
import BLESensors
import BLEStack
import BLESystem
import BLEWire
import RingTap
import Testing

/// The sensor sessions over a virtual link, against sensors that send known values in turn.
@Suite(.timeLimit(.minutes(1))) struct SensorSessionTests {
  /// Our host and one sensor, connected.
  private func withSensor<Value: Sendable>(
    _ model: some SensorModel, _ change: (inout EmulatedSensor.Configuration) -> Void = { _ in },
    _ body: (Connection, ControllerAttachment) async throws -> Value
  ) async throws -> Value {
    var configuration = EmulatedSensor.Configuration()
    configuration.ticksPerSecond = 100
    configuration.advertisingInterval = .milliseconds(20)
    change(&configuration)
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let controller = VirtualController(peripherals: [EmulatedSensor(model, configuration)])
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(controller, to: pair.takeController(), .datagrams)
    let transport = try loop.transport(over: pair.takeHost(), .datagrams)
    let adapter = try await HostAdapter.open(transport, name: "virtual", on: loop)
    let connection = try await adapter.connect(
      to: model.address, asking: LinkRequest(), timeout: .seconds(20), tap: nil)
    let value = try await body(connection, emulation)
    await connection.close()
    await adapter.close()
    await emulation.detach()
    return value
  }

  /// What came until the link ended.
  private func all<Sample>(_ samples: SampleChannel<Sample>) async -> [Sample] {
    var values: [Sample] = []
    for await sample in samples { values.append(sample) }
    return values
  }

  @Test func heartRateUntilTheLinkIsLost() async throws {
    var strap = StrapModel()
    strap.location = .earLobe
    strap.measurements = [
      HeartRateMeasurement(beatsPerMinute: 61, contact: .detected, rrIntervals: RRIntervals([1000, 1007])),
      HeartRateMeasurement(beatsPerMinute: 300, energyExpendedKilojoules: 65_535),
      HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected),
    ]
    let sent = strap.measurements
    try await withSensor(strap) {
      $0.disconnectAfter = 12
      $0.malformedEvery = 4
    } _: { connection, _ in
      let session = try await HeartRateSession.start(on: connection)
      #expect(session.location == .earLobe)
      #expect(session.facts.battery?.percent == 84)
      #expect(session.facts.manufacturer == "ringtap")
      let samples = await all(session.samples)
      // The fourth, eighth and twelfth are cut.
      let wanted = (0..<12).filter { ($0 + 1) % 4 != 0 }.map { sent[$0 % 3] }
      #expect(samples.map(\.measurement) == wanted)
      #expect(session.samples.malformed == 3)
      #expect(session.samples.dropped == 0)
      #expect(await connection.end != nil)
    }
  }

  @Test func theEnergyIsResetBeforeTheFirstMeasurement() async throws {
    try await withSensor(StrapModel()) { connection, emulation in
      _ = try await HeartRateSession.start(on: connection, .resetEnergy)
      let resets = await emulation.inspect { controller in
        controller.peripherals.compactMap { (($0 as? EmulatedSensor)?.model as? StrapModel)?.resets }
      }
      #expect(resets == [1])
    }
    // A Polar sensor has no control point.
    try await withSensor(PolarModel()) { connection, _ in
      do throws(HostError) {
        _ = try await HeartRateSession.start(on: connection, .resetEnergy)
        Issue.record("a sensor without a control point reset its energy")
      } catch { #expect("\(error)".contains("no heart-rate control point (2a39)")) }
    }
  }

  @Test func resultsAreIndicatedAndIntermediateOnesNotified() async throws {
    var thermometer = ThermometerModel()
    thermometer.measurements = [
      TemperatureMeasurement(IEEE11073Float(mantissa: 981, exponent: -1), unit: .fahrenheit, type: .mouth),
      TemperatureMeasurement(.nan),
    ]
    try await withSensor(thermometer) {
      // Slow enough that both subscriptions stand before the first tick.
      $0.ticksPerSecond = 5
      $0.disconnectAfter = 9
    } _: { connection, _ in
      let session = try await ThermometerSession.start(on: connection)
      #expect(session.kind == .healthThermometer)
      #expect(session.type == .ear)
      let samples = await all(session.samples)
      // The ninth is a notification: it has left before the link goes.
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
    try await withSensor(CoreModel()) {
      $0.offBodyEvery = 3
      $0.disconnectAfter = 6
    } _: { connection, _ in
      let session = try await ThermometerSession.start(on: connection)
      #expect(session.kind == .core)
      let samples = await all(session.samples)
      #expect(samples.map(\.isOffBody) == [false, false, true, false, false, true])
      #expect(samples.first?.degrees == 36.5)
    }
  }

  /// The control point indicates 01 and the types; reference `sensor-services.md`, 5.2.
  @Test func aPolarSensorStopsItsStream() async throws {
    var polar = PolarModel()
    polar.stopAfterSeconds = 0.5
    try await withSensor(polar) { connection, _ in
      let session = try await PolarSession.start(.ecg, sampleRate: nil, on: connection)
      #expect(!session.isStoppedBySensor)
      let frames = await all(session.frames)
      // The link is there, the stream is not.
      #expect(session.isStoppedBySensor)
      #expect(await connection.end == nil)
      #expect(frames.count < 100)
      // It can be started again by whoever wants it.
      let again = try await PolarSession.start(.accelerometer, sampleRate: 50, on: connection)
      #expect(!again.isStoppedBySensor)
      await again.stop()
    }
  }

  @Test func severalStartsOfAPolarStream() async throws {
    try await withSensor(PolarModel()) { connection, _ in
      for rate: UInt16 in [50, 200] {
        let session = try await PolarSession.start(.accelerometer, sampleRate: rate, on: connection)
        #expect(session.sampleRate == rate)
        #expect(session.factor == 1)
        var stamps: [UInt64] = []
        var counts: [Int] = []
        for await sample in session.frames {
          let octets = sample.octets
          let frame = try PolarFrame(validating: octets.span)
          stamps.append(frame.timestampNanoseconds)
          counts.append(frame.sampleCount)
          if stamps.count == 5 { break }
        }
        await session.stop()
        // From frame to frame as many nanoseconds as samples.
        for index in 1..<stamps.count {
          #expect(stamps[index] - stamps[index - 1] == UInt64(counts[index]) * 1_000_000_000 / UInt64(rate))
        }
      }
    }
  }
}
