import BLEDissector
import BLEWire

/// What a recorded packet is for the order of a conversation.
typealias ReplayRole = HCIPacketRole

extension HCIPacketRole {
  /// - Parameter octets: H4 type octet first.
  init(_ octets: [UInt8]) { self.init(octets.span) }

  /// The ATT PDU of a packet; `nil` where it is not whole there.
  static func attributePDU(_ octets: [UInt8]) -> [UInt8]? {
    guard octets.count > 9, Int(octets.span.u16(at: 5)) == octets.count - 9 else { return nil }
    return Array(octets[9...])
  }

  /// Whether whoever sends it waits for an answer.
  var asks: Bool {
    switch self {
    case .command: true
    case .att(_, let opcode): opcode.kind == .request
    default: false
    }
  }

  /// Whether `answer` is of the kind that ends this question.
  func isAnswered(by answer: [UInt8]) -> Bool {
    switch (self, ReplayRole(answer)) {
    case (.command(let opcode), .answer(let answered)): return opcode == answered
    case (.att(let handle, let opcode), .att(let other, let response)):
      guard handle == other else { return false }
      // An Error Response names the request.
      if response == .errorResponse { return answer.count > 10 && answer[10] == opcode.rawValue }
      return response.rawValue == opcode.rawValue &+ 1
    default: return false
    }
  }
}

/// Packets in words.
enum ReplayWords {
  static func name(_ octets: [UInt8]) -> String {
    switch ReplayRole(octets) {
    case .command(let opcode): "command \(opcode.logName)"
    case .answer(let opcode): "answer to \(opcode.logName)"
    case .att(_, let opcode): "\(opcode.name)\(attribute(octets, opcode))"
    case .disconnection: "event Disconnection Complete"
    case .other: other(octets)
    }
  }

  /// The handle, of PDUs that begin with one. Core 5.4, Vol 3, Part F, 3.4.
  private static func attribute(_ octets: [UInt8], _ opcode: ATTOpcode) -> String {
    switch opcode.rawValue {
    case 0x0A, 0x0C, 0x12, 0x16, 0x1B, 0x1D, 0x52:
      octets.count > 11 ? " of 0x" + hexadecimal([octets[11], octets[10]]) : ""
    default: ""
    }
  }

  private static func other(_ octets: [UInt8]) -> String {
    guard octets.count > 1 else { return "packet" }
    switch HCIPacketType(rawValue: octets[0]) {
    case .event: return "event \(HCIEventCode(rawValue: octets[1]).logName)"
    case .acl where octets.count > 2 && octets[2] & 0x30 == 0x10: return "continuation of data"
    case .acl: return "data"
    default: return "packet"
    }
  }

  static func hexadecimal(_ octets: some Sequence<UInt8>) -> String {
    octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}

extension ReplayDifference: CustomStringConvertible {
  /// Packets in words, for people: `packet 57: Write Request of 0x0010`.
  public var description: String {
    let place = index.map { "packet \($0): " } ?? ""
    let name = (recorded ?? ours).map { ReplayWords.name($0) } ?? ""
    return place + name + (why.map { " (\($0))" } ?? "")
  }
}
