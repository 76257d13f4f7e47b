import Foundation
import TestKit

/// The programs of `Tools/Examples/Programs`, a package outside of this one.
enum Examples {
  /// Once in this process; in the folder where the library is built already, so that none of its modules is compiled again.
  private static let built = Task { try await build() }

  /// Builds what has changed.
  ///
  /// - Returns: the folder of the programs.
  private static func build() async throws -> String {
    let products = URL(filePath: try Place.ringtap).deletingLastPathComponent()
    // Its last two components are the platform and the configuration.
    let scratch = products.deletingLastPathComponent().deletingLastPathComponent().path
    let arguments = [
      // One process of tests after the other. SwiftPM's own lock is with whoever runs `swift test`.
      scratch + "/examples.lock", try Place.tool("swift"), "build", "--ignore-lock", "--package-path",
      Place.root + "/Tools/Examples/Programs", "--scratch-path", scratch,
    ]
    // It leaves the products of the library out.
    let environment: [String: String?] = ["RINGTAP_TEST_TARGETS": nil]
    let build = try Program("flock", arguments, input: .nothing, environment: environment)
    let result = try await build.finish(within: .seconds(600))
    guard result.status == 0 else {
      throw Program.Failure(
        description: "the programs of Tools/Examples do not build:\n\(result.output)\(result.errors)")
    }
    return products.path
  }

  /// Starts one.
  static func start(_ name: String, _ arguments: [String]) async throws -> Program {
    try Program(try await built.value + "/" + name, arguments, input: .nothing)
  }

  /// Runs one to its end.
  static func run(_ name: String, _ arguments: [String]) async throws -> Program.Result {
    try await start(name, arguments).finish()
  }
}
