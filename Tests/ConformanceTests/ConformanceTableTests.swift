import BLEEmulation
import Dialogues
import Foundation
import Testing

/// `CONFORMANCE.md` agrees with the dialogues.
@Suite struct ConformanceTableTests {
  struct Row {
    let id: String
    let status: String
    /// Names of dialogues.
    let tests: [String]
    let remark: String
  }

  /// A half of the test suite, with its table.
  enum Role: String, CaseIterable {
    case client = "CL"
    case server = "SR"

    var dialogues: [ATTDialogue] { self == .client ? DialogueFiles.all : ServerDialogueFiles.all }
    var ids: Set<String> { self == .client ? clientIDs : serverIDs }
    var rows: [Row] { ConformanceTableTests.rows.filter { $0.id.hasPrefix("GATT/\(rawValue)/") } }
  }

  private static let text: String = {
    let file = DialogueFiles.folder.deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "CONFORMANCE.md")
    return (try? String(contentsOf: file, encoding: .utf8)) ?? ""
  }()

  /// Lines such as `| GATT/CL/GAR/BV-01-C | Read … | passes | TP/GAR/CL/BV-01-C | |`.
  private static let rows: [Row] = {
    text.split(separator: "\n").filter { $0.hasPrefix("| GATT/") }.map { line in
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      let tests =
        cells.count > 3 ? cells[3].split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) } : []
      return Row(
        id: cells[0], status: cells.count > 2 ? cells[2] : "", tests: tests.filter { !$0.isEmpty },
        remark: cells.count > 4 ? cells[4] : "")
    }
  }()

  /// The client's test ids: those in BlueZ's unit test, and those of the current suite that are not in it.
  private static let clientIDs: Set<String> = {
    func ids(_ group: String, _ kind: String, _ numbers: Int...) -> [String] {
      Self.ids(.client, group, kind, numbers)
    }
    return Set(
      ids("GAC", "BV", 1) + ids("GAD", "BV", 1, 2, 3, 4, 5, 6, 7, 8)
        + ids("GAR", "BV", 1, 3, 4, 5, 6, 7, 8, 10, 11)
        + ids("GAR", "BI", 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
        + ids("GAR", "BI", 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 40, 42, 44)
        + ids("GAW", "BV", 1, 2, 3, 5, 6, 8, 9)
        + ids("GAW", "BI", 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26)
        + ids("GAW", "BI", 29, 30, 31, 32, 33, 34)
        + ids("GAN", "BV", 1, 2) + ids("GAI", "BV", 1) + ids("GAI", "BI", 1) + ids("GAS", "BV", 1, 2, 3, 4, 5)
        + ids("GAT", "BV", 1, 2, 3) + ids("GPA", "BV", 11, 12) + ids("GPM", "BV", 7, 8, 9, 10, 11, 12))
  }()

  /// The server's test ids: those of the current suite, and further ones in BlueZ's unit test. Transaction
  /// timeouts, formats and multiple bearers (GAT, GPA, GPM) are not covered.
  private static let serverIDs: Set<String> = {
    func ids(_ group: String, _ kind: String, _ numbers: Int...) -> [String] {
      Self.ids(.server, group, kind, numbers)
    }
    return Set(
      ids("GAC", "BV", 1) + ids("GAC", "BI", 1, 2, 3) + ids("GAD", "BV", 1, 2, 3, 4, 5, 6, 7, 8)
        + ids("GAR", "BV", 1, 3, 4, 5, 6, 7, 8, 9, 11, 12)
        + ids("GAR", "BI", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
        + ids("GAR", "BI", 23, 24, 28, 29, 30, 34, 35, 36, 38, 40, 42, 44, 45)
        + ids("GAW", "BV", 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
        + ids("GAW", "BI", 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 20, 21, 25, 26)
        + ids("GAW", "BI", 32, 33, 36, 37, 38, 39, 40, 41)
        + ids("GAN", "BV", 1, 2, 3) + ids("GAI", "BV", 1, 2) + ids("GAS", "BV", 1, 2, 3, 4, 5, 6, 7, 8)
        + ids("UNS", "BI", 1, 2))
  }()

  private static func ids(_ role: Role, _ group: String, _ kind: String, _ numbers: [Int]) -> [String] {
    numbers.map { "GATT/\(role.rawValue)/\(group)/\(kind)-\($0 < 10 ? "0" : "")\($0)-C" }
  }

  @Test(arguments: Role.allCases) func hasEachIDOnce(_ role: Role) {
    #expect(Set(role.rows.map(\.id)) == role.ids)
    #expect(role.rows.count == role.ids.count)
  }

  @Test(arguments: Role.allCases) func namesEachDialogueInItsRow(_ role: Role) {
    for row in role.rows {
      let tests = role.dialogues.filter { $0.test == row.id }.map(\.name)
      #expect(row.tests.sorted() == tests.sorted(), "\(row.id)")
    }
    let unknown = role.dialogues.filter { !role.ids.contains($0.test) }.map(\.name)
    #expect(unknown == [])
  }

  /// A test that passes names its dialogues; one that does not gives a reason.
  @Test func saysWhatIsMissing() {
    for row in Self.rows {
      switch row.status {
      case "passes": #expect(!row.tests.isEmpty, "\(row.id)")
      case "open", "not applicable": #expect(!row.remark.isEmpty, "\(row.id)")
      default: Issue.record("\(row.id) has the status '\(row.status)'")
      }
    }
  }

  /// The sentence above each table has the right counts.
  @Test(arguments: Role.allCases) func countsItsRows(_ role: Role) {
    let counts = ["passes", "open", "not applicable"].map { status in
      role.rows.count { $0.status == status }
    }
    #expect(
      Self.text.contains(
        "\(role.rows.count) ids: \(counts[0]) pass, \(counts[1]) are open, \(counts[2]) do not apply"))
    #expect(Self.text.contains("plays \(role.dialogues.count) dialogues against"))
  }
}
