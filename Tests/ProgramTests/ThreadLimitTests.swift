import Foundation
import TestKit
import Testing

/// The user may have only two to four processes, and each thread counts as one.
@Suite(.timeLimit(.minutes(2))) struct ThreadLimitTests {
  /// Swift's thread pool would wait without end for a thread.
  @Test(arguments: [1, 2, 3, 4, 6]) func endsWithAMessage(_ limit: Int) async throws {
    let program = try Place.ringtap
    try await withFolder { folder in
      #expect(chmod(folder, 0o777) == 0)
      for arguments in [
        ["capture", "--transport", "virtual:ring", "--count", "30", "--output", folder + "/walk"],
        ["scan", "--transport", "virtual:ring", "--duration", "1"],
        ["gatt", "--transport", "virtual:ring", "70:CB:0D:00:A1:B2"],
        ["heart-rate", "--transport", "virtual:heart-rate", "--count", "1"],
        ["relay", "virtual:ring"], ["doctor"],
        ["log", "record", "--duration", "1", "--output", folder + "/log"],
      ] {
        // The limit does not apply to root; the new user has no other processes.
        let number = "\(61_230 + limit)"
        let user = getuid() == 0 ? ["setpriv", "--reuid", number, "--regid", number, "--clear-groups"] : []
        let words = ["--nproc=\(limit)"] + user + [program] + arguments
        let result = try await Program("prlimit", words).finish()
        #expect(result.status == 1, "\(arguments): \(result.errors)")
        #expect(result.errorLines.count == 1, "\(arguments): \(result.errors)")
      }
    }
  }
}
