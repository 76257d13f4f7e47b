import CBluetoothLinux
import Glibc

/// The controller's side of a virtual HCI device: the kernel makes an adapter, we are its hardware.
///
/// Each read is one packet from the host with its H4 type octet, each write is one to the host. The adapter
/// goes when this is closed.
public struct VHCI: ~Copyable {
  private static let path = "/dev/vhci"
  /// A control packet, and "primary controller". `K: drivers/bluetooth/hci_vhci.c`.
  private static let createRequest: [UInt8] = [0xFF, 0x00]

  /// For the packets; non-blocking.
  package let descriptor: FileDescriptor
  /// 0 for `hci0`.
  public let index: UInt16

  /// Makes an adapter. The kernel starts to talk to it at once, so attach a controller without delay.
  ///
  /// `open("/dev/vhci", O_RDWR)`; needs the right to open the device, which is root's by default.
  public init() throws(VHCIError) {
    let number: CInt
    do throws(SystemError) {
      number = try checked("open \(Self.path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(Self.path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
      }
    } catch {
      switch error.number {
      case ENOENT, ENODEV, ENXIO: throw .noDevice
      case EACCES, EPERM: throw .notPermitted
      default: throw .system(error)
      }
    }
    let descriptor = FileDescriptor(owning: number)
    var answer = [UInt8](repeating: 0, count: 8)
    do throws(SystemError) {
      _ = try descriptor.write(Self.createRequest.span)
      let count = try descriptor.read(into: &answer)
      guard count == 4, answer[0] == Self.createRequest[0] else {
        throw SystemError(call: "read \(Self.path)", number: EPROTO)
      }
    } catch { throw .system(error) }
    index = UInt16(answer[2]) | UInt16(answer[3]) << 8
    self.descriptor = descriptor
  }

  /// Gives up the descriptor: packets are read and written elsewhere, the adapter lives as long as it.
  package consuming func takeDescriptor() -> FileDescriptor { descriptor }

  /// Lets the kernel use the adapter and waits until it has set it up. The controller must be answering.
  ///
  /// `ioctl(HCIDEVUP)`; needs CAP_NET_ADMIN.
  package static func bringUp(index: UInt16) throws(VHCIError) {
    do throws(SystemError) {
      let socket = try openSocket(
        family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI,
        name: "AF_BLUETOOTH, HCI")
      let number = socket.rawValue
      try checked("ioctl(HCIDEVUP)") { ringtap_hci_device_up(number, index) }
    } catch {
      if error.number == EALREADY { return }
      throw error.number == EPERM ? .notPermitted : .system(error)
    }
  }
}

/// Why there is no virtual adapter: the cause, and what to do.
public enum VHCIError: Error, Hashable, Sendable {
  case noDevice
  case notPermitted
  case system(SystemError)
}

extension VHCIError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .noDevice:
      "this kernel has no /dev/vhci; load the module with `modprobe hci_vhci`, or run inside "
        + "`Tools/test-kernel run -- COMMAND`"
    case .notPermitted: "a virtual adapter needs the rights of root; run with sudo"
    case .system(let error): "the virtual adapter failed: \(error)"
    }
  }
}
