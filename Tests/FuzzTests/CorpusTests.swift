import Foundation
import FuzzTargets
import Testing

/// The inputs that the fuzzers found and that are kept: each ends, and holds what its target promises. A trap ends the
/// run.
@Suite struct CorpusTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Tools/fuzz/corpus")

  @Test(arguments: FuzzTarget.allCases)
  func survives(_ target: FuzzTarget) throws {
    let folder = Self.folder.appending(path: target.rawValue)
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    try #require(!names.isEmpty)
    for name in names.sorted() {
      let input = [UInt8](try Data(contentsOf: folder.appending(path: name)))
      target.run(input.span)
    }
    let empty: [UInt8] = []
    target.run(empty.span)
  }

  /// A target that was renamed must not leave its corpus behind, unused.
  @Test func usesEachFolder() throws {
    let folders = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
    #expect(Set(folders).isSubset(of: Set(FuzzTarget.allCases.map(\.rawValue))))
  }
}
