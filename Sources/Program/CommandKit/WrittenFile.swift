package import BLELinux

/// A text file written in an editor on any operating system.
package enum WrittenFile {
  /// The file's bytes without a UTF-8 byte order mark, which some Windows editors add.
  ///
  /// - Throws: the errors of `Files.octets`.
  package static func octets(of path: String, limit: Int) throws(SystemError) -> [UInt8] {
    let octets = try Files.octets(of: path, limit: limit)
    return octets.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(octets.dropFirst(3)) : octets
  }
}
