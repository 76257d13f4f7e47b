package import BLEWire
import CBluetoothLinux
import Glibc

/// The kernel's end of the ATT channel: a SEQPACKET socket on fixed channel 4. One datagram is one PDU.
public enum L2CAPSocket {
  /// Receive-queue octets that are asked for. At about 768 octets of kernel memory per small notification it
  /// holds more than 2 s of the fastest ring stream (2,083/s).
  public static let receiveBufferByteCount: CInt = 4 << 20

  /// Starts to connect the ATT channel. Needs no capability.
  ///
  /// `socket(SOCK_SEQPACKET, BTPROTO_L2CAP)`, `bind(cid 4)`, `connect(cid 4)`. The connect goes on in the
  /// kernel: wait for writable, then read `pendingError`.
  ///
  /// - Parameters:
  ///   - peer: identity address where the peer is bonded; the type must be right, nothing is tried twice.
  ///   - adapter: own adapter's address, `DeviceAddress.any` for the first that is up.
  package static func connectATT(
    to peer: DeviceAddress, from adapter: DeviceAddress
  ) throws(SystemError) -> FileDescriptor {
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_SEQPACKET, protocol: BTPROTO_L2CAP,
      name: "AF_BLUETOOTH, L2CAP")
    let number = descriptor.rawValue
    descriptor.prepareToReceive()
    try checked("bind(L2CAP)") {
      ringtap_l2cap_bind(number, adapter.bits, UInt8(BDADDR_LE_PUBLIC), attChannel)
    }
    let type = UInt8(peer.type == .public ? BDADDR_LE_PUBLIC : BDADDR_LE_RANDOM)
    if ringtap_l2cap_connect(number, peer.bits, type, attChannel) < 0 {
      let error = lastError()
      // A signal does not undo the attempt: it goes on in the kernel like any non-blocking connect.
      guard error == EINPROGRESS || error == EINTR else {
        throw SystemError(call: "connect(L2CAP)", number: error)
      }
    }
    return descriptor
  }

  /// Centrals that may wait to be taken. The kernel offers the next listener what is beyond.
  private static let backlog: CInt = 16

  /// Listens for links that centrals make with an adapter: the ATT channel of each. Needs no capability.
  ///
  /// `socket(SOCK_SEQPACKET, BTPROTO_L2CAP)`, `bind(cid 4)`, `listen`. The kernel lets any number listen, and gives each
  /// link's channel to the youngest socket alone: a socket goes to the front of its list when it is made (`l2cap_chan_create`),
  /// and the others are passed over once the link has the channel (`l2cap_connect_cfm`). Links that are up already are none
  /// of its business. Nor does it look who made the link: that of a central of the adapter's own, without a client's socket, comes
  /// here, too. Linux 6.1.
  ///
  /// - Parameter adapter: its identity address.
  package static func listenATT(on adapter: DeviceAddress) throws(SystemError) -> FileDescriptor {
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_SEQPACKET, protocol: BTPROTO_L2CAP,
      name: "AF_BLUETOOTH, L2CAP")
    let number = descriptor.rawValue
    let type = UInt8(adapter.type == .public ? BDADDR_LE_PUBLIC : BDADDR_LE_RANDOM)
    try checked("bind(L2CAP)") { ringtap_l2cap_bind(number, adapter.bits, type, attChannel) }
    try checked("listen(L2CAP)") { listen(number, backlog) }
    return descriptor
  }

  /// Takes the next channel of a listening socket; `peer` becomes the address of the central, that of its identity where the
  /// kernel knows it.
  ///
  /// - Throws: `wouldBlock` where none waits.
  package static func accept(
    _ listener: borrowing FileDescriptor, peer: inout DeviceAddress
  ) throws(SystemError) -> FileDescriptor {
    let number = listener.rawValue
    var bits: UInt64 = 0
    var type: UInt8 = 0
    // SAFETY: both outlive the call.
    let accepted = try checked("accept(L2CAP)") { unsafe ringtap_l2cap_accept(number, &bits, &type) }
    peer = DeviceAddress(bits: bits, type: type == UInt8(BDADDR_LE_RANDOM) ? .random : .public)
    return FileDescriptor(owning: accepted)
  }

  private static let attChannel: UInt16 = 4
}

