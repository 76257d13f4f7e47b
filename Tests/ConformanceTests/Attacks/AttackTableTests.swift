import BLEEmulation
import Dialogues
import Foundation
import Testing

/// The tables of published attacks in `CONFORMANCE.md` agree with the dialogues and the Swift tests.
@Suite struct AttackTableTests {
  struct Row {
    let vector: String
    let source: String
    let tests: [String]
    let result: String
  }

  /// Lines such as `| CVE-2019-17517 | SweynTooth | l2cap/truncated, AttackScaleTests/reconnects | holds |`
  /// in that section.
  private static let rows: [Row] = {
    let file = DialogueFiles.folder.deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "CONFORMANCE.md")
    let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    let section = text.components(separatedBy: "\n## ").first { $0.hasPrefix("Published attacks") } ?? ""
    return section.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("| vector") }.map {
      let cells = $0.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      let tests = cells.count > 2 ? cells[2].split(separator: ",") : []
      return Row(
        vector: cells[0], source: cells.count > 1 ? cells[1] : "",
        tests: tests.map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty },
        result: cells.count > 3 ? cells[3] : "")
    }
  }()

  /// Names such as `AttackScaleTests/reconnects` in the Swift files beside this one and in the program's
  /// tests.
  private static let swiftTests: String = {
    let tests = AttackFiles.folder.deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    var text = ""
    for name in [
      "ConformanceTests/Attacks", "BLEHostTests", "VirtualLinkTests", "KernelTests", "BLEStackTests",
    ] {
      let folder = tests.appending(path: name)
      let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
      while let file = files?.nextObject() as? URL {
        if file.pathExtension == "swift" { text += (try? String(contentsOf: file, encoding: .utf8)) ?? "" }
      }
    }
    return text
  }()

  @Test func hasEachVectorOnce() {
    #expect(!Self.rows.isEmpty)
    #expect(Set(Self.rows.map(\.vector)).count == Self.rows.count)
  }

  @Test func namesEachDialogueInItsRow() {
    for row in Self.rows {
      let dialogues = AttackFiles.all.filter { $0.test == row.vector }
      let names = row.tests.filter { !Self.isSwift($0) }
      #expect(names.sorted() == dialogues.map(\.name).sorted(), "\(row.vector)")
    }
    let vectors = Set(Self.rows.map(\.vector))
    #expect(AttackFiles.all.filter { !vectors.contains($0.test) }.map(\.name) == [])
  }

  @Test func namesSwiftTestsThatAreThere() {
    for test in Self.rows.flatMap(\.tests) where Self.isSwift(test) {
      let parts = test.split(separator: "/")
      let isThere = ["struct", "class"].contains { Self.swiftTests.contains("\($0) \(parts[0])") }
      #expect(isThere, "\(test)")
      #expect(Self.swiftTests.contains("func \(parts[1])("), "\(test)")
    }
  }

  /// Each attack states its source, the fault, and the required behaviour of a host; one that succeeds states
  /// why.
  @Test func saysWhatItIsAbout() {
    for row in Self.rows {
      #expect(!row.tests.isEmpty && !row.source.isEmpty, "\(row.vector)")
      #expect(row.result == "holds" || row.result.hasPrefix("open: "), "\(row.vector)")
    }
    for dialogue in AttackFiles.all {
      #expect(!dialogue.title.isEmpty && !dialogue.source.isEmpty, "\(dialogue.name)")
      #expect(!dialogue.fault.isEmpty && !dialogue.duty.isEmpty, "\(dialogue.name)")
      #expect(dialogue.role != nil && !dialogue.expectation.isEmpty, "\(dialogue.name)")
    }
    #expect(Set(AttackFiles.all.map(\.name)).count == AttackFiles.all.count)
  }

  private static func isSwift(_ test: String) -> Bool {
    test.split(separator: "/").first?.hasSuffix("Tests") ?? false
  }
}
