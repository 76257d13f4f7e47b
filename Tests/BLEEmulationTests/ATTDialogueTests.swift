import BLEEmulation
import BLEWire
import Dialogues
import TestKit
import Testing

@Suite struct ATTDialogueFileTests {
  private func line(of text: String) -> Int? {
    do throws(ATTDialogueError) {
      _ = try ATTDialogueFile(parsing: text)
      return nil
    } catch { return error.line }
  }

  @Test func readsAFile() throws {
    let file = try ATTDialogueFile(
      parsing: """
        # two services
        database two
          0x0001-0x0002 2800 0118
          0x0002 0000b009-0000-0000-0123-456789abcdef
        dialogue first
          test GATT/CL/GAR/BV-04-C
          title A value
          mtu 100
          with two
          action read 0x0003
          expect value ff*3
          > 0a 0300 | 0c 0300 0000
          < 0b ff*3 | 0dffffff
          >? 02....
          >~ 0A2000
        dialogue second
          > 18 01
        """)
    #expect(file.dialogues.map(\.name) == ["first", "second"])
    let first = file.dialogues[0]
    #expect(first.test == "GATT/CL/GAR/BV-04-C")
    #expect(first.title == "A value")
    #expect(first.mtu == 100)
    #expect(first.action == ["read", "0x0003"])
    #expect(first.expectation == ["value ff*3"])
    #expect(first.database.map(\.handle.rawValue) == [1, 2])
    #expect(first.database.map(\.range.end.rawValue) == [2, 2])
    #expect(first.database.map(\.value) == [[0x01, 0x18], []])
    #expect(
      first.steps.map { $0.choices.map(\.text) } == [
        ["0a0300", "0c03000000"], ["0bffffff", "0dffffff"], ["02...."], ["0a2000"],
      ])
    #expect(first.steps.map(\.side) == [.client, .server, .client, .client])
    #expect(first.steps.map(\.leniency) == [.required, .required, .optional, .deferrable])
    #expect(first.steps.map(\.line) == [12, 13, 14, 15])
    #expect(file.dialogues[1].mtu == 23)
    #expect(file.dialogues[1].database.isEmpty)
  }

  @Test(arguments: ["\n", "\r\n"])
  func takesEachKindOfLineEnd(_ end: String) throws {
    let file = try ATTDialogueFile(parsing: ["dialogue a", "> 0a0300", "", "< 0b"].joined(separator: end))
    #expect(file.dialogues[0].steps.map(\.line) == [2, 4])
  }

  @Test(arguments: [
    ("", 0), ("# nothing\n", 0), ("> 0a0300", 1), ("dialogue", 1), ("dialogue a b", 1),
    ("dialogue a\ndialogue a", 2), ("dialogue a\n> 0a030", 2), ("dialogue a\n> 0g", 2), ("dialogue a\n>", 2),
    ("dialogue a\n> 0a | ", 2), ("dialogue a\n< ..", 2), ("dialogue a\n> 0a\n< 0b | 0d", 3),
    ("dialogue a\nmtu 22", 2), ("dialogue a\nmtu 518", 2), ("dialogue a\nmtu x", 2),
    ("dialogue a\nwith b", 2), ("dialogue a\nsay 0a", 2), ("dialogue a\n> ff*0", 2),
    ("dialogue a\n> ff*999", 2),
    ("dialogue a\n> *3", 2), ("dialogue a\n> ff*400 ff*400", 2), ("database", 1),
    ("database a\ndatabase a", 2),
    ("database a\n0x0001", 2), ("database a\n0x0000 2800 0118", 2), ("database a\n1 2800 0118", 2),
    ("database a\n0x0002-0x0001 2800 0118", 2), ("database a\n0x0001 28 0118", 2),
    ("database a\n0x0001 2800 ..", 2), ("database a\n0x0002 2800\n0x0002 2800", 3),
    ("dialogue a\nusual", 2), ("dialogue a\n>* 02 | 03", 2), ("dialogue a\n>* 02\n> 02\nusual", 4),
    ("dialogue a\n> +a", 2), ("dialogue a\n> é", 2),
  ])
  func namesTheLineOfAFault(_ text: String, _ expected: Int) {
    #expect(line(of: text) == expected)
  }
}

