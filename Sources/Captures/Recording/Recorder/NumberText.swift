import Glibc

/// Numbers as text, as C's `printf` has them.
public enum NumberText {
  /// `%.*f`: rounded to so many decimals.
  public static func fixed(_ number: Double, _ decimals: Int) -> String {
    printed("%.*f", number, decimals)
  }

  /// `%.*g`: rounded to so many digits, without zeros at the end.
  public static func significant(_ number: Double, _ digits: Int) -> String {
    printed("%.*g", number, digits)
  }

  private static func printed(_ format: String, _ number: Double, _ precision: Int) -> String {
    // The longest number has 309 digits before its point.
    var text = [CChar](repeating: 0, count: 320 + precision)
    let count = text.count
    // SAFETY: the text has `count` octets; the format takes an int and a double.
    let length = unsafe withVaList([CInt(precision), number]) { unsafe vsnprintf(&text, count, format, $0) }
    return String(decoding: text.prefix(Int(length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// `%0*d`: with zeros before it, up to so many digits.
  public static func padded(_ number: Int, _ digits: Int) -> String {
    let text = "\(number.magnitude)"
    let sign = number < 0 ? "-" : ""
    return sign + String(repeating: "0", count: max(0, digits - text.count - sign.count)) + text
  }
}
