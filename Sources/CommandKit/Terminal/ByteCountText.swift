import ArgumentParser

/// `500k`, `10M`, `1G`.
package enum ByteCountText {
  private static let units: [Character: Int] = ["k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30]

  package static func parse(_ text: String) throws -> Int {
    let unit = text.last.flatMap { units[$0] }
    guard let number = Int(unit == nil ? text[...] : text.dropLast()), number > 0 else {
      throw ValidationError("'\(text)' is no size; it looks like 500k, 10M or 1G")
    }
    let (byteCount, isTooLarge) = number.multipliedReportingOverflow(by: unit ?? 1)
    guard !isTooLarge else { throw ValidationError("'\(text)' is too large") }
    return byteCount
  }
}
