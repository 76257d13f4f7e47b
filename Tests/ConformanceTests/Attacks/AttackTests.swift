import BLEEmulation
import Dialogues
import Foundation
import Testing

/// Published attacks against our host, played by its controller.
@Suite(.timeLimit(.minutes(5))) struct AttackTests {
  @Test(arguments: AttackFiles.all.map { NamedDialogue(dialogue: $0) })
  func holds(_ named: NamedDialogue) async throws {
    let (expected, found) = try await AttackRun.play(named.dialogue)
    #expect(found == expected)
  }
}

/// Files of attacks in the repository.
enum AttackFiles {
  static let folder = DialogueFiles.folder.deletingLastPathComponent().appending(path: "Attacks/Dialogues")

  static let all: [ATTDialogue] = {
    let files =
      (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
    return files.filter { $0.pathExtension == "txt" }.sorted { $0.path < $1.path }.flatMap { file in
      do { return try ATTDialogueFile(parsing: String(contentsOf: file, encoding: .utf8)).dialogues } catch {
        fatalError("\(file.path): \(error)")
      }
    }
  }()
}
