import BLECore
import BLEWire

/// Answers the peer on the LE signalling channel. Core 5.4, Vol 3, Part A, 4.
enum SignallingResponder {
  private static let notUnderstood: UInt16 = 0x0000

  /// - Parameter isUpdating: an update that the peer asked for is under way: another one has to wait.
  /// - Returns: the answer, empty where none is due, and the timing that the peer may have from now on.
  static func answer(
    _ payload: Span<UInt8>, isUpdating: Bool
  ) -> (answer: [UInt8], request: LinkParameterRange?) {
    // A frame that is no whole command cannot be answered: its identifier may be no identifier.
    guard let signal = try? L2CAPSignal(validating: payload) else { return ([], nil) }
    switch signal.code {
    case L2CAPSignal.connectionParameterUpdateRequest:
      guard signal.data.count == 8 else { return (reject(signal.identifier), nil) }
      let wanted = LinkParameterRange(
        minimumInterval: signal.data.u16(at: 0), maximumInterval: signal.data.u16(at: 2),
        latency: signal.data.u16(at: 4), supervisionTimeout: signal.data.u16(at: 6))
      let isAccepted = wanted.isValid && !isUpdating
      let result: UInt16 = isAccepted ? 0x0000 : 0x0001
      let answer = encode(
        L2CAPSignal.connectionParameterUpdateResponse, signal.identifier, result)
      return (answer, isAccepted ? wanted : nil)
    // Responses to requests that we never send, and rejects: nothing to say.
    case L2CAPSignal.commandReject, L2CAPSignal.connectionParameterUpdateResponse: return ([], nil)
    default: return (reject(signal.identifier), nil)
    }
  }

  private static func reject(_ identifier: UInt8) -> [UInt8] {
    encode(L2CAPSignal.commandReject, identifier, notUnderstood)
  }

  private static func encode(_ code: UInt8, _ identifier: UInt8, _ value: UInt16) -> [UInt8] {
    let data = [UInt8](encoding: 2) { $0.append(u16: value) }
    return [UInt8](encoding: 6) {
      L2CAPSignal(code: code, identifier: identifier, data: data.span).encode(into: &$0)
    }
  }
}
