import BLEEmulation
import Dialogues
import BLEHost
import BLELinux
import BLEStack
import TestPeer
import Testing

/// The client half of the SIG's GATT test suite: our client against a device that plays the tester.
@Suite(.timeLimit(.minutes(5))) struct DialogueTests {
  @Test(arguments: DialogueFiles.all.map { NamedDialogue(dialogue: $0) })
  func plays(_ named: NamedDialogue) async throws {
    let dialogue = named.dialogue
    let link = try await DialogueLink.open(dialogue)
    try await withTaskExecutorPreference(link.loop.preference) {
      let connection = try await link.connect()
      if dialogue.action.first != "exchange-mtu" { try await connection.exchangeMTU(517) }
      let run = DialogueRun(dialogue: dialogue, link: link, connection: connection)
      let result = try await run.result()
      #expect(result == run.expected)
      #expect(run.security.raises == (dialogue.action.last == "secured" ? 1 : 0))
      await connection.close()
      await link.ended.reaches(1)
    }
    let outcomes = link.session.outcomes
    #expect(outcomes.map(\.name) == [dialogue.name])
    #expect(outcomes.compactMap { $0.mismatch?.description } == [])
    await link.close()
  }

  /// All of BlueZ's dialogues in the reference are there.
  @Test func hasAll() {
    let taken = DialogueFiles.all.filter { $0.name.hasPrefix("TP/") }
    #expect(taken.count == 66)
    #expect(Set(taken.map(\.test)).count == 57)
  }
}
