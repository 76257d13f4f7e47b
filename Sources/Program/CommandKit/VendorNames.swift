import BLELinux
package import BLEWire

/// Names of the companies to which the IEEE has assigned the first bytes of public addresses.
///
/// The list is part of udev's hardware database, which is present on most systems with systemd. The list has
/// about 50,000 sorted blocks of 24, 28 or 36 bits. Looking up a name takes about forty reads of half a
/// kilobyte from the file, and no memory. IEEE Std 802-2014, 8.2.
package struct VendorNames: Sendable {
  /// Paths of `20-OUI.hwdb` in systemd 44 and later.
  package static let places = ["/usr/lib/udev/hwdb.d/20-OUI.hwdb", "/lib/udev/hwdb.d/20-OUI.hwdb"]

  private let path: String?
  private let byteCount: Int

  /// Opens the list of names.
  ///
  /// - Parameter places: paths of the list; the first existing file is used. If no file exists, no address
  ///   has a name.
  package init(in places: [String] = places) {
    path = places.first { Files.exists($0) }
    byteCount = path.flatMap { Files.byteCount(of: $0) } ?? 0
  }

  /// Returns the company of an address.
  ///
  /// - Returns: `nil` for a random address, for an unknown block, and for a block with a private owner.
  package func name(of address: DeviceAddress) -> String? {
    guard let path, address.type == .public else { return nil }
    let digits = String(address.bits | 1 << 48, radix: 16, uppercase: true).dropFirst()
    for count in [9, 7, 6] {
      guard let name = name("OUI:\(digits.prefix(count))*", path) else { continue }
      // The block is divided, and this part has no owner.
      return name == "IEEE Registration Authority" ? nil : name
    }
    return nil
  }

  /// Size of a read in bytes, more than two lines of the file, so that each read contains the start of a
  /// line.
  private static let blockByteCount = 512

  private static func block(_ path: String, from offset: Int, _ limit: Int = blockByteCount) -> [UInt8] {
    (try? Files.octets(of: path, from: offset, limit: limit)) ?? []
  }

  private func name(_ key: String, _ path: String) -> String? {
    let wanted = Array(key.utf8)
    var (low, high) = (0, byteCount)
    while high - low > Self.blockByteCount {
      let middle = low + (high - low) / 2
      guard let found = Self.firstKey(in: Self.block(path, from: middle)) else {
        high = middle
        continue
      }
      if wanted.lexicographicallyPrecedes(found.key) { high = middle } else { low = middle + found.place }
    }
    let lines = Self.block(path, from: low, 3 * Self.blockByteCount).split(separator: UInt8(ascii: "\n"))
    guard let line = lines.firstIndex(where: { $0.elementsEqual(wanted) }), line + 1 < lines.endIndex,
      let equals = lines[line + 1].firstIndex(of: UInt8(ascii: "="))
    else { return nil }
    let name = String(decoding: lines[line + 1][(equals + 1)...], as: UTF8.self)
    return name.isEmpty ? nil : name
  }

  /// Returns the first complete key in the block that begins a line, and the key's position. Skips the
  /// incomplete first line.
  private static func firstKey(in block: [UInt8]) -> (key: ArraySlice<UInt8>, place: Int)? {
    var rest = block[...]
    while let feed = rest.firstIndex(of: UInt8(ascii: "\n")) {
      rest = block[(feed + 1)...]
      guard rest.starts(with: "OUI:".utf8) else { continue }
      guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
      return (rest[..<end], feed + 1)
    }
    return nil
  }
}
