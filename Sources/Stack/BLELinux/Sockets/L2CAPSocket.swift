package import BLEWire
import CBluetoothLinux
import Glibc

/// The kernel's ATT channel: a SEQPACKET socket on fixed channel 4. One datagram is one PDU.
public enum L2CAPSocket {
  /// Requested size of the receive queue in bytes. A small notification uses about 768 bytes of kernel
  /// memory, so the queue holds more than 2 s of the fastest ring stream (2,083 notifications/s).
  public static let receiveBufferByteCount: CInt = 4 << 20

  /// Starts to connect the ATT channel. Requires no capability.
  ///
  /// `socket(SOCK_SEQPACKET, BTPROTO_L2CAP)`, `bind(cid 4)`, `connect(cid 4)`. The kernel connects in the
  /// background: wait until the socket is writable, then read `pendingError`.
  ///
  /// - Parameters:
  ///   - peer: identity address if the peer is bonded. The address type must be correct: the kernel does not
  ///     try the other type.
  ///   - adapter: address of the local adapter; `DeviceAddress.any` for the first adapter that is up.
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
      // A signal does not cancel the attempt, which continues in the kernel like any non-blocking connect.
      guard error == EINPROGRESS || error == EINTR else {
        throw SystemError(call: "connect(L2CAP)", number: error)
      }
    }
    return descriptor
  }

  /// Maximum number of channels that wait to be accepted. The kernel offers further channels to the next
  /// listener.
  private static let backlog: CInt = 16

  /// Listens for the ATT channels of links that centrals create to an adapter. Requires no capability.
  ///
  /// `socket(SOCK_SEQPACKET, BTPROTO_L2CAP)`, `bind(cid 4)`, `listen`. The kernel allows any number of
  /// listeners, but gives the channel of each link only to the newest listener. The kernel puts a new socket
  /// at the front of its list (`l2cap_chan_create`), and skips the other sockets once the link has the
  /// channel (`l2cap_connect_cfm`). Links that are already up are not offered. The kernel does not check
  /// which side created the link: if the adapter created a link as the central without a client's socket,
  /// this socket also gets the channel of that link. Linux 6.1.
  ///
  /// - Parameter adapter: identity address of the adapter.
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

  /// Accepts the next channel of a listening socket. Sets `peer` to the central's identity address if the
  /// kernel knows it, otherwise to the address on the link.
  ///
  /// - Throws: `wouldBlock` if no channel is pending.
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
  /// Turns on receive timestamps and drop counts, and enlarges the receive queue, as far as the kernel and
  /// the process's privileges allow.
  ///
  /// Missing features are not errors: packets without a kernel timestamp get the time of arrival and are
  /// counted. `ReceiveFact.untold` returns the errors.
  package func prepareToReceive() {
    try? setSocketOption(SO_TIMESTAMPNS, 1)
    try? setSocketOption(SO_RXQ_OVFL, 1)
    if ringtap_force_receive_buffer(rawValue, L2CAPSocket.receiveBufferByteCount) < 0 {
      // Without CAP_NET_ADMIN the kernel caps the size at net.core.rmem_max. `receiveBufferByteCount()`
      // returns the result.
      try? setSocketOption(SO_RCVBUF, L2CAPSocket.receiveBufferByteCount)
    }
  }

  /// Whether an empty datagram without a timestamp can only be the end of the channel. Read this only for
  /// such a datagram.
  var isAtEnd: Bool {
    if let isStamped = try? socketOption(SO_TIMESTAMPNS), isStamped != 0 { return true }
    return ringtap_has_hung_up(rawValue) != 0
  }

  /// Returns SO_ERROR: the result of a connect, or the reason why a link ended; `nil` on success. The kernel
  /// then clears the error.
  package func pendingError() throws(SystemError) -> SystemError? {
    let number = try socketOption(SO_ERROR)
    return number == 0 ? nil : SystemError(call: "connect(L2CAP)", number: number)
  }

  /// Returns SO_RCVBUF as the kernel set it, in bytes of kernel memory.
  package func receiveBufferByteCount() throws(SystemError) -> Int {
    Int(try socketOption(SO_RCVBUF))
  }

  /// L2CAP_CONNINFO: the link's handle on its controller; `nil` if the socket is not connected.
  package var connectionHandle: ConnectionHandle? {
    let handle = ringtap_l2cap_connection_handle(rawValue)
    return handle < 0 ? nil : ConnectionHandle(UInt16(truncatingIfNeeded: handle))
  }
}

/// Security level of one of the kernel's links: BT_SECURITY. For LE, see `include/net/bluetooth/bluetooth.h`
/// and `seclevel_to_authreq` in `net/bluetooth/smp.c`.
public enum LinkSecurityLevel: UInt8, Hashable, Sendable, Comparable {
  case sdp, low
  /// Encrypted.
  case medium
  /// Encrypted with a key from a pairing with MITM protection.
  case high
  /// Like `high`, with a key from a Secure Connections pairing.
  case fips

  public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}

extension FileDescriptor {
  /// Returns BT_SECURITY of a connected ATT channel: the security level of its link.
  package func securityLevel() throws(SystemError) -> LinkSecurityLevel {
    let level = try checked("getsockopt(BT_SECURITY)") { ringtap_bt_security(rawValue) }
    return LinkSecurityLevel(rawValue: UInt8(truncatingIfNeeded: level)) ?? .sdp
  }

  /// Requests that the kernel encrypts the link, with an existing key or by pairing.
  ///
  /// During encryption the socket is in state BT_CONFIG and not writable. On success the socket becomes
  /// writable again (`l2cap_sock_resume_cb`). If the key is refused, the link ends
  /// (`hci_encrypt_change_evt`). If a pairing fails, the socket does not change: `smp_failure` reports the
  /// failure only to the management interface. Data that the peer sends on the channel during encryption is
  /// delivered and ends BT_CONFIG (`l2cap_data_channel`, `l2cap_chan_ready`). Therefore the socket may be
  /// writable before the link has the level, and the kernel does not report when the link reaches the level.
  /// Linux 6.1.
  ///
  /// - Throws: `invalid` if the link already has the level.
  package func raiseSecurity(to level: LinkSecurityLevel) throws(SystemError) {
    try checked("setsockopt(BT_SECURITY)") { ringtap_bt_raise_security(rawValue, level.rawValue) }
  }

  /// Closes the channel now with `shutdown(SHUT_RDWR)`. The descriptor stays open until its owner is
  /// released.
  package func shutDown() { _ = shutdown(rawValue, CInt(SHUT_RDWR)) }
}
