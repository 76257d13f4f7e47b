package import BLEHost

/// The sample stream of one sensor of any kind, over all links of a session.
package struct SensorFeed<Sample: NotificationSample>: Sendable {
  /// The samples; they end with `finish`.
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

  /// Waits for the first link that streams. Call it only once.
  ///
  /// - Returns: `false` if the feed is finished or the task is cancelled before.
  package func firstStart() async -> Bool { await first() }

  /// Waits for the sensor's identity, which is read soon after its first sample.
  ///
  /// - Returns: empty facts if the sensor never reported any, or the task is cancelled.
  package func facts() async -> SensorFacts { await learned() }

  /// Keeps the sensor connected and streaming, as `DeviceSession.run` does.
  package func run(_ session: DeviceSession) async throws(HostError) { try await stream(session) }

  /// Ends the feed.
  package func finish() { end() }
}
