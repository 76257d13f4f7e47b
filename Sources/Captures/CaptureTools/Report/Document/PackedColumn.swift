/// Integers in the form used by the report's page, read by `data.js`. A missing number is the byte 0. Each
/// other number is the difference from the one before, zigzag-encoded, plus 1, as a little-endian varint with
/// seven bits per byte.
struct PackedColumn: Sendable {
  private(set) var octets: [UInt8] = []
  private var last: Int64

  /// - Parameter start: base of the first difference.
  init(from start: Int64 = 0) { last = start }

  mutating func append(_ number: Int64?) {
    guard let number else {
      octets.append(0)
      return
    }
    let difference = number &- last
    last = number
    var code = UInt64(bitPattern: difference << 1 ^ difference >> 63) &+ 1
    while code >= 0x80 {
      octets.append(UInt8(truncatingIfNeeded: code) | 0x80)
      code >>= 7
    }
    octets.append(UInt8(code))
  }

  /// Decodes the numbers in order.
  struct Reader {
    private let octets: [UInt8]
    private var place = 0
    private var last: Int64

    init(_ column: PackedColumn, from start: Int64 = 0) {
      octets = column.octets
      last = start
    }

    mutating func next() -> Int64? {
      var (code, shift) = (0 as UInt64, 0 as UInt64)
      while place < octets.count {
        let octet = octets[place]
        place += 1
        code |= UInt64(octet & 0x7F) << shift
        shift += 7
        if octet < 0x80 { break }
      }
      guard code > 0 else { return nil }
      let zigzag = code - 1
      last = last &+ (Int64(bitPattern: zigzag >> 1) ^ -Int64(bitPattern: zigzag & 1))
      return last
    }
  }
}
