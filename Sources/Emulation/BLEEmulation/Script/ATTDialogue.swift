public import BLEWire
import JSONText

/// A scripted exchange between a client and a server on one ATT bearer, PDU by PDU.
///
/// It has the form of the SIG's GATT test suite: a tester plays the server, and checks the PDUs of the
/// client. An attack also has steps below ATT: the client's side is the host under test, central or
/// peripheral, and the server's side is its controller with the peers behind it. Only a controller can play
/// an attack: `VirtualController.play`.
public struct ATTDialogue: Hashable, Sendable {
  public enum Side: Hashable, Sendable { case client, server }

  /// How strictly a step of the client is checked.
  public enum Leniency: Hashable, Sendable {
    /// It must come next.
    case required
    /// The dialogue may end before it.
    case optional
    /// A client's step that may come later and among others, together with the server's response. A server's
    /// step that is sent when the client's next PDU arrives, before the response to that PDU.
    case deferrable
    /// A rule: applies each time, unless a step waits for the PDU.
    case always
  }

  /// The layer of a step's bytes.
  public enum Layer: Hashable, Sendable {
    /// An ATT PDU, no longer than ATT_MTU.
    case attribute
    /// The payload of an L2CAP frame on this channel, of any length.
    case channel(UInt16)
    /// A packet with its H4 type byte. For the host's packets a pattern of the first bytes is enough.
    case packet
    /// The first bytes of a packet that the controller itself has sent to the host.
    case sent
    /// No bytes: the peer ends the link, and the following steps are for the next link.
    case leave
    /// No bytes: the server's response to the request as if there were no rule.
    case usual
  }

  /// The role of the host under test; in other dialogues it is the GATT client.
  public enum Role: String, Hashable, Sendable { case central, peripheral }

  /// Packets that replace one that the controller sends to the host.
  public struct Replacement: Hashable, Sendable {
    /// The first bytes of the original, H4 type first.
    public var original: Pattern
    /// Empty to drop the original. Wildcard bytes, and those that `copiesRest` appends, are copied from the
    /// original.
    public var packets: [Packet]
    public var isOnce: Bool

    public struct Packet: Hashable, Sendable {
      public var start: Pattern
      public var copiesRest: Bool
    }
  }

  /// A PDU that may have wildcard bytes.
  public struct Pattern: Hashable, Sendable {
    /// `nil` for any byte.
    public var octets: [UInt8?]

    public init(_ octets: [UInt8?]) { self.octets = octets }

    public func matches(_ pdu: Span<UInt8>) -> Bool {
      guard pdu.count == octets.count else { return false }
      for index in pdu.indices where octets[index].map({ $0 != pdu[index] }) ?? false { return false }
      return true
    }

    /// Whether a packet starts with this pattern.
    public func begins(_ packet: Span<UInt8>) -> Bool {
      packet.count >= octets.count && matches(packet.extracting(..<octets.count))
    }
  }

  public struct Step: Hashable, Sendable {
    public var side: Side
    public var layer = Layer.attribute
    /// The connection handle of its link.
    public var link = ATTDialogue.firstLink
    /// One or more alternatives. The server responds with the one at the same index as the client's.
    public var choices: [Pattern]
    public var leniency: Leniency
    /// The line in the file, from 1.
    public var line: Int

    public init(_ side: Side, _ choices: [Pattern], _ leniency: Leniency = .required, line: Int = 0) {
      self.side = side
      self.choices = choices
      self.leniency = leniency
      self.line = line
    }
  }

  /// Responses that the server sends each time a PDU has the given beginning, unless a step waits for it.
  public struct Rule: Hashable, Sendable {
    /// Its only choice is the beginning of the PDU.
    public var question: Step
    public var answers: [Step] = []

    public init(_ question: Step) { self.question = question }

    func matches(_ octets: Span<UInt8>, _ layer: Layer, _ link: UInt16) -> Bool {
      guard layer == question.layer, question.choices[0].begins(octets) else { return false }
      return layer == .packet || layer == .sent || link == question.link
    }
  }

  /// An attribute of a database that answers a client's discovery requests.
  public struct Attribute: Hashable, Sendable {
    /// Its handle; for a service declaration, the range up to the end of the group.
    public var range: HandleRange
    public var type: BluetoothUUID
    public var value: [UInt8]

    public init(range: HandleRange, type: BluetoothUUID, value: [UInt8]) {
      self.range = range
      self.type = type
      self.value = value
    }

    public var handle: AttributeHandle { range.start }
  }

  /// The first link of a `VirtualController`; further links have the following numbers.
  public static let firstLink: UInt16 = 0x0040

  public var name: String
  /// `nil` if all steps are ATT's, so that any device can play the server.
  public var role: Role?
  /// For an attack: its publisher, the behaviour of a vulnerable host, and the correct behaviour.
  public var source = ""
  public var fault = ""
  public var duty = ""
  public var replacements: [Replacement] = []
  /// The SIG's test ID, or an attack's ID in `CONFORMANCE.md`.
  public var test = ""
  public var title = ""
  /// Instructions for the driver of the client, and the expected result, as lines.
  public var action: [String] = []
  public var expectation: [String] = []
  /// The server's receive MTU, and the maximum length of a PDU that it sends.
  public var mtu = ATT.defaultMTU
  /// Sorted by handle; empty if all of the client's requests must be in the steps.
  public var database: [Attribute] = []
  /// Whether the database answers reads of values, in addition to discovery.
  public var readsValues = false
  /// Rules in order of precedence: the first that matches is used.
  public var rules: [Rule] = []
  public var steps: [Step] = []

  public init(_ name: String) { self.name = name }

  /// Number of links that the dialogue uses, counted from the first.
  public var linkCount: Int {
    (steps + rules.flatMap { [$0.question] + $0.answers }).reduce(1) {
      max($0, Int($1.link - Self.firstLink) + 1)
    }
  }
}

/// An error in a file of dialogues.
public struct ATTDialogueError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The line, from 1; 0 for the file as a whole.
  public var line: Int
  public var reason: String

  /// - Parameters:
  ///   - line: the line in the file, from 1.
  ///   - reason: may quote the file; control characters are replaced to protect the terminal.
  public init(line: Int, _ reason: String) {
    self.line = line
    self.reason = reason.printable
  }

  public var description: String { line > 0 ? "line \(line): \(reason)" : reason }
}
