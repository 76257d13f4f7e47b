package import BLEHost

/// The stream of one sensor for whoever takes its samples, over all links of a session, whatever kind it is.
package struct SensorFeed<Sample: NotificationSample>: Sendable {
  /// They end with `finish`.
  package let samples: SampleChannel<Sample>
  private let first: @Sendable () async -> Bool
  private let learned: @Sendable () async -> SensorFacts
  private let stream: @Sendable (DeviceSession) async throws(HostError) -> Void
  private let end: @Sendable () -> Void

  package init<Session: SensorSession>(
    _ type: Session.Type, _ settings: Session.Settings
  ) where Session.Sample == Sample {
    let profile = SensorProfile<Session>(settings)
    samples = profile.samples
    first = {
      var sessions = profile.sessions.makeAsyncIterator()
      return await sessions.next() != nil
    }
    learned = { await profile.learned() }
    stream = { session throws(HostError) in try await session.run(profile) }
    end = { profile.finish() }
  }

  /// Waits for the first link that streams. Once only.
  ///
  /// - Returns: `false` where the feed is finished, or the task cancelled, before.
  package func firstStart() async -> Bool { await first() }

  /// Waits until it is known who the sensor is: soon after its first sample.
  ///
  /// - Returns: with nothing in it where the sensor never told, or the task is cancelled.
  package func facts() async -> SensorFacts { await learned() }

  /// Keeps the sensor connected and streaming, as `DeviceSession.run` does.
  package func run(_ session: DeviceSession) async throws(HostError) { try await stream(session) }

  /// Nothing more comes.
  package func finish() { end() }
}
