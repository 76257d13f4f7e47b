package import BLEDissector
package import BLEHost
import BLELinux
package import BLEPeripheral
import BLEStack
import BLEWire
package import Recording
package import SensorSessions

/// Relays a sensor as a local peripheral with a standard service.
///
/// The relay keeps the sensor connected, as other commands do, and records the sensor if requested. Centrals
/// discover the peripheral, connect and subscribe. The sensor does not wait for centrals: values are dropped
/// while no central is subscribed.
package struct Relay<Source: RelaySource>: Sendable {
  package let kind: SensorKind<Source.Sample>
  package let source: Source
  /// The sensor, and the parameters for connecting to it.
  package var plan: DeviceSession.Plan
  /// The adapter that connects to the sensor.
  package var adapter: any Adapter
  /// The adapter that advertises, which may also be the adapter that connects to the sensor.
  package var advertiser: any AdvertisingAdapter
  /// Advertised name.
  package var name: String
  /// Facts about the sensor, used if the sensor does not report them.
  package var facts = SensorFacts()
  /// Time limit from the start of the stream; `nil` for no limit.
  package var duration: Duration?
  /// Recording of the sensor; `nil` if the sensor is not recorded. The relay replaces the recording's plan,
  /// adapter and watcher.
  package var recording: SensorRecording?
  /// Whether the sensor is a replayed log with old timestamps.
  package var isReplay = false
  /// Time limit for stopping the sensor after an interruption.
  package var patience = Duration.milliseconds(600)

  package init(
    _ kind: SensorKind<Source.Sample>, _ source: Source, _ plan: DeviceSession.Plan, on adapter: any Adapter,
    advertisedBy advertiser: any AdvertisingAdapter, as name: String
  ) {
    (self.kind, self.source, self.plan, self.adapter) = (kind, source, plan, adapter)
    (self.advertiser, self.name) = (advertiser, name)
  }

  private enum End: Sendable {
    case duration, interrupted
    /// The sensor did not reconnect, or has stopped its stream.
    case sensor
    /// The sensor's data cannot be used.
    case refused(String)
    /// Advertising failed.
    case advertiser
    /// The event handler threw an error.
    case reader
  }

  /// The reason for the end of the sensor's side.
  private struct SensorEnd: Sendable {
    var failure: HostError?
    var recording: SensorRecording.Result?
    var malformed = 0
    var lost = 0
  }

  /// Relays until the duration ends, the task is cancelled, or one side fails. At the end, stops the sensor,
  /// stops advertising, and disconnects.
  ///
  /// - Parameter follow: called with the events in order, but never on a receive thread.
  /// - Throws: an error that prevented the start, or an error thrown by `follow`. An error that ended a
  ///   running relay is part of the outcome.
  package func run(
    _ follow: @escaping @Sendable (RelayHub.Event) throws -> Void
  ) async throws -> RelayOutcome {
    let hub = RelayHub(on: advertiser.loop, isReplay: isReplay)
    let end = OneShot<End>()
    let input = RelayInput(source, hub, adapter.loop.clock) { end.set(.refused($0)) }
    let session = DeviceSession(plan, on: adapter)
    let telling = advertiser.loop.task { () -> (any Error)? in
      do {
        for await event in hub.events { try follow(event) }
        return nil
      } catch {
        end.set(.reader)
        return error
      }
    }
    let running = adapter.loop.task {
      let outcome =
        if let recording { await record(recording, input) } else {
          await stream(kind.definition, session, input)
        }
      input.started.set(false)
      end.set(.sensor)
      return outcome
    }
    let result: Result<RelayOutcome, any Error> = await withTaskCancellationHandler {
      do { return .success(try await serve(input, running, end)) } catch { return .failure(error) }
    } onCancel: {
      running.cancel()
      end.set(.interrupted)
      _ = adapter.loop.after(patience) { await session.cut() }
    }
    // End the session in every case to stop the sensor.
    running.cancel()
    let sensor = await running.value
    hub.finish()
    if let error = await telling.value { throw error }
    var outcome = try result.get()
    outcome.silences = input.silences
    outcome.gaps = input.gaps
    (outcome.malformed, outcome.lost) = (sensor.malformed, sensor.lost)
    outcome.recording = sensor.recording
    switch end.current {
    case .sensor: outcome.failure = sensor.failure
    case .refused(let reason): outcome.failure = .unsuitable(reason)
    case .duration, .interrupted, .advertiser, .reader, nil: break
    }
    return outcome
  }

  // MARK: The sensor

  private func record(
    _ recording: SensorRecording, _ input: RelayInput<Source>
  ) async -> SensorEnd {
    var recording = recording
    (recording.plan, recording.adapter) = (plan, adapter)
    recording.live = RelayTap(input)
    var outcome = SensorEnd()
    do throws(HostError) {
      let result = try await recording.run(kind)
      outcome.recording = result
      outcome.failure = result.failure
      (outcome.malformed, outcome.lost) = (result.report.malformed, result.report.lost.total)
    } catch { outcome.failure = error }
    return outcome
  }

  private func stream<Sensor: SensorDefinition<Source.Sample>>(
    _ sensor: Sensor, _ session: DeviceSession, _ input: RelayInput<Source>
  ) async -> SensorEnd {
    let profile = SensorProfile<Sensor.Session>(sensor.settings)
    let loop = adapter.loop
    let taking = loop.task { for await sample in profile.samples { input.take(sample) } }
    let states = await session.states()
    let following = loop.task { await Self.follow(states, session, input) }
    loop.task { input.learn(await profile.learned()) }
    var outcome = SensorEnd()
    do throws(HostError) { try await session.run(profile) } catch { outcome.failure = error }
    profile.finish()
    await taking.value
    await following.value
    outcome.malformed = profile.samples.malformed
    outcome.lost = profile.samples.dropped + (await session.statistics.kernelQueueDrops)
    return outcome
  }

  private static func follow(
    _ states: AsyncStream<SessionState>, _ session: DeviceSession, _ input: RelayInput<Source>
  ) async {
    var (hasBegun, isLost) = (false, false)
    for await state in states {
      switch state {
      case .streaming:
        if isLost, let gap = await session.gaps.last { input.take(gap, .back) }
        (hasBegun, isLost) = (true, false)
        input.started.set(true)
      case .reconnecting where hasBegun && !isLost:
        if let gap = await session.gaps.last { input.take(gap, .lost) }
        isLost = true
      default: break
      }
    }
  }

  // MARK: The device

  private func serve(
    _ input: RelayInput<Source>, _ running: Task<SensorEnd, Never>, _ end: OneShot<End>
  ) async throws -> RelayOutcome {
    guard await input.started.value() else {
      let failure = await running.value.failure
      try Task.checkCancellation()
      throw failure ?? .gatt(.closed(.closedLocally))
    }
    let hub = input.hub
    let timer = duration.map { hub.loop.after($0) { end.set(.duration) } }
    defer { timer?.cancel() }
    let facts = await input.facts(on: hub.loop).completed(by: facts)
    try Task.checkCancellation()
    let service = Source.service
    var outcome = RelayOutcome()
    outcome.centrals = try await advertiser.advertise(
      service.advertisement(named: name), services: service.services(facts)
    ) { server in
      hub.tell(.ready(service))
      hub.loop.task {
        await hub.serve(server)
        end.set(.advertiser)
      }
      _ = await end.value(ifCancelled: .interrupted)
      // The relay has ended, so end the sensor's side.
      running.cancel()
      return await server.statistics
    }
    (outcome.values, outcome.dropped, outcome.delays) = (
      await hub.values, await hub.dropped, await hub.delays
    )
    return outcome
  }
}

