/// The reason why a WebSocket is closed. RFC 6455, 7.4.1, and IANA's registry of close codes.
package enum WebSocketCloseCode: UInt16, Sendable {
  case normal = 1000
  case protocolError = 1002
  case invalidText = 1007
  case policyViolation = 1008
  case tryAgainLater = 1013
}

/// Encodes the frames that a server sends, which are neither masked nor fragmented. RFC 6455, 5.2.
enum WebSocketFrames {
  /// Appends a text message.
  ///
  /// - Parameter text: valid UTF-8.
  static func append(text: Span<UInt8>, to frames: inout [UInt8]) {
    frames.append(0x81)
    switch text.count {
    case ...125: frames.append(UInt8(text.count))
    case ...0xFFFF: frames += [126, UInt8(text.count >> 8), UInt8(text.count & 0xFF)]
    default:
      frames.append(127)
      for shift in stride(from: 56, through: 0, by: -8) { frames.append(UInt8(text.count >> shift & 0xFF)) }
    }
    for place in text.indices { frames.append(text[place]) }
  }

  /// Returns the response to a ping.
  static func pong(_ payload: [UInt8]) -> [UInt8] { control(0x8A, payload) }

  /// Returns a close frame.
  ///
  /// - Parameters:
  ///   - code: `nil` to send neither code nor reason.
  ///   - reason: at most 123 bytes.
  static func close(_ code: UInt16?, _ reason: String = "") -> [UInt8] {
    guard let code else { return control(0x88, []) }
    return control(0x88, [UInt8(code >> 8), UInt8(code & 0xFF)] + reason.utf8)
  }

  private static func control(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
    precondition(payload.count <= WebSocketReader.payloadByteCount)
    return [first, UInt8(payload.count)] + payload
  }
}

/// Reads the frames of a client that may only control the connection: ping, pong and close.
///
/// The first two bytes of any other frame end the connection, so that at most 131 bytes are kept. RFC 6455,
/// 5.2 and 5.5.
package struct WebSocketReader: Sendable {
  package enum Event: Hashable, Sendable {
    /// The client requests a pong with this payload, of at most 125 bytes.
    case ping([UInt8])
    case pong
    /// The client closes the connection, with a code from 1000 to 4999 or none. No further frames are read.
    case close(UInt16?)
    /// The client must be disconnected. No further frames are read.
    case violation(WebSocketCloseCode, String)
  }

  /// Maximum size of a control frame's payload. RFC 6455, 5.5.
  static let payloadByteCount = 125
  private static let maskByteCount = 4

  /// Bytes of the incomplete frame.
  private var frame: [UInt8] = []
  /// Whether the connection has ended.
  private var isOver = false

  package init() {}

  /// Reads the next bytes.
  ///
  /// - Returns: the events of complete frames, in order.
  package mutating func take(_ octets: Span<UInt8>) -> [Event] {
    var events: [Event] = []
    for place in octets.indices where !isOver {
      frame.append(octets[place])
      guard let event = complete() else { continue }
      events.append(event)
      frame.removeAll(keepingCapacity: true)
      switch event {
      case .close, .violation: isOver = true
      case .ping, .pong: break
      }
    }
    return events
  }

  /// Returns the event of the frame; `nil` if the frame is incomplete and valid so far.
  private func complete() -> Event? {
    guard frame.count >= 2 else { return nil }
    if frame.count == 2, let violation { return violation }
    let start = 2 + Self.maskByteCount
    guard frame.count == start + Int(frame[1] & 0x7F) else { return nil }
    let payload = frame[start...].enumerated().map { $1 ^ frame[2 + $0 % Self.maskByteCount] }
    return switch frame[0] & 0x0F {
    case 0x8: closing(payload)
    case 0x9: .ping(payload)
    default: .pong
    }
  }

  /// The event for a rule that the first two bytes of the frame violate; `nil` if there is none.
  private var violation: Event? {
    let (opcode, isLast, isMasked) = (frame[0] & 0x0F, frame[0] & 0x80 != 0, frame[1] & 0x80 != 0)
    if frame[0] & 0x70 != 0 { return .violation(.protocolError, "reserved bits are set") }
    guard [0x0, 0x1, 0x2, 0x8, 0x9, 0xA].contains(opcode) else {
      return .violation(.protocolError, "unknown opcode")
    }
    guard isMasked else { return .violation(.protocolError, "frames of a client must be masked") }
    if opcode == 0 { return .violation(.protocolError, "a continuation without a beginning") }
    if opcode < 0x8 { return .violation(.policyViolation, "this stream is read-only") }
    if !isLast { return .violation(.protocolError, "a control frame in fragments") }
    if frame[1] & 0x7F > Self.payloadByteCount {
      return .violation(.protocolError, "a control frame of more than 125 bytes")
    }
    return nil
  }

  /// Returns the event of a close frame. RFC 6455, 5.5.1 and 7.4.
  private func closing(_ payload: [UInt8]) -> Event {
    guard !payload.isEmpty else { return .close(nil) }
    guard payload.count >= 2 else { return .violation(.protocolError, "a close code of one byte") }
    let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
    switch code {
    case 1000...1003, 1007...1014, 3000...4999: break
    default: return .violation(.protocolError, "an invalid close code")
    }
    guard String(validating: payload[2...], as: UTF8.self) != nil else {
      return .violation(.invalidText, "a reason that is not UTF-8")
    }
    return .close(code)
  }
}
