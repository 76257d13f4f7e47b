package import BLELinux

/// A file that a person wrote with an editor of any system.
package enum WrittenFile {
  /// Its bytes, without the byte order mark that editors of Windows put before UTF-8.
  ///
  /// - Throws: as `Files.octets`.
  package static func octets(of path: String, limit: Int) throws(SystemError) -> [UInt8] {
    let octets = try Files.octets(of: path, limit: limit)
    return octets.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(octets.dropFirst(3)) : octets
  }
}
