import BLEHost
import BLELinux
import Synchronization

/// Work deferred until a stream's first sample has arrived, or until a timeout.
struct StreamCompletion: Sendable {
  /// Without a sample, the work starts after this time. A ring with standard firmware sends one sample a
  /// second.
  static let patience = Duration.seconds(2)
  /// Without a sample, attributes of an earlier link are verified once after this time.
  static let doubtAfter = Duration.seconds(5)
  /// The same time for attributes that an earlier program discovered, which are more likely to have changed.
  static let doubtOfRecalledAfter = Duration.seconds(1)

  private let withoutFirst: Task<Void, Never>
  private let afterFirst: Task<Void, Never>

  /// - Parameters:
  ///   - stream: stream that was just started.
  ///   - profile: profile that does the work.
  ///   - connection: link of the stream.
  ///   - avoidance: requests to avoid.
  ///   - completed: called when the work is done.
  init<Profile: SessionProfile>(
    of stream: Profile.Stream, _ profile: Profile, on connection: Connection, _ avoidance: LinkAvoidance,
    completed: @escaping @Sendable () async -> Void
  ) {
    let (loop, times, turn) = (connection.loop, profile.times, Turn())
    let complete: @Sendable () async -> Void = {
      guard await connection.end == nil, !Task.isCancelled, turn.take() else { return }
      if !avoidance.asksNothing {
        await Connection.$need.withValue(.optional) { await profile.complete(stream) }
        await completed()
      }
      await connection.endFastStart()
    }
    let verify: @Sendable () async -> Void = {
      guard await connection.end == nil, !avoidance.asksNothing else { return }
      try? await Connection.$need.withValue(.optional) { try await GATTClient(connection).verify() }
    }
    let withoutFirst = loop.task {
      var pause = Self.patience
      if await connection.usesRecalledAttributes {
        guard (try? await loop.wait(for: Self.doubtOfRecalledAfter)) != nil, times.first == nil else {
          return
        }
        await verify()
        pause -= Self.doubtOfRecalledAfter
      }
      guard (try? await loop.wait(for: pause)) != nil, times.first == nil else { return }
      await complete()
      guard (try? await loop.wait(for: Self.doubtAfter - Self.patience)) != nil, times.first == nil
      else { return }
      await verify()
    }
    self.withoutFirst = withoutFirst
    afterFirst = loop.task {
      guard (try? await times.waitForFirst()) != nil else { return }
      if !turn.isTaken { withoutFirst.cancel() }
      // An error that ends the link also ends the session's wait for it; a refusal changes nothing.
      if await connection.end == nil, await connection.usesEarlierDiscovery, !avoidance.asksNothing {
        try? await Connection.$need.withValue(.optional) { try await GATTClient(connection).validate() }
      }
      await complete()
    }
  }

  /// Cancels the work. No further request is sent when it returns, so the command that stops the sensor is
  /// the last one.
  func end() async {
    afterFirst.cancel()
    withoutFirst.cancel()
    await withoutFirst.value
    await afterFirst.value
  }

  /// Decides which of the two tasks does the work.
  private final class Turn: Sendable {
    private let state = Atomic(false)

    var isTaken: Bool { state.load(ordering: .relaxed) }

    /// - Returns: whether the caller is the first.
    func take() -> Bool { !state.exchange(true, ordering: .relaxed) }
  }
}
