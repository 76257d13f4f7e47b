public import BLEHost
import BLELinux
import BLEStack

/// Why a ring did not give what it was asked for.
public enum RingError: Error, Hashable, Sendable {
  case host(HostError)
  /// The ring does not know the command; 0xEE is the only code that was seen.
  case refused(opcode: UInt8, code: UInt8)
  /// Nothing came within the time given.
  case noReply(to: String, seconds: Double)
  /// The ring says by its capabilities that it has none.
  case lacking(String)
  /// The device has no big data channel.
  case noBigData
  /// A reply whose content makes no sense.
  case senseless(String)
  /// The task was cancelled.
  case interrupted
}

extension RingError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .host(let error): "\(error)"
    case .refused(let opcode, let code):
      "the ring does not know command 0x\(String(opcode, radix: 16)) (code 0x\(String(code, radix: 16))); "
        + "its firmware lacks it"
    case .noReply(let what, let seconds):
      "the ring did not answer within \(seconds) s (\(what)); bring it near and try again; some firmwares answer "
        + "what they cannot with silence"
    case .lacking(let what): "the ring says that it has no \(what)"
    case .noBigData: "the ring has no big data channel, by which this is read"
    case .senseless(let what): "the ring's answer makes no sense: \(what)"
    case .interrupted: "interrupted"
    }
  }
}
