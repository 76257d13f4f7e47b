import Foundation

/// A program, `ringtap` or another, that runs during the test.
package final class Running: Sendable {
  private let program: Program

  package init(
    _ program: String, _ arguments: [String], in folder: String, environment: [String: String] = [:]
  )
    throws
  {
    let environment = ["XDG_STATE_HOME": folder].merging(environment) { $1 }
    self.program = try Program(
      program, arguments, input: .nothing, environment: environment.mapValues { $0 })
  }

  /// Starts `ringtap` with these arguments.
  package convenience init(
    _ arguments: [String], in folder: String, environment: [String: String] = [:]
  ) throws {
    try self.init(Place.ringtap, arguments, in: folder, environment: environment)
  }

  deinit { signal(SIGKILL) }

  package func signal(_ number: Int32) { program.send(number) }

  /// Peak resident memory in KiB.
  package var peakKilobytes: Int? {
    let status = try? String(contentsOfFile: "/proc/\(program.identifier)/status", encoding: .utf8)
    return status?.firstMatch(of: /VmHWM:\s+(\d+) kB/).flatMap { Int($0.1) }
  }

  package var text: String { program.output }
  package var said: String { program.errors }

  /// Waits for the program to end and returns its exit status.
  package func status(_ name: String, within limit: Duration = .seconds(60)) async throws -> Int32 {
    try await program.ended(within: limit).status
  }

  package func kill() async throws { await program.end() }
}
