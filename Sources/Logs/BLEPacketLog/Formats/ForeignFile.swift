import BLEWire

/// Type of a file that is not a packet log, determined by its first bytes.
public enum ForeignFile: Hashable, Sendable {
  /// A file that is shorter than a log's header.
  case short(byteCount: Int)
  case zeros
  case zip, tar, gzip, zstd
  /// A compressed file: the name of the format, and the program that decompresses the file.
  case compressed(String, by: String)
  /// The text of `adb bugreport`, with or without a log in it.
  case bugReport
  /// The section between the `BTSNOOP_LOG_SUMMARY` marks of a bug report, in base64 or decoded.
  case btsnooz(isText: Bool)
  /// HCI packets with their type byte, without times.
  case rawHCI
  case json
  /// Output of `btmon` or `hcidump`.
  case monitorText
  case webPage, xml
  case text
  /// Another file: the name of the format.
  case other(String)
  case unknown

  /// Determines the type of a file.
  ///
  /// - Parameter start: the first available bytes of the file. The result is `nil` if the file is a log, even
  ///   a truncated log.
  public init?(_ start: Span<UInt8>) {
    if start.count >= 4 {
      let magic = start.u32BE(at: 0)
      guard magic != UInt32(truncatingIfNeeded: BTSnoopHeader.magic >> 32),
        PcapHeader.recognise(magic) == nil,
        magic != PcapNGBlock.sectionHeader
      else { return nil }
    }
    let octets = start.indices.prefix(Self.lookedAt).map { start[$0] }
    self = Self.recognise(octets)
  }

  /// Number of bytes at the start of a file that are examined.
  static let lookedAt = 8_192

  /// Advice for the user, as a clause.
  public var advice: String {
    switch self {
    case .short(byteCount: 0): "it is empty"
    case .short(let count):
      "it has \(count) \(count == 1 ? "byte" : "bytes"), fewer than any log: was the copy interrupted?"
    case .zeros: "it begins with zeros only: the disk lost its contents"
    case .zip:
      "it is a zip archive: unzip it, and give the log inside; in a bug report of Android that is btsnoop_hci.log, in "
        + "FS/data/misc/bluetooth/logs or FS/data/log/bt"
    case .tar: "it is a tar archive: unpack it with `tar -xf`, and give the log inside"
    case .gzip: "it is compressed by gzip twice: decompress it once with `gunzip`"
    case .zstd: "it is compressed by zstd twice: decompress it once with `unzstd`"
    case .compressed(let name, let program): "it is compressed by \(name): decompress it with `\(program)`"
    case .bugReport:
      "it is the text of an Android bug report; the log in it is packed (btsnooz): extract it with Android's "
        + "`btsnooz.py FILE > log.btsnoop`, or unzip the whole report and give its btsnoop_hci.log"
    case .btsnooz(let isText):
      "it is \(isText ? "base64 of " : "")a btsnooz log, as bug reports of Android have it: make a btsnoop file of it with "
        + "Android's `btsnooz.py`"
    case .rawHCI:
      "it seems to be raw HCI packets (H4) without times: record them as btsnoop, for example with `btmon -w FILE` or "
        + "`ringtap log record`"
    case .json: "it is JSON: give the packet log that it was made from"
    case .monitorText: "it is the text that btmon or hcidump prints: record with `btmon -w FILE` instead"
    case .webPage: "it is a web page: was the download a login or an error?"
    case .xml: "it is XML: give the packet log that it was made from"
    case .text: "it is text"
    case .other(let name): "it is \(name)"
    case .unknown: "it does not begin like btsnoop, pcap, pcapng or PacketLogger"
    }
  }

  // MARK: Recognition

  private static func recognise(_ octets: [UInt8]) -> ForeignFile {
    if octets.count < 4 { return .short(byteCount: octets.count) }
    if octets.allSatisfy({ $0 == 0 }) { return .zeros }
    for (magic, file) in magics where octets.starts(with: magic) { return file }
    if octets.count > 262, octets[257..<262].elementsEqual("ustar".utf8) { return .tar }
    if isBtsnooz(octets) { return .btsnooz(isText: false) }
    if isRawHCI(octets) { return .rawHCI }
    return text(octets)
  }

  private static let magics: [([UInt8], ForeignFile)] = [
    ([0x50, 0x4B, 0x03, 0x04], .zip), ([0x50, 0x4B, 0x05, 0x06], .zip), ([0x50, 0x4B, 0x07, 0x08], .zip),
    ([0x1F, 0x8B], .gzip), ([0x28, 0xB5, 0x2F, 0xFD], .zstd),
    ([0xFD, 0x37, 0x7A, 0x58, 0x5A], .compressed("xz", by: "unxz")),
    (Array("BZh".utf8), .compressed("bzip2", by: "bunzip2")),
    ([0x04, 0x22, 0x4D, 0x18], .compressed("lz4", by: "unlz4")),
    ([0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C], .compressed("7-Zip", by: "7z x")),
    (Array("Rar!".utf8), .compressed("RAR", by: "unrar x")),
    (Array("snoop\0\0\0".utf8), .other("a snoop file of Solaris, which has no Bluetooth")),
    (Array("SQLite format 3\0".utf8), .other("an SQLite database")),
    (Array("%PDF".utf8), .other("a PDF document")),
    ([0x89, 0x50, 0x4E, 0x47], .other("a picture")), ([0xFF, 0xD8, 0xFF], .other("a picture")),
    ([0x7F, 0x45, 0x4C, 0x46], .other("a program")),
    (Array("GMBU".utf8), .other("a capture of Microsoft Network Monitor: save it as pcap there")),
  ]

