import BLEWire

/// The switches of an adapter outside its controller: its rfkill switch, and the authorisation of its USB
/// device.
public struct AdapterSwitches: Sendable {
  /// Type of Bluetooth radios, and the operation that changes one switch. `K: include/uapi/linux/rfkill.h`,
  /// `RFKILL_TYPE_BLUETOOTH`, `RFKILL_OP_CHANGE`.
  private static let (bluetooth, change): (UInt8, UInt8) = (2, 2)

  /// The adapter's name, such as `hci0`.
  public let name: String
  /// Folder that contains `sys` and `dev`; empty for the system's.
  private let root: String

  /// - Parameters:
  ///   - name: the adapter's name, such as `hci0`.
  ///   - root: folder that contains `sys` and `dev`; empty for the system's.
  public init(of name: String, root: String = "") { (self.name, self.root) = (name, root) }

  private var rfkillFolder: String? {
    let all = "\(root)/sys/class/rfkill"
    return Files.names(in: all).sorted().lazy.map { "\(all)/\($0)" }.first {
      Self.value("type", in: $0) == "bluetooth" && Self.value("name", in: $0) == name
    }
  }

  /// Whether a switch or key on the machine blocks the radio. No program can change that.
  public var isHardBlocked: Bool {
    rfkillFolder.flatMap { Self.value("hard", in: $0) } == "1"
  }

  /// Number of the adapter's rfkill switch; `nil` if the adapter has no switch.
  public var rfkillNumber: UInt32? {
    rfkillFolder.flatMap { Self.value("index", in: $0) }.flatMap { UInt32($0) }
  }

  /// Blocks or unblocks an rfkill switch. Blocking closes the adapter without waiting for its controller;
  /// unblocking leaves it down.
  ///
  /// `open("/dev/rfkill", O_WRONLY)`, `write`. Requires write access to the device, but no capability. May
  /// block for seconds.
  ///
  /// - Parameters:
  ///   - isBlocked: whether to block it.
  ///   - number: number of the switch: `rfkillNumber`.
  public func setBlocked(_ isBlocked: Bool, number: UInt32) throws(SystemError) {
    // `struct rfkill_event`: number, type, operation, soft, hard. The number is in the processor's byte order,
    // which is little-endian on all supported ones.
    let event = [UInt8](encoding: 8) {
      $0.append(u32: number)
      $0.append(Self.bluetooth)
      $0.append(Self.change)
      $0.append(isBlocked ? 1 : 0)
      $0.append(0)
    }
    try Files.command("\(root)/dev/rfkill", event.span)
  }

  /// The file that authorises the adapter's USB device; `nil` if the adapter is not on USB.
  ///
  /// The adapter's parent is an interface of the device: `Documentation/usb/authorization.rst`.
  public var authorisation: String? {
    Files.absolute("\(root)/sys/class/bluetooth/\(name)/device/../authorized")
  }

  /// Authorises a USB device, or withdraws its authorisation, which removes its adapter.
  ///
  /// `open`, `write`. By default only root may write the file. May block for seconds.
  ///
  /// - Parameters:
  ///   - isAuthorised: whether to authorise the device.
  ///   - path: the file: `authorisation`.
  public static func setAuthorised(_ isAuthorised: Bool, at path: String) throws(SystemError) {
    try Files.command(path, [isAuthorised ? 0x31 : 0x30].span)
  }

  private static func value(_ name: String, in folder: String) -> String? {
    Files.text(at: "\(folder)/\(name)").map { String($0.prefix { $0 != "\n" }) }
  }
}
