public import BLEWire

/// Reason why a GATT procedure failed.
public enum GATTError: Error, Hashable, Sendable {
  /// The server answered with an Error Response.
  case refused(ErrorResponse)
  /// The server's response violates the specification.
  case malformed(WireError)
  /// No response arrived in time, by default 30 s. The bearer must not be used again. Core 5.4, Vol 3, Part
  /// F, 3.3.3.
  case timedOut(ATTOpcode, seconds: Int = 30)
  /// The bearer ended before the response arrived.
  case closed(BearerEnd)
  /// The caller's task was cancelled before the procedure was complete. The server has answered all requests
  /// that were sent.
  case cancelled
  /// The value is too long for the procedure. Contains its size and the limit, in bytes.
  case valueTooLong(byteCount: Int, limit: Int)
  /// The echo of a prepared write differs from the value that was sent.
  case writeNotVerified(AttributeHandle)
  /// The characteristic lacks a property that the call needs.
  case notSupported(AttributeHandle, needs: CharacteristicProperties)
  /// There is no signing key, its counter is exhausted, or the counter could not be stored.
  case cannotSign
}

/// Reason why an ATT bearer ended.
public enum BearerEnd: Hashable, Sendable {
  /// Closed by this side.
  case closedLocally
  case linkLost(LinkLoss)
  /// An ATT transaction timed out.
  case transactionTimeout
  /// The link to a bonded device lost its encryption and was therefore closed.
  case encryptionLost
  /// The device sent no samples for this many seconds although the link was up. The link was therefore
  /// closed.
  case silent(seconds: Int)
  /// The peer kept sending requests without reading the responses. This many responses were queued.
  case answersNotTaken(Int)
}

/// Reason why a link was lost.
public enum LinkLoss: Hashable, Sendable {
  /// Supervision timeout (0x08): the device is out of range or off.
  case silence
  /// The device closed the link (0x13 … 0x15).
  case closedByPeer
  /// The controller failed and was reset (0x03).
  case controllerReset
  /// The kernel does not report the reason.
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
      "the value has \(counted(byteCount, "byte")); at most \(counted(limit, "fits", "fit"))"
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
    case .answersNotTaken(let count):
      "the device kept sending requests without accepting the responses: \(count) were queued"
    }
  }
}

extension ATTErrorCode {
  /// Whether the request might succeed on a more secure link. Core 5.4, Vol 3, Part C, 10.3.2.
  public var wantsSecurity: Bool { self == .insufficientAuthentication || self == .insufficientEncryption }
}
