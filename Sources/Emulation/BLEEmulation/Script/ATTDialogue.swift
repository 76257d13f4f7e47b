public import BLEWire
import JSONText

/// What a client and a server say to each other on one ATT bearer, PDU by PDU.
///
/// The form of the SIG's GATT test suite: a tester plays the server's half, and looks at what the client sends. An attack has
/// steps below ATT, too: the client's side is the host under test, central or peripheral, and the server's is its controller
/// with the peers behind it. Only a controller can play it: `VirtualController.play`.
public struct ATTDialogue: Hashable, Sendable {
  public enum Side: Hashable, Sendable { case client, server }

  /// How strictly a step of the client is meant.
  public enum Leniency: Hashable, Sendable {
    /// Next, and nothing else.
    case required
    /// The dialogue may be over before it.
    case optional
    /// It may come later and among others, with what the server answers. Of the server: sent when the client's next PDU is
    /// there, before what answers that.
    case deferrable
    /// Each time, where no step waits for it: a rule.
    case always
  }

  /// Where the octets of a step are said.
  public enum Layer: Hashable, Sendable {
    /// An ATT PDU, no longer than ATT_MTU.
    case attribute
    /// The payload of an L2CAP frame of this channel, of any length.
    case channel(UInt16)
    /// A packet with its H4 type byte. Of the host's a pattern of the first bytes is enough.
    case packet
    /// The first bytes of a packet that the controller has sent to the host by itself.
    case sent
    /// No octets: the peer ends the link, and what follows waits for the next.
    case leave
    /// No octets: the answer that the server has for a request without the rule.
    case usual
  }

  /// What the host under test is; of other dialogues it is the GATT client.
  public enum Role: String, Hashable, Sendable { case central, peripheral }

  /// Packets in the place of one that the controller sends to the host.
  public struct Replacement: Hashable, Sendable {
    /// Its first bytes, H4 type first.
    public var original: Pattern
    /// Empty to drop it. An open octet, and what `copiesRest` adds behind the last, are the original's.
    public var packets: [Packet]
    public var isOnce: Bool

    public struct Packet: Hashable, Sendable {
      public var start: Pattern
      public var copiesRest: Bool
    }
  }

  /// A PDU, some of whose octets may be left open.
  public struct Pattern: Hashable, Sendable {
    /// `nil` for any octet.
    public var octets: [UInt8?]

    public init(_ octets: [UInt8?]) { self.octets = octets }

    public func matches(_ pdu: Span<UInt8>) -> Bool {
      guard pdu.count == octets.count else { return false }
      for index in pdu.indices where octets[index].map({ $0 != pdu[index] }) ?? false { return false }
      return true
    }

    /// Whether a packet begins like this.
    public func begins(_ packet: Span<UInt8>) -> Bool {
      packet.count >= octets.count && matches(packet.extracting(..<octets.count))
    }
  }

  public struct Step: Hashable, Sendable {
    public var side: Side
    public var layer = Layer.attribute
    /// Connection handle of its link.
    public var link = ATTDialogue.firstLink
    /// One or more. The server answers with the one that stands where the client's choice stood.
    public var choices: [Pattern]
    public var leniency: Leniency
    /// In the file, from 1.
    public var line: Int

    public init(_ side: Side, _ choices: [Pattern], _ leniency: Leniency = .required, line: Int = 0) {
      self.side = side
      self.choices = choices
      self.leniency = leniency
      self.line = line
    }
  }

  /// What the server says each time that something begins so, where no step waits for it.
  public struct Rule: Hashable, Sendable {
    /// Its only choice is the beginning.
    public var question: Step
    public var answers: [Step] = []

    public init(_ question: Step) { self.question = question }

    func matches(_ octets: Span<UInt8>, _ layer: Layer, _ link: UInt16) -> Bool {
      guard layer == question.layer, question.choices[0].begins(octets) else { return false }
      return layer == .packet || layer == .sent || link == question.link
    }
  }

  /// Of a database that answers what a client asks to find its way.
  public struct Attribute: Hashable, Sendable {
    /// Its own handle; where it declares a service, to the last of the group.
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

  /// The first link of a `VirtualController`, whose numbers go on from there.
  public static let firstLink: UInt16 = 0x0040

  public var name: String
  /// `nil` where the steps are ATT's only, and any device can play the server.
  public var role: Role?
  /// Of an attack: who published it, what a host does that has the fault, and what one has to do.
  public var source = ""
  public var fault = ""
  public var duty = ""
  public var replacements: [Replacement] = []
  /// The SIG's id, where it is one of its tests; of an attack its id in `CONFORMANCE.md`.
  public var test = ""
  public var title = ""
  /// What the client is to do, in words, and what must come of it, in lines: for whoever drives the client.
  public var action: [String] = []
  public var expectation: [String] = []
  /// Our receive MTU, and the longest PDU that is sent.
  public var mtu = ATT.defaultMTU
  /// Rising in handle; empty where everything asked must be in the steps.
  public var database: [Attribute] = []
  /// Whether the database answers reads of values, too.
  public var readsValues = false
  /// The first that fits counts.
  public var rules: [Rule] = []
  public var steps: [Step] = []

  public init(_ name: String) { self.name = name }

  /// Links that it speaks on, from the first.
  public var linkCount: Int {
    (steps + rules.flatMap { [$0.question] + $0.answers }).reduce(1) {
      max($0, Int($1.link - Self.firstLink) + 1)
    }
  }
}

/// What is wrong with a file of dialogues.
public struct ATTDialogueError: Error, Hashable, Sendable, CustomStringConvertible {
  /// From 1; 0 for the file as a whole.
  public var line: Int
  public var reason: String

  /// - Parameters:
  ///   - line: of the file, from 1.
  ///   - reason: may quote the file; control characters are replaced, so that a terminal stays as it is.
  public init(line: Int, _ reason: String) {
    self.line = line
    self.reason = reason.printable
  }

  public var description: String { line > 0 ? "line \(line): \(reason)" : reason }
}
