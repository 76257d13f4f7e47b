import ArgumentParser

/// A number of bytes as written in options: `500k`, `10M`, `1G`, in powers of 1024.
package struct ByteCount: Sendable, CustomStringConvertible {
  private static let units: [Character: Int] = ["k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30]
  /// Largest value: one pebibyte.
  private static let most = 1 << 50

  package let value: Int
  package let description: String

  package static let gigabyte = ByteCount(value: 1 << 30, description: "1G")

  /// Returns a parser for an option's values.
  ///
  /// - Parameter least: the smallest number of bytes that the option accepts.
  /// - Returns: an option's `transform`, which throws `ValidationError` with the range.
  package static func atLeast(_ least: ByteCount) -> @Sendable (String) throws -> ByteCount {
    { text in
      let unit = text.last.flatMap { units[$0] }
      guard let number = Int(unit == nil ? text[...] : text.dropLast()), number > 0,
        case let (value, isTooLarge) = number.multipliedReportingOverflow(by: unit ?? 1), !isTooLarge,
        (least.value...most).contains(value)
      else { throw ValidationError("it must be \(least) to 1048576G bytes, such as 500k, 10M or 1G") }
      return ByteCount(value: value, description: text)
    }
  }

  package static let one = ByteCount(value: 1, description: "1")
  package static let fourKilobytes = ByteCount(value: 1 << 12, description: "4k")
}
