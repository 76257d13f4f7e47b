import BLEWire

/// A checksum of all packets, requests and faults, and the most recent of them as text.
///
/// Two runs are equal if each packet of both directions has the same bytes at the same virtual time, and each
/// request and each fault has the same position among them.
final class Trace {
  /// Number of entries that are kept to explain a finding.
  static let kept = 60

  private struct Entry {
    var time: MonotonicTime
    var mark: String
    var octets: [UInt8]
    /// Number of consecutive notifications. Only the first of them is printed.
    var count = 1
  }

  /// FNV-1a over 64-bit words. https://datatracker.ietf.org/doc/html/draft-eastlake-fnv
  private(set) var checksum: UInt64 = 0xCBF2_9CE4_8422_2325
  private var last: [Entry] = []
  private var next = 0

  private func mix(_ word: UInt64) { checksum = (checksum ^ word) &* 0x0000_0100_0000_01B3 }

  func packet(_ mark: StaticString, _ octets: Span<UInt8>, at time: MonotonicTime) {
    mix(UInt64(bitPattern: time.nanoseconds))
    var word = UInt64(octets.count)
    for index in octets.indices {
      word = word << 8 | UInt64(octets[index])
      if index % 7 == 6 {
        mix(word)
        word = 0
      }
    }
    mix(word)
    if octets.count > 9, octets[0] == 2, octets[9] == 0x1B {
      let index = (next + Self.kept - 1) % Self.kept
      if index < last.count, last[index].octets.count > 9, last[index].octets[9] == 0x1B {
        last[index].count += 1
        return
      }
    }
    keep(Entry(time: time, mark: "\(mark)", octets: [UInt8](encoding: octets.count) { $0.append(octets) }))
  }

  func note(_ text: String, at time: MonotonicTime) {
    mix(UInt64(bitPattern: time.nanoseconds))
    for octet in text.utf8 { mix(UInt64(octet)) }
    keep(Entry(time: time, mark: text, octets: []))
  }

  private func keep(_ entry: Entry) {
    if last.count < Self.kept {
      last.append(entry)
    } else {
      last[next % Self.kept] = entry
    }
    next += 1
  }

  /// The last entries in order: milliseconds, kind, bytes from the H4 type byte on.
  var lines: [String] {
    let count = last.count
    return (0..<count).map { index in
      let entry = last[count < Self.kept ? index : (next + index) % Self.kept]
      let digits = entry.octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
      return
        "\(Double(entry.time.nanoseconds / 1000) / 1000) ms  \(entry.mark) \(digits)\(entry.count > 1 ? " × \(entry.count)" : "")"
    }
  }
}
