import Foundation

/// Runs `body` with a temporary folder.
package func withFolder<Value>(_ body: (String) async throws -> Value) async throws -> Value {
  let folder = try makeFolder()
  defer { try? FileManager.default.removeItem(atPath: folder) }
  return try await body(folder)
}

package func withFolder<Value>(_ body: (String) throws -> Value) throws -> Value {
  let folder = try makeFolder()
  defer { try? FileManager.default.removeItem(atPath: folder) }
  return try body(folder)
}

private func makeFolder() throws -> String {
  let folder = FileManager.default.temporaryDirectory.appending(path: "ringtap-\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  return folder.path
}
