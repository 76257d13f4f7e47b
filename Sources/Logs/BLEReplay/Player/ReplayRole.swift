import BLEDissector
package import BLEWire

/// Role of a recorded packet in a conversation.
package typealias ReplayRole = HCIPacketRole

extension HCIPacketRole {
  /// Determines the role of a packet.
  ///
  /// - Parameter octets: the packet with the H4 type byte first.
  package init(_ octets: [UInt8]) { self.init(octets.span) }

  /// Returns the ATT PDU of a packet, or `nil` if the packet does not contain the whole PDU.
  static func attributePDU(_ octets: [UInt8]) -> [UInt8]? {
    guard octets.count > 9, Int(octets.span.u16(at: 5)) == octets.count - 9 else { return nil }
    return Array(octets[9...])
  }

  /// Whether the sender waits for a response.
  var asks: Bool {
    switch self {
    case .command: true
    case .att(_, let opcode): opcode.kind == .request
    default: false
    }
  }

  /// Returns whether `answer` completes this request or command.
  func isAnswered(by answer: [UInt8]) -> Bool {
    switch (self, ReplayRole(answer)) {
    case (.command(let opcode), .answer(let answered)): return opcode == answered
    case (.att(let handle, let opcode), .att(let other, let response)):
      guard handle == other else { return false }
      // An Error Response contains the opcode of the request.
      if response == .errorResponse { return answer.count > 10 && answer[10] == opcode.rawValue }
      return response.rawValue == opcode.rawValue &+ 1
    default: return false
    }
  }
}

/// Descriptions of packets for the user.
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

  /// Returns the handle of a PDU that starts with one. Core 5.4, Vol 3, Part F, 3.4.
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
  /// One line for the user, such as `packet 57: Write Request of 0x0010`.
  public var description: String {
    let place = index.map { "packet \($0): " } ?? ""
    let name = (recorded ?? ours).map { ReplayWords.name($0) } ?? ""
    return place + name + (why.map { " (\($0))" } ?? "")
  }
}
