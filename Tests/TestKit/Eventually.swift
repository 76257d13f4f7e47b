import Dispatch
package import Testing

/// Waits for what nothing tells of: looks again and again until it is so, and holds no thread meanwhile.
///
/// - Throws: where it is never so; that is recorded as an issue too.
package func eventually(
  _ what: String, within limit: Duration = Program.patience, at location: SourceLocation = #_sourceLocation,
  _ condition: () async throws -> Bool
) async throws {
  let end = ContinuousClock.now + limit
  while try await !condition() {
    try Task.checkCancellation()
    guard ContinuousClock.now < end else {
      Issue.record("never: \(what)", sourceLocation: location)
      throw CancellationError()
    }
    await withCheckedContinuation { turn in
      DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(5)) { turn.resume() }
    }
  }
}
