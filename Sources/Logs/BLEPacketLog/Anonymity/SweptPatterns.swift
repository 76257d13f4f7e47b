/// Finds the longest known name or key at each place of a log, in time independent of their number.
///
/// Prefixes are looked up by hash. Each hash extends that of the next shorter prefix. Only lengths of
/// patterns with the same first bytes are tried.
struct SweptPatterns: Sendable {
  /// Length of the shortest pattern, in bytes.
  static let shortest = 4

  private struct Pattern: Sendable {
    let original: [UInt8]
    let replacement: [UInt8]
  }

  /// Random, so that the author of a log cannot construct hash collisions.
  private let seed = UInt64.random(in: .min ... .max)
  private var patterns: [UInt64: Pattern] = [:]
  /// Lengths by the first four bytes, in ascending order.
  private var lengths: [UInt32: [Int]] = [:]
  /// Whether a pattern starts with these two bytes.
  private var starts = [Bool](repeating: false, count: 65_536)

  /// Adds a pattern of at least `shortest` bytes.
  mutating func insert(_ original: [UInt8], _ replacement: [UInt8]) {
    starts[Int(original[0]) << 8 | Int(original[1])] = true
    let places = lengths[Self.start(original, 0)] ?? []
    if let place = places.firstIndex(where: { $0 >= original.count }) {
      if places[place] != original.count {
        lengths[Self.start(original, 0)]?.insert(original.count, at: place)
      }
    } else {
      lengths[Self.start(original, 0), default: []].append(original.count)
    }
    patterns[hash(seed, original, 0..<original.count)] = Pattern(original: original, replacement: replacement)
  }

  /// Returns the replacement of the longest pattern at `index`.
  func longest(in octets: [UInt8], at index: Int) -> [UInt8]? {
    guard index + Self.shortest <= octets.count, starts[Int(octets[index]) << 8 | Int(octets[index + 1])],
      let lengths = lengths[Self.start(octets, index)]
    else { return nil }
    var found: [UInt8]?
    var (hash, end) = (seed, index)
    for length in lengths where index + length <= octets.count {
      hash = self.hash(hash, octets, end..<index + length)
      end = index + length
      if let pattern = patterns[hash], octets[index..<end].elementsEqual(pattern.original) {
        found = pattern.replacement
      }
    }
    return found
  }

  /// FNV-1a with another offset basis, and a shift that mixes high bits into low ones.
  private func hash(_ before: UInt64, _ octets: [UInt8], _ range: Range<Int>) -> UInt64 {
    var hash = before
    for place in range { hash = (hash ^ hash >> 32 ^ UInt64(octets[place])) &* 0x0000_0100_0000_01B3 }
    return hash
  }

  private static func start(_ octets: [UInt8], _ index: Int) -> UInt32 {
    UInt32(octets[index]) << 24 | UInt32(octets[index + 1]) << 16 | UInt32(octets[index + 2]) << 8
      | UInt32(octets[index + 3])
  }
}
