import BLEEmulation
import BLEWire

/// A text with dialogues and the databases that they share.
///
/// ```
/// # A comment: a line that starts with a number sign.
/// database two-services
///   0x0001-0x0004 2800 0118          handles, type, value as on air
///   0x0002 2803 02 0300 002a
/// dialogue read                      the name; the following lines belong to it
///   test GATT/CL/GAR/BV-01-C         the SIG's test ID
///   title Read a characteristic value
///   mtu 512                          the server's receive MTU (default: 23)
///   with two-services                the database that answers discovery
///   action read 0x0003               for the driver of the client
///   expect value 010203
///   > 0a0300                         the client's next PDU
///   < 0b 010203                      the response
/// ```
///
/// PDUs are hexadecimal, opcode first, with optional spaces. In the client's PDUs `..` is any byte, `ff*20`
/// is twenty bytes ff, and `|` separates alternatives: the server responds with the alternative at the same
/// position. `>?` is a PDU that may be missing together with everything after it; `>~` is a PDU that may come
/// later. A server's PDU that does not follow a PDU of the client is sent unsolicited.
///
/// An attack is a dialogue with a role and with steps below ATT. `>` marks a step of the host under test,
/// whatever its role; `<` marks a step of its controller and the peers behind it.
///
/// ```
/// dialogue fragments/cut
///   test CVE-2019-17517                its ID in CONFORMANCE.md
///   source SweynTooth, USENIX ATC 2020
///   fault writes behind its buffer     the behaviour of a vulnerable host
///   duty drops the frame, counts it
///   role peripheral                    role of the host: central or peripheral
///   once 040e0701 0220 | 040e07010220 00 1b00 01    replaces a packet with this beginning; `|` alone drops
///   it
///   instead 040f | & | &               each time; `..` is the original's byte, `&` the rest of it
///   < l2cap 0006 0b01                  a frame on this channel
///   < acl 2040 0700 0400 0a            an ACL packet: flags and handle, then its data; the length is added
///   < event 05 00 4000 13              an event: code, parameters; the length is added
///   < octets 04 0e ff                  any bytes, H4 type first
///   on 0041                            the link of the following steps; the first is 0040
///   > l2cap 0005 01..                  a frame from the host
///   > command 0406 4000..              a command from the host, which is executed; parameters are optional
///   after 043e 13 01                   waits until the controller has sent a packet with this beginning
///   leave                              the peer disconnects; the following steps are for the next link
/// ```
///
/// Steps begin when all links that they name are up, or with the first command or packet that they wait for.
///
/// To play a device that violates the specification, use a rule. Its responses are sent each time, unless a
/// step expects the request:
///
/// ```
///   >* 06                              applies to each PDU that begins like this
///   usual                              the normal response; without this line, none is sent
///   < 01 08 0100 0a                    an additional response
///   <+ 13                              a late response: sent just before the response to the next PDU
///   leave                              ends the link
/// ```
///
/// With `with DATABASE values`, the database also answers reads of values.
package struct ATTDialogueFile: Hashable, Sendable {
  /// Maximum number of dialogues in a file.
  package static let dialogueLimit = 1000
  /// Maximum number of steps in a dialogue.
  package static let stepLimit = 10_000
  /// Maximum number of rules in a dialogue.
  package static let ruleLimit = 100

  package private(set) var dialogues: [ATTDialogue] = []

  private var databases: [String: [ATTDialogue.Attribute]] = [:]
  private var openDatabase: String?
  /// The link of the following steps.
  private var link = ATTDialogue.firstLink
  private var isRuleOpen = false

  /// Parses a text.
  ///
  /// - Throws: an error with the line that cannot be parsed.
  package init(parsing text: some StringProtocol) throws(ATTDialogueError) {
    var number = 0
    // Some editors end a line with CR and LF, which together are one `Character`.
    for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
      number += 1
      let words = line.split(whereSeparator: \.isWhitespace).map { String($0) }
      guard let word = words.first, !word.hasPrefix("#") else { continue }
      let rest = Array(words.dropFirst())
      do throws(Fault) {
        switch word {
        case "database": try beginDatabase(rest)
        case "dialogue": try beginDialogue(rest)
        default:
          if openDatabase != nil { try addAttribute(words) } else { try extend(word, rest, number) }
        }
      } catch { throw ATTDialogueError(line: number, error.reason) }
    }
    if dialogues.isEmpty { throw ATTDialogueError(line: 0, "there is no dialogue in it") }
  }

  private typealias Fault = AttributeText.Fault

  // MARK: Databases

  private mutating func beginDatabase(_ words: [String]) throws(Fault) {
    guard words.count == 1 else { throw Fault("a database has one word for a name") }
    guard databases[words[0]] == nil else { throw Fault("there is a database \(words[0]) already") }
    databases[words[0]] = []
    openDatabase = words[0]
  }

  private mutating func addAttribute(_ words: [String]) throws(Fault) {
    guard let name = openDatabase, var attributes = databases[name] else { return }
    try AttributeText.add(words, to: &attributes)
    databases[name] = attributes
  }

  // MARK: Dialogues

  private mutating func beginDialogue(_ words: [String]) throws(Fault) {
    guard words.count == 1 else { throw Fault("a dialogue has one word for a name") }
    guard !dialogues.contains(where: { $0.name == words[0] }) else {
      throw Fault("there is a dialogue \(words[0]) already")
    }
    guard dialogues.count < Self.dialogueLimit else {
      throw Fault("more than \(Self.dialogueLimit) dialogues")
    }
    openDatabase = nil
    link = ATTDialogue.firstLink
    isRuleOpen = false
    dialogues.append(ATTDialogue(words[0]))
  }

  private mutating func extend(_ word: String, _ rest: [String], _ line: Int) throws(Fault) {
    guard !dialogues.isEmpty else {
      throw Fault("'\(word)' belongs to no dialogue; a dialogue starts with `dialogue NAME`")
    }
    let last = dialogues.count - 1
    let text = rest.joined(separator: " ")
    switch word {
    case "test": dialogues[last].test = text
    case "title": dialogues[last].title = text
    case "action": dialogues[last].action = rest
    case "expect": dialogues[last].expectation.append(text)
    case "source": dialogues[last].source = text
    case "fault": dialogues[last].fault = text
    case "duty": dialogues[last].duty = text
    case "role":
      guard let role = ATTDialogue.Role(rawValue: text) else {
        throw Fault("a role is central or peripheral")
      }
      dialogues[last].role = role
    case "mtu":
      guard rest.count == 1, let mtu = Int(rest[0]), (ATT.defaultMTU...ATT.maximumMTU).contains(mtu) else {
        throw Fault("an MTU is a number from \(ATT.defaultMTU) to \(ATT.maximumMTU)")
      }
      dialogues[last].mtu = mtu
    case "with":
      guard let name = rest.first, let database = databases[name], rest.count == 1 || rest[1...] == ["values"]
      else { throw Fault("there is no database '\(text)' before this line") }
      dialogues[last].database = database
      dialogues[last].readsValues = rest.count == 2
    case ">": try addStep(.client, .required, rest, line)
    case ">?": try addStep(.client, .optional, rest, line)
    case ">~": try addStep(.client, .deferrable, rest, line)
    case ">*": try addStep(.client, .always, rest, line)
    case "<": try addStep(.server, .required, rest, line)
    case "<+": try addStep(.server, .deferrable, rest, line)
    case "leave": try append(.server, .leave, [], .required, line)
    case "usual":
      guard isRuleOpen else { throw Fault("`usual` belongs to a rule, such as `>* 02`") }
      try append(.server, .usual, [], .required, line)
    case "on", "after", "once", "instead": try extendAttack(word, rest, line)
    default:
      throw Fault(
        "'\(word)' is not one of database, dialogue, test, title, action, expect, source, fault, duty, role, "
          + "mtu, with, once, instead, on, after, leave, usual, >, >?, >~, >*, < and <+")
    }
  }

  private mutating func extendAttack(_ word: String, _ rest: [String], _ line: Int) throws(Fault) {
    let last = dialogues.count - 1
    guard dialogues[last].role != nil else { throw Fault("'\(word)' needs a `role` before it") }
    switch word {
    case "on":
      guard rest.count == 1, let number = Self.number(rest[0]),
        (ATTDialogue.firstLink..<ATTDialogue.firstLink + 64).contains(number)
      else { throw Fault("a link is a number from 0040 to 007f") }
      link = number
    case "after": try append(.client, .sent, [try Self.pattern(rest, isEmptyAllowed: false)], .required, line)
    default:
      var parts = rest.split(separator: "|", omittingEmptySubsequences: false).map { Array($0) }
      guard parts.count > 1 else { throw Fault("its replacement follows a `|`") }
      let original = try Self.pattern(parts.removeFirst(), isEmptyAllowed: false)
      var packets: [ATTDialogue.Replacement.Packet] = []
      for part in parts where !part.isEmpty {
        let copiesRest = part.last == "&"
        packets.append(
          .init(
            start: try Self.pattern(copiesRest ? part.dropLast() : part[...], isEmptyAllowed: copiesRest),
            copiesRest: copiesRest))
      }
      dialogues[last].replacements.append(
        .init(original: original, packets: packets, isOnce: word == "once"))
    }
  }

  private static func number(_ word: String) -> UInt16? {
    word.utf8.count == 4 ? UInt16(word, radix: 16) : nil
  }

  /// Adds a step. The first word names the layer, except for ATT.
  private mutating func addStep(
    _ side: ATTDialogue.Side, _ leniency: ATTDialogue.Leniency, _ words: [String], _ line: Int
  ) throws(Fault) {
    let layers = side == .server ? ["l2cap", "acl", "event", "octets"] : ["l2cap", "command"]
    guard let layer = words.first, layers.contains(layer) else {
      return try add(side, leniency, words, line)
    }
    guard dialogues[dialogues.count - 1].role != nil else {
      throw Fault("'\(layer)' needs a `role` before it")
    }
    if layer == "octets" {
      return try append(side, .packet, [try Self.pattern(words[1...], isEmptyAllowed: false)], leniency, line)
    }
    let octets = try Self.pattern(words.dropFirst(2), isEmptyAllowed: true).octets
    let word = words.count > 1 ? words[1] : ""
    if layer == "event" {
      guard word.utf8.count == 2, let code = UInt8(word, radix: 16), octets.count <= 255 else {
        throw Fault("an event has a code of two digits, and at most 255 octets")
      }
      return try append(side, .packet, [.init([0x04, code, UInt8(octets.count)] + octets)], leniency, line)
    }
    guard let number = Self.number(word) else {
      throw Fault("'\(layer)' is followed by four hexadecimal digits")
    }
    let (low, high) = (UInt8(truncatingIfNeeded: number), UInt8(number >> 8))
    let size = UInt16(truncatingIfNeeded: octets.count)
    switch layer {
    case "l2cap": try append(side, .channel(number), [.init(octets)], leniency, line)
    case "acl":
      let header: [UInt8?] = [0x02, low, high, UInt8(truncatingIfNeeded: size), UInt8(size >> 8)]
      try append(side, .packet, [.init(header + octets)], leniency, line)
    default:
      let length: [UInt8?] = octets.isEmpty ? [] : [UInt8(truncatingIfNeeded: size)]
      try append(side, .packet, [.init([0x01, low, high] + length + octets)], leniency, line)
    }
  }

  private mutating func add(
    _ side: ATTDialogue.Side, _ leniency: ATTDialogue.Leniency, _ words: [String], _ number: Int
  ) throws(Fault) {
    let last = dialogues.count - 1
    var choices: [ATTDialogue.Pattern] = []
    let line = words.joined(separator: " ")
    for choice in line.split(separator: "|", omittingEmptySubsequences: false) {
      let pattern = try Self.pattern(choice.split(separator: " "), isEmptyAllowed: false)
      guard pattern.octets.count <= ATT.maximumMTU + 1 else {
        throw Fault("a PDU has at most \(ATT.maximumMTU) octets")
      }
      choices.append(pattern)
    }
    if side == .server, choices.count > 1 {
      guard !isRuleOpen else { throw Fault("a rule has no choices") }
      let question = dialogues[last].steps.last { $0.side == .client }
      guard question?.choices.count == choices.count else {
        throw Fault("\(choices.count) answers to another number of questions")
      }
    }
    try append(side, .attribute, choices, leniency, number)
  }

  private mutating func append(
    _ side: ATTDialogue.Side, _ layer: ATTDialogue.Layer, _ choices: [ATTDialogue.Pattern],
    _ leniency: ATTDialogue.Leniency, _ line: Int
  ) throws(Fault) {
    let last = dialogues.count - 1
    let answers = dialogues[last].rules.reduce(0) { $0 + $1.answers.count }
    guard dialogues[last].steps.count + answers < Self.stepLimit else {
      throw Fault("more than \(Self.stepLimit) steps")
    }
    if side == .server, choices.contains(where: { $0.octets.contains(nil) }) {
      throw Fault("a server's PDU has no open octets")
    }
    var step = ATTDialogue.Step(side, choices, leniency, line: line)
    step.layer = layer
    step.link = link
    if side == .client { isRuleOpen = leniency == .always }
    switch (isRuleOpen, side) {
    case (false, _): dialogues[last].steps.append(step)
    case (true, .server): dialogues[last].rules[dialogues[last].rules.count - 1].answers.append(step)
    case (true, .client):
      guard choices.count == 1 else { throw Fault("a rule has no choices") }
      guard dialogues[last].rules.count < Self.ruleLimit else {
        throw Fault("more than \(Self.ruleLimit) rules")
      }
      dialogues[last].rules.append(ATTDialogue.Rule(step))
    }
  }

  /// Parses words such as `1b0300`, `02....` and `0bff*20`.
  private static func pattern(
    _ words: some Sequence<some StringProtocol>, isEmptyAllowed: Bool
  ) throws(Fault) -> ATTDialogue.Pattern {
    let octets = try AttributeText.octets(words)
    guard isEmptyAllowed || !octets.isEmpty else { throw Fault("a PDU has at least its opcode") }
    return ATTDialogue.Pattern(octets)
  }
}
