package import BLEHost
import BLELinux

/// Runs `body`; where the task is cancelled and `body` still goes on after this time, the link is closed: a device that does
/// not answer is not waited for.
package func closing<Value>(
  _ connection: Connection, after patience: Duration, isolation: isolated (any Actor)? = #isolation,
  _ body: () async throws -> Value
) async throws -> Value {
  let timer = OneShot<Task<Void, Never>>()
  defer { timer.current?.cancel() }
  return try await withTaskCancellationHandler {
    try await body()
  } onCancel: {
    timer.set(connection.loop.after(patience) { await connection.close() })
  }
}
