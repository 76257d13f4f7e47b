import BLEEmulation
import Dialogues
import Foundation
import TestKit
import Testing

/// The server half of the SIG's GATT test suite: `GATTServer` over a virtual link, with a tester that plays a
/// dialogue.
@Suite(.timeLimit(.minutes(5))) struct ServerDialogueTests {
  @Test(arguments: ServerDialogueFiles.all.map { NamedDialogue(dialogue: $0) })
  func plays(_ named: NamedDialogue) async throws {
    #expect(try await ServerDialogueRun.play(named.dialogue) == nil)
  }

  /// BlueZ's dialogues, except for the MTU exchange, which has its own MTU, and two that write more to a CCCD
  /// than it holds.
  @Test func hasAll() {
    #expect(ServerDialogueFiles.all.filter { $0.name.hasPrefix("TP/") }.count == 87)
  }
}

/// Files of the server's dialogues in the repository.
enum ServerDialogueFiles {
  static let all: [ATTDialogue] = ["discovery", "reads", "writes", "updates"].flatMap { name in
    let file = DialogueFiles.folder.appending(path: "Server/\(name).txt")
    do {
      return try ATTDialogueFile(parsing: String(contentsOf: file, encoding: .utf8)).dialogues
    } catch { fatalError("\(file.path): \(error)") }
  }
}
