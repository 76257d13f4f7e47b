package import BLEHost
import BLELinux

/// Runs `body`. If the task is cancelled and `body` still runs after `patience`, closes the link, so as not
/// to wait for a device that does not respond.
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