  /// Returns whether the bytes have the format of Android's `btsnooz.py`: version 1 or 2, a time of eight
  /// bytes, then a zlib stream.
  private static func isBtsnooz(_ octets: [UInt8]) -> Bool {
    octets.count >= 11 && (1...2).contains(octets[0]) && octets[9] & 0x0F == 8
      && (Int(octets[9]) << 8 | Int(octets[10])).isMultiple(of: 31)
  }

  /// Returns whether the bytes are a sequence of commands, data and events with plausible lengths. Core 5.4,
  /// Vol 4, Part A, 2.
  private static func isRawHCI(_ octets: [UInt8]) -> Bool {
    var (offset, count) = (0, 0)
    while offset < octets.count {
      let rest = octets.count - offset
      let header: (byteCount: Int, length: Int)?
      switch octets[offset] {
      case 1 where rest >= 4: header = (4, Int(octets[offset + 3]))
      case 2 where rest >= 5: header = (5, Int(octets[offset + 3]) | Int(octets[offset + 4]) << 8)
      case 3 where rest >= 4: header = (4, Int(octets[offset + 3]))
      case 4 where rest >= 3: header = (3, Int(octets[offset + 2]))
      case 5 where rest >= 5: header = (5, Int(octets[offset + 3]) | Int(octets[offset + 4] & 0x3F) << 8)
      case 1...5: header = nil
      default: return false
      }
      guard let header else { break }
      offset += header.byteCount + header.length
      count += 1
    }
    // The last packet may extend beyond the examined bytes.
    return count >= 2 && (offset <= octets.count || octets.count == lookedAt)
  }

  private static func text(_ octets: [UInt8]) -> ForeignFile {
    var octets = octets[...]
    var isWide = false
    if octets.starts(with: [0xEF, 0xBB, 0xBF]) { octets = octets.dropFirst(3) }
    if octets.starts(with: [0xFF, 0xFE]) || octets.starts(with: [0xFE, 0xFF]) {
      isWide = true
      octets = octets.dropFirst(2).filter { $0 != 0 }[...]
    }
    guard octets.allSatisfy({ $0 >= 0x20 || (0x07...0x0D).contains($0) || $0 == 0x1B }),
      isWide || isUTF8(octets)
    else { return .unknown }
    let words = String(decoding: octets, as: UTF8.self)
    let start = words.drop { $0.isWhitespace }
    if isBugReport(words) { return .bugReport }
    if start.hasPrefix("Bluetooth monitor ver") || start.hasPrefix("HCI sniffer")
      || start.hasPrefix("= Note: Linux version")
      || start.hasPrefix("> HCI Event:") || start.hasPrefix("< HCI Command:")
    {
      return .monitorText
    }
    if let first = start.first, "{[".contains(first) { return .json }
    let head = start.prefix(16).lowercased()
    if head.hasPrefix("<!doctype html") || head.hasPrefix("<html") { return .webPage }
    if head.hasPrefix("<?xml") { return .xml }
    if isBase64OfBtsnooz(start) { return .btsnooz(isText: true) }
    return .text
  }

  /// Returns whether a line marks a bug report, because it begins with the program's name or starts the
  /// section of a service.
  private static func isBugReport(_ words: String) -> Bool {
    words.split(whereSeparator: \.isNewline).contains { line in
      line.hasPrefix("== dumpstate:") || line.hasPrefix("DUMP OF SERVICE")
        || line.hasPrefix("Bugreport format version")
        || line.hasPrefix("--- BEGIN:BTSNOOP_LOG_SUMMARY")
    }
  }

  /// Returns whether the bytes are UTF-8. The last character may be incomplete.
  private static func isUTF8(_ octets: ArraySlice<UInt8>) -> Bool {
    (0...3).contains { String(validating: octets.dropLast($0), as: UTF8.self) != nil }
  }

  private static func isBase64OfBtsnooz(_ words: Substring) -> Bool {
    var (bits, count): (UInt32, Int) = (0, 0)
    var octets: [UInt8] = []
    for character in words.utf8.prefix(64) where octets.count < 12 {
      let digit: UInt8
      switch character {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit = character - UInt8(ascii: "A")
      case UInt8(ascii: "a")...UInt8(ascii: "z"): digit = character - UInt8(ascii: "a") + 26
      case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = character - UInt8(ascii: "0") + 52
      case UInt8(ascii: "+"): digit = 62
      case UInt8(ascii: "/"): digit = 63
      case 0x0A, 0x0D: continue
      default: return false
      }
      bits = bits << 6 | UInt32(digit)
      count += 6
      if count >= 8 {
        count -= 8
        octets.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      }
    }
    return isBtsnooz(octets)
  }
}
