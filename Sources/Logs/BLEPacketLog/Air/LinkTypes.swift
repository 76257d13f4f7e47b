/// Texts about link types.
public enum LinkTypes {
  /// Describes an unsupported link type, and lists the supported ones.
  public static func unread(_ number: UInt32) -> String {
    let name = names[number].map { " (\($0))" } ?? ""
    return
      "link type \(number)\(name), which is not supported; supported are HCI (187, 201, 254) and Bluetooth "
      + "LE from the air (192, 251, 256, 272)"
  }

  /// Names of link types that are often confused with the supported ones, or found beside them.
  private static let names: [UInt32: String] = [
    0: "loopback", 1: "Ethernet", 101: "raw IP", 105: "Wi-Fi", 113: "Linux cooked",
    127: "Wi-Fi with radiotap",
    189: "USB of Linux", 195: "IEEE 802.15.4", 220: "USB of Linux", 230: "IEEE 802.15.4 without checksum",
    249: "USB of Windows", 255: "Bluetooth BR/EDR baseband", 276: "Linux cooked", 283: "IEEE 802.15.4 TAP",
  ]
}
