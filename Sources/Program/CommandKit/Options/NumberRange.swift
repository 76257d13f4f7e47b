package import ArgumentParser

/// The numbers that an option accepts, and their unit.
///
/// Every option with a numeric value is declared with a range: `@Option(help: …, in: .duration)`. A value
/// outside the range is rejected when the command line is parsed, before anything is opened. The message
/// names the option, the value and the range.
package struct NumberRange<Number: Comparable & LosslessStringConvertible & Sendable>: Sendable {
  private let lower: Number
  private let upper: Number
  private let includesLower: Bool
  private let unit: String

  /// Creates a closed range.
  ///
  /// - Parameter unit: the unit, such as "seconds"; empty for a plain number.
  package init(_ range: ClosedRange<Number>, _ unit: String = "") {
    (lower, upper, includesLower, self.unit) = (range.lowerBound, range.upperBound, true, unit)
  }

  /// Creates a range without its lower bound.
  ///
  /// - Parameters:
  ///   - lower: exclusive lower bound.
  ///   - upper: inclusive upper bound.
  ///   - unit: the unit.
  package init(above lower: Number, upTo upper: Number, _ unit: String = "") {
    (self.lower, self.upper, includesLower, self.unit) = (lower, upper, false, unit)
  }

  /// Parses a number.
  ///
  /// - Throws: `ValidationError` with the range. The argument parser puts the option's name and the value
  ///   before this message. NaN is in no range.
  package func parse(_ text: String) throws -> Number {
    guard let number = Number(text), includesLower ? number >= lower : number > lower, number <= upper else {
      throw ValidationError("it must be \(description)")
    }
    return number
  }
}

extension NumberRange: CustomStringConvertible {
  /// The range in words, for example `a whole number, 1 to 64` or `above 0, at most 3600 seconds`.
  package var description: String {
    let kind = Number.self is any BinaryInteger.Type ? "a whole number, " : ""
    let range =
      includesLower
      ? "\(Self.text(lower)) to \(Self.text(upper))"
      : "above \(Self.text(lower)), at most \(Self.text(upper))"
    return kind + range + (unit.isEmpty ? "" : " \(unit)")
  }

  private static func text(_ number: Number) -> String {
    let text = "\(number)"
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }
}

extension NumberRange<Double> {
  /// Time that a command runs or waits: up to 31 years.
  package static var duration: Self { Self(above: 0, upTo: 1e9, "seconds") }
  /// A fraction or a probability.
  package static var share: Self { Self(0...1) }
}

extension NumberRange<Int> {
  /// A number of items after which a command ends. The upper bound prevents an overflow of the counter.
  package static var count: Self { Self(1...1_000_000_000_000_000) }
}

extension NumberRange<UInt32> {
  /// A six-digit passkey. Core 5.4, Vol 3, Part H, 2.3.5.3.
  package static var passkey: Self { Self(0...999_999) }
}

extension Option where Value: Comparable & LosslessStringConvertible & Sendable {
  /// Creates an option for a number with a default.
  package init(
    wrappedValue: Value, name: NameSpecification = .long, help: ArgumentHelp, in range: NumberRange<Value>
  ) {
    var help = help
    // The argument parser does not print a default for options with a transform.
    help.abstract += " (default: \(wrappedValue))"
    self.init(wrappedValue: wrappedValue, name: name, help: help, transform: range.parse)
  }
}

extension Option {
  /// Creates an option for an optional number.
  package init<Number>(
    name: NameSpecification = .long, help: ArgumentHelp, in range: NumberRange<Number>
  ) where Value == Number? {
    self.init(name: name, help: help, transform: range.parse)
  }
}

/// Parses the values of a hidden option. For hidden options, the parser's own error does not list the values.
package enum Words {
  /// Parses one of the values.
  ///
  /// - Throws: `ValidationError` with the values. The argument parser puts the option's name and the given
  ///   value before this message.
  package static func parse<Value: CaseIterable & RawRepresentable<String>>(_ text: String) throws -> Value {
    if let value = Value(rawValue: text) { return value }
    let words = Value.allCases.map { "'\($0.rawValue)'" }
    throw ValidationError(
      "Please provide one of \(words.dropLast().joined(separator: ", ")) or \(words.last ?? "").")
  }
}

/// A number of bytes as written in options: `500k`, `10M`, `1G`, in powers of 1024.
package struct ByteCount: Sendable, CustomStringConvertible {
  private static let units: [Character: Int] = ["k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30]
  /// Largest value: one pebibyte.
  private static let most = 1 << 50

  package let value: Int
  package let description: String

  package static let gigabyte = ByteCount(value: 1 << 30, description: "1G")

  /// Returns a parser for an option that accepts a number of bytes.
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
