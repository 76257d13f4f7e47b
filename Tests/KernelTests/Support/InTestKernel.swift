import Foundation
import Testing

/// All tests that need a kernel with Bluetooth; one at a time, because they share its adapters.
///
/// They run in the test kernel only: on a person's machine they would take the adapters over. `Tools/test` runs
/// them there, and there nothing is skipped: a missing program or device is a failure.
@Suite(
  .serialized,
  .enabled(if: Way.isInTestKernel, "they run in the test kernel: see Tools/test"))
enum InTestKernel {}

/// Tests of the program that hold on each way to the radio: in the test kernel on those that need it, on this machine
/// on the others.
@Suite(.serialized) enum OverEachWay {}

/// Tests of the program that need no kernel with Bluetooth: they run on this machine only.
@Suite(.serialized, .enabled(if: !Way.isInTestKernel, "they need no test kernel"))
enum WithoutKernel {}

/// Where things are.
enum Place {
  /// The program under test, beside the tests' own.
  static let ringtap = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
    .deletingLastPathComponent().appending(path: "ringtap").path

  private static let tests = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  /// The other sides of a link.
  static func peer(_ name: String) -> String { tests.appending(path: "KernelTests/Peers/\(name)").path }

  static let ringVectors = tests.appending(path: "BLESensorsTests/Fixtures/ring-vectors.json")

  /// The Python that has bumble.
  static func python() throws -> String {
    if let known = knownPython.value { return known }
    let install = tests.deletingLastPathComponent().appending(path: "Tools/install").path
    let found = try Program(install, ["python"]).finish()
    try #require(found.status == 0, "\(found.errors)")
    let python = found.output.trimmingCharacters(in: .whitespacesAndNewlines)
    knownPython.value = python
    return python
  }

  private final class Box: @unchecked Sendable {  // the suite is serialized
    var value: String?
  }
  private static let knownPython = Box()
}
