public import BLEHost
import BLELinux
import BLEStack

/// An error of a request to a ring.
public enum RingError: Error, Hashable, Sendable {
  case host(HostError)
  /// The ring does not support the command; 0xEE is the only code observed.
  case refused(opcode: UInt8, code: UInt8)
  /// No reply arrived within the timeout.
  case noReply(to: String, seconds: Double)
  /// The ring's capabilities do not include the feature.
  case lacking(String)
  /// The device has no big data channel.
  case noBigData
  /// The content of a reply is invalid.
  case senseless(String)
  /// The task was cancelled.
  case interrupted
}

extension RingError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .host(let error): "\(error)"
    case .refused(let opcode, let code):
      "the ring does not support command 0x\(String(opcode, radix: 16)) (code 0x\(String(code, radix: 16))); "
        + "its firmware lacks it"
    case .noReply(let what, let seconds):
      "the ring did not answer within \(seconds) s (\(what)); bring it near and try again; some firmware "
        + "does not answer unsupported requests"
    case .lacking(let what): "the ring reports that it has no \(what)"
    case .noBigData: "the ring has no big data channel, which is needed to read this"
    case .senseless(let what): "the ring's reply is invalid: \(what)"
    case .interrupted: "interrupted"
    }
  }
}
