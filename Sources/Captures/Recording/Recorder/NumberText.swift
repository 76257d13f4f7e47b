import Glibc

/// Formats numbers as text, like C's `printf`.
public enum NumberText {
  /// Formats a number as `%.*f`: rounded to the given number of decimals.
  public static func fixed(_ number: Double, _ decimals: Int) -> String {
    printed("%.*f", number, decimals)
  }

  /// Formats a number as `%.*g`: rounded to the given number of digits, without trailing zeros.
  public static func significant(_ number: Double, _ digits: Int) -> String {
    printed("%.*g", number, digits)
  }

  private static func printed(_ format: String, _ number: Double, _ precision: Int) -> String {
    // The longest number has 309 digits before the point.
    var text = [CChar](repeating: 0, count: 320 + precision)
    let count = text.count
    // SAFETY: the text has `count` bytes. The format requires an int and a double.
    let length = unsafe withVaList([CInt(precision), number]) { unsafe vsnprintf(&text, count, format, $0) }
    return String(decoding: text.prefix(Int(length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Formats a number as `%0*d`: with leading zeros to the given number of digits.
  public static func padded(_ number: Int, _ digits: Int) -> String {
    let text = "\(number.magnitude)"
    let sign = number < 0 ? "-" : ""
    return sign + String(repeating: "0", count: max(0, digits - text.count - sign.count)) + text
  }
}
