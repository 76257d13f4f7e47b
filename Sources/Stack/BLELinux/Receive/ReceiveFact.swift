import CBluetoothLinux
import Glibc

/// Metadata that the kernel reports with received packets. Packets are also received if a kernel does not
/// report some kind of metadata.
public enum ReceiveFact: Hashable, Sendable, CaseIterable {
  /// SO_TIMESTAMPNS: time at which a packet arrived.
  case time
  /// HCI_TIME_STAMP: time at which an advertisement arrived, on the HCI raw channel.
  case advertisingTime
  /// SO_MEMINFO: number of packets dropped by a full queue, available immediately.
  case drops
  /// SO_RXQ_OVFL: number of packets dropped by a full queue, delivered with the next packet.
  case laterDrops

  /// Returns the metadata that this kernel does not report, each with the socket's error. Tests new sockets:
  /// L2CAP and HCI if the kernel has them, otherwise a UNIX socket like that of `virtual:`.
  ///
  /// `setsockopt(SO_TIMESTAMPNS, SO_RXQ_OVFL, HCI_TIME_STAMP)`, `getsockopt(SO_MEMINFO)`.
  public static func untold() throws(SystemError) -> [ReceiveFact: SystemError] {
    let link = try linkSocket()
    let number = link.rawValue
    var untold: [ReceiveFact: SystemError] = [:]
    func attempt(_ fact: ReceiveFact, _ call: String, _ body: () throws(SystemError) -> Void) {
      do throws(SystemError) { try body() } catch {
        untold[fact] = SystemError(call: call, number: error.number)
      }
    }
    attempt(.time, "setsockopt(SO_TIMESTAMPNS)") { () throws(SystemError) in
      try link.setSocketOption(SO_TIMESTAMPNS, 1)
    }
    attempt(.laterDrops, "setsockopt(SO_RXQ_OVFL)") { () throws(SystemError) in
      try link.setSocketOption(SO_RXQ_OVFL, 1)
    }
    attempt(.drops, "getsockopt(SO_MEMINFO)") { () throws(SystemError) in
      _ = try checked("getsockopt") { CInt(clamping: ringtap_socket_drops(number)) }
    }
    if let raw = try? openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    {
      let number = raw.rawValue
      attempt(.advertisingTime, "setsockopt(HCI_TIME_STAMP)") { () throws(SystemError) in
        try checked("setsockopt") { ringtap_hci_enable_time_stamps(number) }
      }
    }
    return untold
  }

  private static func linkSocket() throws(SystemError) -> FileDescriptor {
    if let link = try? openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_SEQPACKET, protocol: BTPROTO_L2CAP,
      name: "AF_BLUETOOTH, L2CAP")
    {
      return link
    }
    return try openSocket(
      family: AF_UNIX, type: CInt(SOCK_SEQPACKET.rawValue), protocol: 0, name: "AF_UNIX, SEQPACKET")
  }
}
