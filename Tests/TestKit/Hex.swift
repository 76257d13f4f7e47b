/// Parses pairs of hexadecimal digits. White space is allowed.
package func octetsOf(_ hex: String) -> [UInt8] {
  let digits = Array(hex.utf8.filter { $0 > UInt8(ascii: " ") })
  precondition(digits.count.isMultiple(of: 2), "odd number of digits: \(hex)")
  return stride(from: 0, to: digits.count, by: 2).map { index in
    guard let octet = UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16) else {
      preconditionFailure("not hexadecimal: \(hex)")
    }
    return octet
  }
}

package func hexOf(_ octets: some Sequence<UInt8>) -> String {
  octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

/// Copies the bytes to an array.
package func array(_ octets: Span<UInt8>) -> [UInt8] { octets.indices.map { octets[$0] } }
