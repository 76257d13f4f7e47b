import BLECore
import BLEWire

/// A text with dialogues, and the databases that they share.
///
/// ```
/// # Anything behind a number sign at the start of a line.
/// database two-services
///   0x0001-0x0004 2800 0118          handles, type, value as it lies on air
///   0x0002 2803 02 0300 002a
/// dialogue read                      the name; what follows belongs to it
///   test GATT/CL/GAR/BV-01-C         the SIG's id
///   title Read a characteristic value
///   mtu 512                          our receive MTU; 23 if not given
///   with two-services                the database that answers discovery
///   action read 0x0003               for whoever drives the client
///   expect value 010203
///   > 0a0300                         the client's next PDU
///   < 0b 010203                      what it gets
/// ```
///
/// PDUs are hexadecimal, opcode first, with spaces where they help. `..` in one of the client's is any octet, `ff*20`
/// is twenty of them, `|` stands between alternatives: the server answers with the one in the same place. `>?` is a PDU
/// that may be missing with all behind it, `>~` one that may come later. A server's PDU that follows no PDU of the
/// client's is sent by itself.
public struct ATTDialogueFile: Hashable, Sendable {
  /// Dialogues of one file.
  public static let dialogueLimit = 1000
  /// Steps of one dialogue, and attributes of one database.
  public static let stepLimit = 10_000

  public private(set) var dialogues: [ATTDialogue] = []

  private var databases: [String: [ATTDialogue.Attribute]] = [:]
  private var openDatabase: String?

  /// - Throws: with the line that cannot be read.
  public init(parsing text: some StringProtocol) throws(ATTDialogueError) {
    var number = 0
    // A line of another system's editor ends with both CR and LF, which are one character.
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

  /// A reason without its line.
  struct Fault: Error {
    let reason: String
    init(_ reason: String) { self.reason = reason }
  }

  // MARK: Databases

  private mutating func beginDatabase(_ words: [String]) throws(Fault) {
    guard words.count == 1 else { throw Fault("a database has one word for a name") }
    guard databases[words[0]] == nil else { throw Fault("there is a database \(words[0]) already") }
    databases[words[0]] = []
    openDatabase = words[0]
  }

  private mutating func addAttribute(_ words: [String]) throws(Fault) {
    guard let name = openDatabase, var attributes = databases[name] else { return }
    try Self.add(words, to: &attributes)
    databases[name] = attributes
  }

  /// Reads an attribute: handle or range, type, value.
  static func add(_ words: [String], to attributes: inout [ATTDialogue.Attribute]) throws(Fault) {
    guard words.count >= 2 else { throw Fault("an attribute has a handle, a type and a value") }
    let ends = words[0].split(separator: "-", omittingEmptySubsequences: false).map { Self.handle($0) }
    guard (1...2).contains(ends.count), let start = ends[0], let end = ends[ends.count - 1], start <= end
    else { throw Fault("'\(words[0])' is neither a handle such as 0x0003 nor a range such as 0x0001-0x0004") }
    guard let type = BluetoothUUID(words[1]) else { throw Fault("'\(words[1])' is not a UUID") }
    if let last = attributes.last, last.handle >= start { throw Fault("handles must rise") }
    guard attributes.count < Self.stepLimit else { throw Fault("more than \(Self.stepLimit) attributes") }
    let value = try Self.pattern(words[2...], isEmptyAllowed: true).octets
    guard !value.contains(nil) else { throw Fault("a value has no open octets") }
    attributes.append(
      ATTDialogue.Attribute(
        range: HandleRange(start: start, end: end), type: type, value: value.compactMap { $0 }))
  }

  static func handle(_ text: some StringProtocol) -> AttributeHandle? {
    guard text.lowercased().hasPrefix("0x"), let value = UInt16(text.dropFirst(2), radix: 16), value > 0
    else { return nil }
    return AttributeHandle(value)
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
    dialogues.append(ATTDialogue(words[0]))
  }

  private mutating func extend(_ word: String, _ rest: [String], _ line: Int) throws(Fault) {
    guard !dialogues.isEmpty else {
      throw Fault("'\(word)' belongs to no dialogue; a dialogue begins with `dialogue NAME`")
    }
    let last = dialogues.count - 1
    switch word {
    case "test": dialogues[last].test = rest.joined(separator: " ")
    case "title": dialogues[last].title = rest.joined(separator: " ")
    case "action": dialogues[last].action = rest
    case "expect": dialogues[last].expectation.append(rest.joined(separator: " "))
    case "mtu":
      guard rest.count == 1, let mtu = Int(rest[0]), (ATT.defaultMTU...ATT.maximumMTU).contains(mtu) else {
        throw Fault("an MTU is a number from \(ATT.defaultMTU) to \(ATT.maximumMTU)")
      }
      dialogues[last].mtu = mtu
    case "with":
      guard rest.count == 1, let database = databases[rest[0]] else {
        throw Fault("there is no database '\(rest.joined(separator: " "))' before this line")
      }
      dialogues[last].database = database
    case ">": try add(.client, .required, rest, line)
    case ">?": try add(.client, .optional, rest, line)
    case ">~": try add(.client, .deferrable, rest, line)
    case "<": try add(.server, .required, rest, line)
    default:
      throw Fault(
        "'\(word)' is none of database, dialogue, test, title, action, expect, mtu, with, >, >?, >~ and <")
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
      if side == .server, pattern.octets.contains(nil) { throw Fault("a server's PDU has no open octets") }
      guard pattern.octets.count <= ATT.maximumMTU + 1 else {
        throw Fault("a PDU has at most \(ATT.maximumMTU) octets")
      }
      choices.append(pattern)
    }
    if side == .server, choices.count > 1 {
      let question = dialogues[last].steps.last { $0.side == .client }
      guard question?.choices.count == choices.count else {
        throw Fault("\(choices.count) answers to another number of questions")
      }
    }
    guard dialogues[last].steps.count < Self.stepLimit else {
      throw Fault("more than \(Self.stepLimit) steps")
    }
    dialogues[last].steps.append(ATTDialogue.Step(side, choices, leniency, line: number))
  }

  /// Reads words such as `1b0300`, `02....` and `0bff*20`.
  private static func pattern(
    _ words: some Sequence<some StringProtocol>, isEmptyAllowed: Bool
  ) throws(Fault) -> ATTDialogue.Pattern {
    var octets: [UInt8?] = []
    for word in words {
      let fault = Fault("'\(word)' is not hexadecimal, such as 0a0300, 02.... or 0bff*20")
      let parts = word.split(separator: "*", omittingEmptySubsequences: false)
      guard parts.count <= 2, parts[0].utf8.count.isMultiple(of: 2), !parts[0].isEmpty else { throw fault }
      var rest = parts[0][...]
      while !rest.isEmpty {
        let digits = rest.prefix(2)
        rest = rest.dropFirst(2)
        if digits == ".." {
          octets.append(nil)
        } else if digits.allSatisfy(\.isHexDigit), let octet = UInt8(digits, radix: 16) {
          octets.append(octet)
        } else {
          throw fault
        }
      }
      guard parts.count == 2 else { continue }
      guard let count = Int(parts[1]), (1...ATT.maximumMTU).contains(count), let last = octets.last else {
        throw fault
      }
      octets += Array(repeating: last, count: count - 1)
    }
    guard isEmptyAllowed || !octets.isEmpty else { throw Fault("a PDU has at least its opcode") }
    return ATTDialogue.Pattern(octets)
  }
}
