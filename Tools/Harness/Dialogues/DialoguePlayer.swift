import BLEStack
import BLEWire

/// Plays the server of a dialogue, and detects the client's first PDU that differs. No I/O.
///
/// Discovery and the MTU exchange are answered outside of the steps: they may occur or not, in any order.
package struct DialoguePlayer: Sendable {
  /// The client's first difference from the dialogue.
  package struct Mismatch: Hashable, Sendable {
    /// The line in the file, from 1; `nil` after the last step.
    package var line: Int?
    /// The PDUs that the client could have sent, in hexadecimal, with `..` for any byte; empty after the last
    /// step.
    package var expected: [String]
    /// The PDU that it sent; `nil` if it ended the link.
    package var found: String?

    package init(line: Int?, expected: [String], found: String?) {
      self.line = line
      self.expected = expected
      self.found = found
    }
  }

  /// A PDU or packet of the server's side.
  package struct Said: Hashable, Sendable {
    package let layer: ATTDialogue.Layer
    package let link: UInt16
    package let octets: [UInt8]

    init(_ octets: [UInt8], _ layer: ATTDialogue.Layer = .attribute, on link: UInt16) {
      self.octets = octets
      self.layer = layer
      self.link = link
    }
  }

  /// A deferred step of the client and the server's responses to it.
  private struct Deferred: Sendable {
    let step: ATTDialogue.Step
    let answers: [ATTDialogue.Step]
  }

  package let dialogue: ATTDialogue
  /// The current ATT_MTU.
  package private(set) var mtu = ATT.defaultMTU
  package private(set) var mismatch: Mismatch?
  private var steps: ArraySlice<ATTDialogue.Step>
  private var deferred: [Deferred] = []
  private let database: DialogueDatabase
  /// PDUs to send when the client's next PDU arrives.
  private var late: [Said] = []
  /// Whether the server has ended the link and the dialogue continues on the next one.
  private(set) var isAway = false

  package init(_ dialogue: ATTDialogue) {
    self.dialogue = dialogue
    steps = dialogue.steps[...]
    database = DialogueDatabase(attributes: dialogue.database, readsValues: dialogue.readsValues)
  }

  /// Whether the client has performed all required steps.
  package var isComplete: Bool {
    mismatch == nil && deferred.isEmpty
      && steps.first { $0.side == .client && $0.leniency == .required } == nil
      && !steps.contains { $0.side == .client && $0.leniency == .deferrable }
  }

  /// Starts the dialogue, or continues it when the links are up again after the server has ended them.
  ///
  /// - Returns: the PDUs that the server sends first.
  package mutating func begin() -> [Said] {
    (mtu, late, isAway) = (ATT.defaultMTU, [], false)
    return takeAnswers(choice: 0)
  }

  /// Processes a PDU of the client, or a frame or command of the host.
  ///
  /// Ignores a packet that no step expects.
  ///
  /// - Parameters:
  ///   - pdu: the bytes at this layer.
  ///   - layer: ATT, L2CAP or HCI.
  ///   - link: the connection handle.
  /// - Returns: the server's response.
  package mutating func receive(
    _ pdu: Span<UInt8>, _ layer: ATTDialogue.Layer = .attribute, on link: UInt16 = ATTDialogue.firstLink
  ) -> [Said] {
    let isAttribute = layer == .attribute
    let before = isAttribute ? late : []
    if isAttribute { late = [] }
    return before + answers(to: pdu, layer, on: link)
  }

  private mutating func answers(
    to pdu: Span<UInt8>, _ layer: ATTDialogue.Layer, on link: UInt16
  ) -> [Said] {
    let isAttribute = layer == .attribute
    guard pdu.count > 0 || !isAttribute, mismatch == nil else {
      return isAttribute ? refusal(of: pdu).map { Said($0, on: link) } : []
    }
    if let index = deferred.firstIndex(where: { $0.step.choice(for: pdu, layer, link) != nil }) {
      return say(deferred.remove(at: index).answers, choice: 0)
    }
    if let answers = takeStep(pdu, layer, link) {
      if isAttribute { _ = agree(on: pdu) }
      return answers
    }
    let usual = isAttribute ? usual(to: pdu).map { Said($0, on: link) } : nil
    if let rule = dialogue.rules.first(where: { $0.matches(pdu, layer, link) }) {
      return say(rule.answers, choice: 0, usual: usual)
    }
    if let usual { return [usual] }
    switch layer {
    case .packet, .sent, .leave, .usual: return []
    case .attribute, .channel: break
    }
    let next = steps.first
    mismatch = Mismatch(
      line: next?.line, expected: next?.choices.map(\.text) ?? [], found: ATTDialogue.Pattern(pdu).text)
    return isAttribute ? refusal(of: pdu).map { Said($0, on: link) } : []
  }

  /// Reports that the link has ended.
  package mutating func end() {
    guard mismatch == nil, !isComplete else { return }
    let next = deferred.first?.step ?? steps.first { $0.side == .client }
    mismatch = Mismatch(line: next?.line, expected: next?.choices.map(\.text) ?? [], found: nil)
  }

  // MARK: Steps

  /// Matches a PDU with the client's next step.
  ///
  /// - Returns: The server's response; `nil` if the PDU does not match.
  private mutating func takeStep(
    _ pdu: Span<UInt8>, _ layer: ATTDialogue.Layer, _ link: UInt16
  ) -> [Said]? {
    var ahead = steps
    var putOff: [Deferred] = []
    while let step = ahead.popFirst() {
      if let choice = step.choice(for: pdu, layer, link) {
        steps = ahead
        deferred += putOff
        return takeAnswers(choice: choice)
      }
      guard step.leniency == .deferrable else { return nil }
      var answers: [ATTDialogue.Step] = []
      while let answer = ahead.first, answer.side == .server {
        answers.append(answer)
        ahead.removeFirst()
      }
      putOff.append(Deferred(step: step, answers: answers))
    }
    return nil
  }

  private mutating func takeAnswers(choice: Int) -> [Said] {
    var answers: [ATTDialogue.Step] = []
    while let step = steps.first, step.side == .server {
      answers.append(step)
      steps.removeFirst()
      if step.layer == .leave { break }
    }
    return say(answers, choice: choice)
  }

  /// Returns the PDUs of the server's steps.
  ///
  /// - Parameter usual: the response that the server would send without the rule that contains `steps`.
  private mutating func say(
    _ steps: [ATTDialogue.Step], choice: Int, usual: Said? = nil
  ) -> [Said] {
    var now: [Said] = []
    for step in steps {
      if step.layer == .usual {
        if let usual { now.append(usual) }
      } else if step.leniency == .deferrable {
        late.append(encoded(step, choice: choice))
      } else {
        now.append(encoded(step, choice: choice))
      }
      if step.layer == .leave { isAway = true }
    }
    return now
  }

  /// Returns the response to a PDU that needs no step; `nil` if there is no such response.
  private mutating func usual(to pdu: Span<UInt8>) -> [UInt8]? {
    agree(on: pdu) ?? database.answer(pdu).map { Array($0.prefix(mtu)) }
  }

  /// Truncates an ATT PDU to ATT_MTU, except in an attack.
  private func encoded(_ step: ATTDialogue.Step, choice: Int) -> Said {
    let octets = step.layer == .leave ? [] : step.choices[step.choices.count > 1 ? choice : 0].octets
    let limit = step.layer == .attribute && dialogue.role == nil ? mtu : octets.count
    return Said(octets.prefix(limit).map { $0 ?? 0 }, step.layer, on: step.link)
  }

  /// Answers an MTU exchange, whether it is in the steps or not. Core 5.4, Vol 3, Part F, 3.4.2.
  private mutating func agree(on pdu: Span<UInt8>) -> [UInt8]? {
    guard pdu[0] == ATTOpcode.exchangeMTURequest.rawValue, pdu.count == ExchangeMTU.byteCount else {
      return nil
    }
    mtu = max(ATT.defaultMTU, min(Int(pdu.u16(at: 1)), dialogue.mtu))
    return [UInt8](encoding: ExchangeMTU.byteCount) {
      ExchangeMTU(response: UInt16(dialogue.mtu)).encode(into: &$0)
    }
  }

  /// Refuses a request after a mismatch, so that the client need not wait for its timeout of 30 s.
  private func refusal(of pdu: Span<UInt8>) -> [[UInt8]] {
    guard pdu.count > 0 else { return [] }
    let opcode = ATTOpcode(rawValue: pdu[0])
    guard opcode.kind == .request else { return [] }
    return [
      [UInt8](encoding: ErrorResponse.byteCount) {
        ErrorResponse(request: opcode, handle: .none, code: .unlikelyError).encode(into: &$0)
      }
    ]
  }
}

extension ATTDialogue.Step {
  /// Index of the client's alternative that matches a PDU.
  fileprivate func choice(for pdu: Span<UInt8>, _ layer: ATTDialogue.Layer, _ link: UInt16) -> Int? {
    guard side == .client, layer == self.layer else { return nil }
    if layer == .packet || layer == .sent { return choices[0].begins(pdu) ? 0 : nil }
    guard link == self.link else { return nil }
    for index in choices.indices where choices[index].matches(pdu) { return index }
    return nil
  }
}

extension ATTDialogue.Pattern {
  fileprivate init(_ pdu: Span<UInt8>) { octets = pdu.indices.map { pdu[$0] } }

  /// The pattern in hexadecimal, with `..` for any byte.
  package var text: String { octets.map { $0.map { hexadecimal($0) } ?? ".." }.joined() }
}

extension DialoguePlayer.Mismatch: CustomStringConvertible {
  package var description: String {
    let place = line.map { "line \($0): " } ?? ""
    let wanted =
      expected.isEmpty ? "the dialogue has ended" : "the dialogue has \(expected.joined(separator: " or "))"
    guard let found else { return "\(place)the client ended the link; \(wanted)" }
    return "\(place)the client sent \(found); \(wanted)"
  }
}