extension FileDescriptor {
  /// Turns on receive stamps and drop counts, and raises the receive queue, as far as kernel and rights allow.
  ///
  /// What the kernel lacks is done without: times are those of arrival, and counted; `ReceiveFact.untold` tells why.
  package func prepareToReceive() {
    try? setSocketOption(SO_TIMESTAMPNS, 1)
    try? setSocketOption(SO_RXQ_OVFL, 1)
    if ringtap_force_receive_buffer(rawValue, L2CAPSocket.receiveBufferByteCount) < 0 {
      // Without CAP_NET_ADMIN the kernel caps it at net.core.rmem_max. `receiveBufferByteCount()` tells what it became.
      try? setSocketOption(SO_RCVBUF, L2CAPSocket.receiveBufferByteCount)
    }
  }

  /// Whether an empty datagram without a stamp can be nothing but the end of the channel. Asked at such a one only.
  var isAtEnd: Bool {
    if let isStamped = try? socketOption(SO_TIMESTAMPNS), isStamped != 0 { return true }
    return ringtap_has_hung_up(rawValue) != 0
  }

  /// SO_ERROR: how a connect ended, or why a link went; `nil` for well. Reading it clears it.
  package func pendingError() throws(SystemError) -> SystemError? {
    let number = try socketOption(SO_ERROR)
    return number == 0 ? nil : SystemError(call: "connect(L2CAP)", number: number)
  }

  /// SO_RCVBUF as the kernel set it, in octets of kernel memory.
  package func receiveBufferByteCount() throws(SystemError) -> Int {
    Int(try socketOption(SO_RCVBUF))
  }

  /// L2CAP_CONNINFO: the link's handle on its controller, while it is connected.
  package var connectionHandle: ConnectionHandle? {
    let handle = ringtap_l2cap_connection_handle(rawValue)
    return handle < 0 ? nil : ConnectionHandle(UInt16(truncatingIfNeeded: handle))
  }
}

/// How secure a link of the kernel's is: BT_SECURITY. For LE, `include/net/bluetooth/bluetooth.h` and
/// `seclevel_to_authreq` in `net/bluetooth/smp.c`.
public enum LinkSecurityLevel: UInt8, Hashable, Sendable, Comparable {
  case sdp, low
  /// Encrypted.
  case medium
  /// With a key that nobody in the middle has.
  case high
  /// Of Secure Connections.
  case fips

  public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}

extension FileDescriptor {
  /// BT_SECURITY of a connected ATT channel: the level of its link.
  package func securityLevel() throws(SystemError) -> LinkSecurityLevel {
    let level = try checked("getsockopt(BT_SECURITY)") { ringtap_bt_security(rawValue) }
    return LinkSecurityLevel(rawValue: UInt8(truncatingIfNeeded: level)) ?? .sdp
  }

  /// Has the kernel encrypt the link, by a key that it has or by pairing.
  ///
  /// The socket is in BT_CONFIG until then: it cannot be written to, and is not writable. It ends well with the socket
  /// writable again (`l2cap_sock_resume_cb`), or with the link, where the key is refused (`hci_encrypt_change_evt`). A
  /// pairing that fails leaves the socket as it is (`smp_failure` tells nobody but the management interface). Whatever the
  /// peer sends on the channel meanwhile is delivered and ends BT_CONFIG (`l2cap_data_channel`, `l2cap_chan_ready`): a
  /// socket that is writable may have the level still to come, of which nothing tells. Linux 6.1.
  ///
  /// - Throws: `invalid` where the link has the level already.
  package func raiseSecurity(to level: LinkSecurityLevel) throws(SystemError) {
    try checked("setsockopt(BT_SECURITY)") { ringtap_bt_raise_security(rawValue, level.rawValue) }
  }

  /// `shutdown(SHUT_RDWR)`: the channel closes now, the descriptor when its owner goes.
  package func shutDown() { _ = shutdown(rawValue, CInt(SHUT_RDWR)) }
}
