import CBluetoothLinux
import Glibc

/// The controller side of a virtual HCI device. The kernel creates an adapter, and this process acts as its
/// controller.
///
/// Each read is one packet from the host with its H4 type byte; each write is one packet to the host. The
/// adapter is removed when this value is released.
public struct VHCI: ~Copyable {
  private static let path = "/dev/vhci"
  /// A control packet that creates a primary controller. Linux, `drivers/bluetooth/hci_vhci.c`.
  private static let createRequest: [UInt8] = [0xFF, 0x00]

  /// Descriptor for the packets; non-blocking.
  package let descriptor: FileDescriptor
  /// Index of the adapter: 0 for `hci0`.
  public let index: UInt16

  /// Creates an adapter. The kernel sends commands to it at once, so attach a controller without delay.
  ///
  /// `open("/dev/vhci", O_RDWR)`. Requires access to the device, which by default only root has.
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

  /// Returns the descriptor, so that its owner can read and write packets. The adapter exists until the
  /// descriptor is closed.
  package consuming func takeDescriptor() -> FileDescriptor { descriptor }

  /// Brings the adapter up and waits until the kernel has initialised it. The controller must already respond
  /// to commands.
  ///
  /// `ioctl(HCIDEVUP)`; requires CAP_NET_ADMIN.
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

/// Reason why a virtual adapter could not be created, with advice.
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
