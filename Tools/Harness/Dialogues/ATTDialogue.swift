package import BLEEmulation
import BLEWire

/// A scripted exchange between a client and a server on one ATT bearer, PDU by PDU.
///
/// It has the form of the SIG's GATT test suite: a tester plays the server, and checks the PDUs of the
/// client. An attack also has steps below ATT: the client's side is the host under test, central or
/// peripheral, and the server's side is its controller with the peers behind it. Only a controller can play
/// an attack: `VirtualController.play`.
package struct ATTDialogue: Hashable, Sendable {
  package enum Side: Hashable, Sendable { case client, server }

  /// How strictly a step of the client is checked.
  package enum Leniency: Hashable, Sendable {
    /// It must come next.
    case required
    /// The dialogue may end before the step.
    case optional
    /// A client's step that may come later, between others, together with the server's response. Or a
    /// server's step that is sent when the client's next PDU arrives, before the response to that PDU.
    case deferrable
    /// A rule: applies to each matching PDU that no step expects.
    case always
  }

  /// The layer of a step's bytes.
  package enum Layer: Hashable, Sendable {
    /// An ATT PDU, no longer than ATT_MTU.
    case attribute
    /// The payload of an L2CAP frame on this channel, of any length.
    case channel(UInt16)
    /// A packet with its H4 type byte. For packets from the host a pattern of the first bytes is enough.
    case packet
    /// The first bytes of a packet that the controller itself has sent to the host.
    case sent
    /// No bytes: the peer ends the link. The following steps belong to the next link.
    case leave
    /// No bytes: the server sends the response that it would send without the rule.
    case usual
  }

  /// The role of the host under test; in other dialogues it is the GATT client.
  package enum Role: String, Hashable, Sendable { case central, peripheral }

  /// Packets that replace one that the controller sends to the host.
  package struct Replacement: Hashable, Sendable {
    /// The first bytes of the original, H4 type first.
    package var original: Pattern
    /// Empty to drop the original. Wildcard bytes, and those that `copiesRest` appends, are copied from the
    /// original.
    package var packets: [Packet]
    package var isOnce: Bool

    package struct Packet: Hashable, Sendable {
      package var start: Pattern
      package var copiesRest: Bool
    }
  }

  /// A PDU that may have wildcard bytes.
  package struct Pattern: Hashable, Sendable {
    /// `nil` for any byte.
    package var octets: [UInt8?]

    package init(_ octets: [UInt8?]) { self.octets = octets }

    package func matches(_ pdu: Span<UInt8>) -> Bool {
      guard pdu.count == octets.count else { return false }
      for index in pdu.indices where octets[index].map({ $0 != pdu[index] }) ?? false { return false }
      return true
    }

    /// Whether a packet starts with this pattern.
    package func begins(_ packet: Span<UInt8>) -> Bool {
      packet.count >= octets.count && matches(packet.extracting(..<octets.count))
    }
  }

  package struct Step: Hashable, Sendable {
    package var side: Side
    package var layer = Layer.attribute
    /// The connection handle of its link.
    package var link = ATTDialogue.firstLink
    /// One or more alternatives. The server responds with the one at the same index as the client's.
    package var choices: [Pattern]
    package var leniency: Leniency
    /// The line in the file, from 1.
    package var line: Int

    package init(_ side: Side, _ choices: [Pattern], _ leniency: Leniency = .required, line: Int = 0) {
      self.side = side
      self.choices = choices
      self.leniency = leniency
      self.line = line
    }
  }

  /// Responses that the server sends each time a PDU has the given beginning, unless a step waits for it.
  package struct Rule: Hashable, Sendable {
    /// Its only choice is the beginning of the PDU.
    package var question: Step
    package var answers: [Step] = []

    package init(_ question: Step) { self.question = question }

    func matches(_ octets: Span<UInt8>, _ layer: Layer, _ link: UInt16) -> Bool {
      guard layer == question.layer, question.choices[0].begins(octets) else { return false }
      return layer == .packet || layer == .sent || link == question.link
    }
  }

  /// An attribute of a database that answers a client's discovery requests.
  package typealias Attribute = WrittenAttribute

  /// The first link of a `VirtualController`; further links have the following numbers.
  package static let firstLink: UInt16 = 0x0040

  package var name: String
  /// `nil` if all steps are ATT's, so that any device can play the server.
  package var role: Role?
  /// For an attack: its publisher, the behaviour of a vulnerable host, and the correct behaviour.
  package var source = ""
  package var fault = ""
  package var duty = ""
  package var replacements: [Replacement] = []
  /// The SIG's test ID, or an attack's ID in `CONFORMANCE.md`.
  package var test = ""
  package var title = ""
  /// Instructions for the driver of the client, and the expected result, as lines.
  package var action: [String] = []
  package var expectation: [String] = []
  /// The server's receive MTU, and the maximum length of a PDU that it sends.
  package var mtu = ATT.defaultMTU
  /// Sorted by handle; empty if all of the client's requests must be in the steps.
  package var database: [Attribute] = []
  /// Whether the database answers reads of values, in addition to discovery.
  package var readsValues = false
  /// Rules in order of precedence: the first that matches is used.
  package var rules: [Rule] = []
  package var steps: [Step] = []

  package init(_ name: String) { self.name = name }

  /// Number of links that the dialogue uses, counted from the first.
  package var linkCount: Int {
    (steps + rules.flatMap { [$0.question] + $0.answers }).reduce(1) {
      max($0, Int($1.link - Self.firstLink) + 1)
    }
  }
}

/// An error in a file of dialogues.
package typealias ATTDialogueError = DeviceFileError