@Suite struct DialoguePlayerTests {
  private func player(_ text: String) throws -> DialoguePlayer {
    DialoguePlayer(try ATTDialogueFile(parsing: "dialogue a\n" + text).dialogues[0])
  }

  private func send(_ pdu: String, to player: inout DialoguePlayer) -> [String] {
    let pdu = octetsOf(pdu)
    return player.receive(pdu.span).map { hexOf($0.octets) }
  }

  /// Found by fuzzing dialogues: a quoted word was written to the terminal unescaped.
  @Test func quotesNoControlCharacter() {
    let error = #expect(throws: ATTDialogueError.self) {
      try ATTDialogueFile(parsing: "dialogue a\n> 0a\u{1B}[2J\n")
    }
    #expect(error?.reason.contains("0a\u{FFFD}[2J") == true)
  }

  @Test func answersStepByStep() throws {
    var player = try player("< 1b030001\n> 0a0300\n< 0b01\n< 1b030002\n> 0a0400\n< 010a040002")
    #expect(player.begin().map { hexOf($0.octets) } == ["1b030001"])
    #expect(!player.isComplete)
    #expect(send("0a0300", to: &player) == ["0b01", "1b030002"])
    #expect(send("0a0400", to: &player) == ["010a040002"])
    #expect(player.isComplete)
    player.end()
    #expect(player.mismatch == nil)
  }

  @Test func answersTheChoiceThatWasMade() throws {
    var player = try player("> 0a0300 | 0c03000000\n< 0b01 | 0d01\n> 0a0400 | 0a0500\n< 0b02")
    #expect(send("0c03000000", to: &player) == ["0d01"])
    #expect(send("0a0500", to: &player) == ["0b02"])
    #expect(player.isComplete)
  }

  @Test func findsTheFirstDifference() throws {
    var player = try player("> 0a0300\n< 0b01\n> 0a0400 | 0a05..\n< 0b02")
    #expect(send("0a0300", to: &player) == ["0b01"])
    #expect(send("0a0600", to: &player) == ["010a00000e"], "so that the client does not wait")
    #expect(send("520300", to: &player) == [])
    player.end()
    #expect(
      player.mismatch == DialoguePlayer.Mismatch(line: 4, expected: ["0a0400", "0a05.."], found: "0a0600"))
    #expect(!player.isComplete)
  }

  @Test func refusesWhatComesAfterTheEnd() throws {
    var player = try player("> 520300\n")
    #expect(send("520300", to: &player) == [])
    #expect(player.isComplete)
    _ = send("520300", to: &player)
    #expect(player.mismatch == DialoguePlayer.Mismatch(line: nil, expected: [], found: "520300"))
  }

  @Test func missesWhatDidNotCome() throws {
    var player = try player("> 0a0300\n< 0b01\n> 0a0400")
    _ = send("0a0300", to: &player)
    player.end()
    #expect(player.mismatch == DialoguePlayer.Mismatch(line: 4, expected: ["0a0400"], found: nil))
  }

  @Test func letsOptionalStepsOut() throws {
    let text = "> 160300000001\n< 0116030003\n>? 1800\n< 19"
    var without = try player(text)
    _ = send("160300000001", to: &without)
    without.end()
    #expect(without.mismatch == nil)
    var with = try player(text)
    _ = send("160300000001", to: &with)
    #expect(send("1800", to: &with) == ["19"])
    with.end()
    #expect(with.mismatch == nil)
  }

  @Test(arguments: [
    ["0a0100", "0a0200", "0a0300"], ["0a0300", "0a0200", "0a0100"], ["0a0200", "0a0300", "0a0100"],
  ])
  func takesDeferrableStepsInAnyOrder(_ order: [String]) throws {
    var player = try player(">~ 0a0100\n< 0b01\n>~ 0a0200\n< 0b02\n> 0a0300\n< 0b03")
    for pdu in order {
      #expect(!player.isComplete)
      #expect(send(pdu, to: &player) == ["0b0" + String(pdu.dropFirst(3).prefix(1))])
    }
    #expect(player.isComplete)
  }

  @Test func waitsForADeferredStep() throws {
    var player = try player(">~ 0a0100\n< 0b01\n> 0a0300\n< 0b03")
    _ = send("0a0300", to: &player)
    #expect(!player.isComplete)
    player.end()
    #expect(player.mismatch == DialoguePlayer.Mismatch(line: 2, expected: ["0a0100"], found: nil))
  }

  /// Rules respond each time, in addition to the steps: late, instead of the usual response, or before the
  /// link ends.
  @Test func followsRules() throws {
    let file = try ATTDialogueFile(
      parsing: """
        database one
          0x0001-0x0003 2800 0d18
          0x0002 2803 02 0300 382a
          0x0003 2a38 01
        dialogue a
          with one values
          >* 06
          usual
          <+ 13
          >* 0a0300
          < 01 0a 0300 0e
          > 0a 0300
          < 0b 02
          leave
          > 0a 0300
          < 0b 03
        """)
    var player = DialoguePlayer(file.dialogues[0])
    let search = "06010003000028" + "0d18"
    #expect(send(search, to: &player) == ["0701000300"])
    #expect(send("0a0300", to: &player) == ["13", "0b02", ""])
    #expect(player.begin().isEmpty)
    #expect(send(search, to: &player) == ["0701000300"])
    #expect(send("0a0300", to: &player) == ["13", "0b03"])
    #expect(send("0a0300", to: &player) == ["010a03000e"])
    #expect(player.mismatch == nil && player.isComplete)
  }

  /// An MTU exchange is optional; PDUs that are longer than the agreed MTU are truncated.
  @Test func agreesOnAnMTU() throws {
    let text = "mtu 100\n> 0a0300\n< 0b aa*40"
    var small = try player(text)
    #expect(send("0a0300", to: &small) == ["0b" + String(repeating: "aa", count: 22)])
    var large = try player(text)
    #expect(send("020502", to: &large) == ["036400"])
    #expect(large.mtu == 100)
    #expect(send("0a0300", to: &large) == ["0b" + String(repeating: "aa", count: 40)])
    var scripted = try player("mtu 100\n> 02....\n< 036400")
    #expect(send("021e00", to: &scripted) == ["036400"])
    #expect(scripted.mtu == 30)
    #expect(scripted.isComplete)
  }

  /// Discovery requests are answered from the database, one entry at a time; reads of values are not.
  @Test func answersDiscovery() throws {
    let file = try ATTDialogueFile(
      parsing: """
        database a
          0x0001-0x0008 2800 0118
          0x0002 2803 02 0300 002a
          0x0003 2a00 41
          0x0004 0000b009-0000-0000-0123-456789abcdef
        dialogue a
          with a
          > 0a0300
        """)
    var player = DialoguePlayer(file.dialogues[0])
    let dialogue: [(String, String)] = [
      ("100100ffff0028", "1106010008000118"), ("100900ffff0028", "011009000a"),
      ("0601000800002801 18", "0701000800"),
      ("06010008000028 0018", "010601000a"), ("08010008000328", "090702000203 00002a".filter { $0 != " " }),
      ("0403000800", "05010300002a"), ("0404000800", "05020400efcdab89674523010000000009b00000"),
      ("0405000800", "010405000a"), ("0400000800", "0104000001"), ("0408000700", "0104080001"),
      ("0a0200", "0b020300002a"),
    ]
    for (request, answer) in dialogue { #expect(send(request, to: &player) == [answer], "\(request)") }
    #expect(player.mismatch == nil)
    #expect(!player.isComplete)
    _ = send("0a0300", to: &player)
    #expect(player.isComplete)
  }
}
