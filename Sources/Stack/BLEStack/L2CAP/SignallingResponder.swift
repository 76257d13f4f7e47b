package import BLEWire

/// Responds to the peer on the LE signalling channel. Core 5.4, Vol 3, Part A, 4.
enum SignallingResponder {
  enum Reaction {
    case none
    case answer([UInt8])
    /// Send the response and apply these connection parameters, which the peer requested.
    case update(LinkParameterRange, answer: [UInt8])
    /// Not a valid command, or a response without a request.
    case stray
  }

  /// MTU_sig of an LE link. Core 5.4, Vol 3, Part A, 4, table 4.1.
  static let maximumByteCount = 23

  /// Processes a frame of the signalling channel.
  ///
  /// - Parameters:
  ///   - role: role of this side.
  ///   - isUpdating: whether an update that the peer requested is in progress. Further requests are then
  ///     rejected.
  static func react(
    to payload: Span<UInt8>, as role: LEConnectionComplete.Role, isUpdating: Bool
  ) -> Reaction {
    guard payload.count <= maximumByteCount else { return rejectOversized(payload) }
    // A frame has exactly one command, and identifier 0 is invalid. Drop other frames, as the kernel's host
    // does, because their identifier may be meaningless.
    guard let signal = try? L2CAPSignal(validating: payload), signal.identifier != 0 else { return .stray }
    switch signal.code {
    case L2CAPSignal.connectionParameterUpdateRequest:
      // Only the central may receive this request. Core 5.4, Vol 3, Part A, 4.20.
      guard role == .central, signal.data.count == 8 else { return .answer(reject(signal.identifier)) }
      let wanted = LinkParameterRange(
        minimumInterval: signal.data.u16(at: 0), maximumInterval: signal.data.u16(at: 2),
        latency: signal.data.u16(at: 4), supervisionTimeout: signal.data.u16(at: 6))
      let isAccepted = wanted.isValid && !isUpdating
      let answer = L2CAPSignal.encoded(
        L2CAPSignal.connectionParameterUpdateResponse, signal.identifier, isAccepted ? 0x0000 : 0x0001)
      return isAccepted ? .update(wanted, answer: answer) : .answer(answer)
    default:
      return L2CAPSignal.isResponse(signal.code) ? .stray : .answer(reject(signal.identifier))
    }
  }

  /// Encodes a Command Reject for a command that was not understood. Core 5.4, Vol 3, Part A, 4.1.
  private static func reject(_ identifier: UInt8) -> [UInt8] {
    L2CAPSignal.encoded(L2CAPSignal.commandReject, identifier, 0x0000)
  }

  /// Rejects a frame longer than the signalling MTU. Sends one Command Reject for the whole frame, with the
  /// identifier of its first request, or no response if the frame contains only responses. Core 5.4, Vol 3,
  /// Part A, 4.1.
  private static func rejectOversized(_ payload: Span<UInt8>) -> Reaction {
    var offset = 0
    while offset + 4 <= payload.count {
      let (code, identifier) = (payload[offset], payload[offset + 1])
      guard identifier != 0 else { return .stray }
      if !L2CAPSignal.isResponse(code) {
        return .answer(
          L2CAPSignal.encoded(L2CAPSignal.commandReject, identifier, 0x0001, UInt16(maximumByteCount)))
      }
      offset += 4 + Int(payload.u16(at: offset + 2))
    }
    return .stray
  }
}

extension L2CAPSignal {
  /// Returns whether a code is a response, reject or indication. Such commands get no response.
  package static func isResponse(_ code: UInt8) -> Bool {
    switch code {
    case 0x01, 0x03, 0x05, 0x07, 0x09, 0x0B, 0x0D, 0x0F, 0x11, 0x13, 0x15, 0x16, 0x18, 0x1A: true
    default: false
    }
  }

  /// Encodes a command whose data consists of these values.
  static func encoded(_ code: UInt8, _ identifier: UInt8, _ values: UInt16...) -> [UInt8] {
    let data = [UInt8](encoding: 2 * values.count) { for value in values { $0.append(u16: value) } }
    return [UInt8](encoding: 4 + data.count) {
      L2CAPSignal(code: code, identifier: identifier, data: data.span).encode(into: &$0)
    }
  }
}
