public import BLEWire
import CBluetoothLinux
import Glibc

/// The kernel's management interface: commands to its Bluetooth host and events from it, for all adapters.
public enum ManagementSocket {
  /// Opens the control channel.
  ///
  /// `socket(AF_BLUETOOTH, SOCK_RAW, BTPROTO_HCI)`, `bind(HCI_DEV_NONE, HCI_CHANNEL_CONTROL)`. Without
  /// CAP_NET_ADMIN the open succeeds, but the kernel refuses nearly all commands and sends nearly no events.
  /// An inherited socket keeps the privileges of the process that opened it.
  package static func open() throws(SystemError) -> FileDescriptor {
    if let handed = InheritedSockets.take(.management) { return handed }
    return try listen()
  }

  /// Like `open`, but leaves an inherited socket to others. Without CAP_NET_ADMIN it receives the events of
  /// adapters that are added and removed.
  package static func listen() throws(SystemError) -> FileDescriptor {
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    try checked("bind(HCI_CHANNEL_CONTROL)") {
      ringtap_hci_bind(number, UInt16(HCI_DEV_NONE), UInt16(HCI_CHANNEL_CONTROL))
    }
    return descriptor
  }
}

/// A link of an adapter, created by any program.
public struct AdapterLink: Hashable, Sendable {
  /// Address of the peer. Its type is always `.public`, because the kernel does not report the type here.
  public let peer: DeviceAddress
  public let handle: ConnectionHandle
  public let isLowEnergy: Bool

  public init(peer: DeviceAddress, handle: ConnectionHandle, isLowEnergy: Bool) {
    self.peer = peer
    self.handle = handle
    self.isLowEnergy = isLowEnergy
  }

  private static let limit = 64

  /// Returns the links of an adapter that the kernel's host manages, at most 64. Requires no capability.
  ///
  /// `ioctl(HCIGETCONNLIST)`.
  public static func all(index: UInt16) throws(SystemError) -> [AdapterLink] {
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    var links = [ringtap_hci_link](repeating: ringtap_hci_link(), count: limit)
    let count = try checked("ioctl(HCIGETCONNLIST)") {
      // SAFETY: `links` has room for `limit` entries.
      unsafe ringtap_hci_links(number, index, &links, CInt(limit))
    }
    return links.prefix(Int(count)).map {
      AdapterLink(
        peer: DeviceAddress(bits: $0.address, type: .public), handle: ConnectionHandle($0.handle),
        isLowEnergy: $0.is_low_energy != 0)
    }
  }
}

extension ManagementSocket {
  private static let answerByteCount = 1024
  /// Maximum number of packets before the reply, such as events of other adapters.
  private static let packetLimit = 64

  /// Sends one packet on a new socket, then passes each received packet to `take` until `take` returns
  /// `true`. Blocks: do not call this in a task or on an event loop.
  ///
  /// - Parameters:
  ///   - packet: the command.
  ///   - seconds: maximum time between two packets.
  ///   - take: receives each packet from the kernel. Returns `true` to stop.
  /// - Throws: ETIMEDOUT if `take` has not returned `true` within about this time.
  public static func ask(
    _ packet: Span<UInt8>, within seconds: Int = 1, _ take: (Span<UInt8>) -> Bool
  ) throws(SystemError) {
    let descriptor = try listen()
    let number = descriptor.rawValue
    var answer = [UInt8](repeating: 0, count: answerByteCount)
    var length = CInt(packet.count)
    for _ in 0..<packetLimit {
      let count = try checked("exchange(HCI_CHANNEL_CONTROL)") {
        // SAFETY: the call gets the lengths of both arrays.
        unsafe packet.withUnsafeBufferPointer {
          unsafe ringtap_exchange(
            number, $0.baseAddress, length, &answer, CInt(answerByteCount), CInt(seconds * 1000))
        }
      }
      if count == 0 { break }
      if take(answer.span.extracting(..<Int(count))) { return }
      length = 0
    }
    throw SystemError(call: "exchange(HCI_CHANNEL_CONTROL)", number: ETIMEDOUT)
  }
}
