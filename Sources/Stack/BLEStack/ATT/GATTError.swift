public import BLEWire

/// Why a GATT procedure did not give what was asked.
public enum GATTError: Error, Hashable, Sendable {
  /// The server answered with an Error Response.
  case refused(ErrorResponse)
  /// The server's answer was not what the specification allows.
  case malformed(WireError)
  /// No answer in time, 30 s unless less was asked for: the bearer must not be used again. Core 5.4, Vol 3, Part F, 3.3.3.
  case timedOut(ATTOpcode, seconds: Int = 30)
  /// The bearer ended before the answer came.
  case closed(BearerEnd)
  /// The caller's task was cancelled before the procedure was through. What was sent has been answered.
  case cancelled
  /// A value that the procedure cannot carry: its octets, and how many go.
  case valueTooLong(byteCount: Int, limit: Int)
  /// The echo of a prepared write differs from what was sent.
  case writeNotVerified(AttributeHandle)
  /// The characteristic lacks what the call needs.
  case notSupported(AttributeHandle, needs: CharacteristicProperties)
  /// There is no key to sign with, its counter is used up, or could not be kept.
  case cannotSign
}

/// How an ATT bearer came to its end.
public enum BearerEnd: Hashable, Sendable {
  /// We closed it.
  case closedLocally
  case linkLost(LinkLoss)
  /// An ATT transaction timed out.
  case transactionTimeout
  /// Encryption of a link to a bonded device ended before the link: it was closed.
  case encryptionLost
  /// The device's stream brought nothing for so many seconds, though the link stayed up: it was closed.
  case silent(seconds: Int)
  /// The peer asked on and on, and did not take the answers: so many waited.
  case answersNotTaken(Int)
}

/// Why a link went.
public enum LinkLoss: Hashable, Sendable {
  /// Supervision time-out (0x08): out of range, or off.
  case silence
  /// The device ended it (0x13 … 0x15).
  case closedByPeer
  /// The controller failed and was reset (0x03).
  case controllerReset
  /// The kernel does not tell.
  case unknown
}

extension GATTError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .refused(let error):
      "the device refused \(error.request.name) of handle \(hex(error.handle.rawValue)): "
        + "\(error.code.name) (\(hex(UInt16(error.code.rawValue))))"
    case .malformed(let error): "the device's answer is malformed: \(error)"
    case .timedOut(let opcode, let seconds): "no answer to \(opcode.name) within \(seconds) s"
    case .closed(let end): "\(end)"
    case .cancelled: "cancelled"
    case .valueTooLong(let byteCount, let limit):
      "the value has \(byteCount) octets; at most \(limit) go"
    case .writeNotVerified(let handle):
      "the device echoed another value than was written to handle \(hex(handle.rawValue)); "
        + "the write was cancelled"
    case .cannotSign: "there is no key to sign with"
    case .notSupported(let handle, let needs):
      "the characteristic at handle \(hex(handle.rawValue)) does not support "
        + needs.names.joined(separator: " or ")
    }
  }

  private func hex(_ value: UInt16) -> String { "0x" + String(value, radix: 16) }
}

extension BearerEnd: CustomStringConvertible {
  public var description: String {
    switch self {
    case .closedLocally: "the connection was closed"
    case .linkLost(.silence): "the link was lost: the device went silent"
    case .linkLost(.closedByPeer): "the device closed the link"
    case .linkLost(.controllerReset): "the link was lost: the adapter failed and was reset"
    case .linkLost(.unknown): "the link was lost"
    case .transactionTimeout: "the connection was closed after a request without an answer"
    case .encryptionLost: "the connection was closed because its encryption ended"
    case .silent(let seconds): "silent: no sample for \(seconds) s on a link that stayed up"
    case .answersNotTaken(let count): "the device asked on and on without taking the answers: \(count) waited"
    }
  }
}

extension ATTErrorCode {
  /// More security would change the answer. Core 5.4, Vol 3, Part C, 10.3.2.
  public var wantsSecurity: Bool { self == .insufficientAuthentication || self == .insufficientEncryption }
}