/// Result of a relay.
package struct RelayOutcome: Sendable {
  /// Number of values that the sensor sent.
  package var values = 0
  /// Number of times that no value was sent because its quality was too low.
  package var silences = 0
  /// Number of values dropped because a central was too slow, for all centrals together.
  package var dropped = 0
  /// Number of malformed samples, which are shorter than their contents require.
  package var malformed = 0
  /// Number of samples that were received but lost in this process before they were relayed.
  package var lost = 0
  /// Number of times that the link to the sensor was lost.
  package var gaps = 0
  package var delays = RelayDelays()
  package var centrals = GATTServerStatistics()
  package var recording: SensorRecording.Result?
  /// The error that ended the relay, if it came from the sensor.
  package var failure: HostError?
}

extension SensorFacts {
  /// Returns the facts, with missing facts taken from `other`.
  fileprivate func completed(by other: SensorFacts) -> SensorFacts {
    var facts = self
    facts.texts.merge(other.texts) { own, _ in own }
    facts.battery = battery ?? other.battery
    facts.bodyLocation = bodyLocation ?? other.bodyLocation
    facts.mounting = mounting ?? other.mounting
    facts.temperatureType = temperatureType ?? other.temperatureType
    return facts
  }
}

/// Histograms of the age of values when they are sent. Uses bounded memory.
package struct RelayDelays: Sendable {
  /// Delay of the estimator: the time between the kernel timestamps of the newest sample on which a value is
  /// based and the sample at which the value was computed.
  package private(set) var estimator = LogLinearHistogram()
  /// Delay from the sample at which the value was computed until the value is in the queue of a central's
  /// link, counted for each central.
  package private(set) var transport = LogLinearHistogram()
  /// Sum of both delays.
  package private(set) var total = LogLinearHistogram()

  mutating func add(_ value: RelayedValue, transport nanoseconds: Int64) {
    let waited = (value.knownAt - value.measuredAt).nanoseconds
    estimator.add(waited)
    transport.add(nanoseconds)
    total.add((TimeSpan(nanoseconds: max(0, waited)) + TimeSpan(nanoseconds: nanoseconds)).nanoseconds)
  }
}
