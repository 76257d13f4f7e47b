import Dispatch
package import Testing

/// Polls a condition without blocking a thread.
///
/// - Throws: if the condition is not met in time; this is recorded as an issue, too.
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

/// Runs `body` for each element, a few at a time. For programs that mostly wait.
package func forEach<Element: Sendable>(
  _ elements: [Element], atOnce count: Int, _ body: @escaping @Sendable (Element) async throws -> Void
) async throws {
  try await withThrowingTaskGroup(of: Void.self) { group in
    for (number, element) in elements.enumerated() {
      if number >= count { try await group.next() }
      group.addTask { try await body(element) }
    }
    try await group.waitForAll()
  }
}
