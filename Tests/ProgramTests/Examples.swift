import Foundation
import TestKit

/// The programs in `Tools/Examples/Programs`, a separate package.
enum Examples {
  /// Folder of the built programs. Built once per process, in the folder where the library is already built,
  /// so that its modules are not compiled again.
  private static let built = Task { try await build() }

  /// Builds the programs that have changed.
  ///
  /// - Returns: Folder of the programs.
  private static func build() async throws -> String {
    let products = URL(filePath: try Place.ringtap).deletingLastPathComponent()
    // Its last two components are the platform and the configuration.
    let scratch = products.deletingLastPathComponent().deletingLastPathComponent().path
    let arguments = [
      // One test process at a time. SwiftPM's own lock is held by the running `swift test`.
      scratch + "/examples.lock", try Place.tool("swift"), "build", "--ignore-lock", "--package-path",
      Place.root + "/Tools/Examples/Programs", "--scratch-path", scratch,
    ]
    // Excludes the library's test products.
    let environment: [String: String?] = ["RINGTAP_TEST_TARGETS": nil]
    let build = try Program("flock", arguments, input: .nothing, environment: environment)
    let result = try await build.finish(within: .seconds(600))
    guard result.status == 0 else {
      throw Program.Failure(
        description: "the programs of Tools/Examples do not build:\n\(result.output)\(result.errors)")
    }
    return products.path
  }

  /// Starts a program.
  static func start(_ name: String, _ arguments: [String]) async throws -> Program {
    try Program(try await built.value + "/" + name, arguments, input: .nothing)
  }

  /// Runs a program until it exits.
  static func run(_ name: String, _ arguments: [String]) async throws -> Program.Result {
    try await start(name, arguments).finish()
  }
}
