import BLEHost
import BLELinux
import Synchronization

/// Does what was put off for the sake of a stream's first sample: after it, or after a while without one.
struct StreamCompletion: Sendable {
  /// After this time without a sample, it is done all the same. A stock ring has one a second.
  static let patience = Duration.seconds(2)
  /// After this time without a sample, attributes of an earlier link are looked at again, once.
  static let doubtAfter = Duration.seconds(5)
  /// The same for those of an earlier program, once: much may have happened since.
  static let doubtOfRecalledAfter = Duration.seconds(1)

  private let withoutFirst: Task<Void, Never>
  private let afterFirst: Task<Void, Never>

  /// - Parameters:
  ///   - stream: has just been started.
  ///   - profile: what is done on the link.
  ///   - connection: the link.
  ///   - avoidance: what the device is not asked for.
  ///   - completed: called when it is done.
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
      // What ends the link ends the session's wait for it too; a refusal changes nothing.
      if await connection.end == nil, await connection.usesEarlierDiscovery, !avoidance.asksNothing {
        try? await Connection.$need.withValue(.optional) { try await GATTClient(connection).validate() }
      }
      await complete()
    }
  }

  /// Nothing of this stream is asked any more when it returns: what stops a sensor is the last that it hears.
  func end() async {
    afterFirst.cancel()
    withoutFirst.cancel()
    await withoutFirst.value
    await afterFirst.value
  }

  /// Whose task it is.
  private final class Turn: Sendable {
    private let state = Atomic(false)

    var isTaken: Bool { state.load(ordering: .relaxed) }

    /// - Returns: whether nobody had taken it.
    func take() -> Bool { !state.exchange(true, ordering: .relaxed) }
  }
}
