/// Nanoseconds since the Unix epoch in the form of our JSON: a string, because many JSON parsers round such
/// numbers.
package struct UnixNanoseconds: Decodable, Hashable, Comparable, Sendable {
  package let value: Int64

  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let text = try container.decode(String.self)
    guard let value = Int64(text) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "'\(text)' are no nanoseconds")
    }
    self.value = value
  }

  package static func < (a: Self, b: Self) -> Bool { a.value < b.value }
}
