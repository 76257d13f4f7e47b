import BLECore
import BLELinux
import BLEStack
import BLEWire

/// A connect that is under way. The controller makes one link at a time.
struct LinkAttempt {
  /// One that was named, or those on the accept list.
  let peers: [DeviceAddress]
  let startsFast: Bool
  let tap: PacketTap?
  let seconds: Int
  var deadline: MonotonicTime?
  /// The cancel that was sent when the time was over, and what the controller said if it refused.
  var cancel: CommandID?
  var refusal: HostError?
  var isCancelling = false
  /// The link may be there before anybody waits for it.
  let outcome = OneShot<Result<Connection, HostError>>()

  init(_ peers: [DeviceAddress], startsFast: Bool, tap: PacketTap?, _ timeout: Duration) {
    (self.peers, self.startsFast, self.tap) = (peers, startsFast, tap)
    seconds = Int(timeout.components.seconds)
  }

  /// Why there is no link, by the controller's word.
  func failure(_ status: HCIStatus) -> HostError {
    // 0x02 is the controller's word for a connect that was cancelled. Core 5.4, Vol 4, Part E, 7.8.13.
    let isOurs = isCancelling && status == .unknownConnection
    let peer = peers.first ?? .any
    return isOurs ? .noAnswer(peer, seconds: seconds) : .linkFailed(peer, status)
  }
}

/// An ATT PDU that came with the event that announces its link.
struct EarlyPDU {
  let handle: ConnectionHandle
  let octets: [UInt8]
  let time: ReceiveTime
  let stamp: PacketPort.Stamp
}
