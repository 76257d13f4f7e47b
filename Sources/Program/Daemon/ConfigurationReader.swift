import CaptureTools
import JSONText

/// Reads a user's JSON file. Collects all errors with their line numbers.
struct ConfigurationReader {
  /// An error: the file is not valid JSON.
  struct NoJSON: Error {
    var line: Int
    var text: String
  }

  private let root: JSONDocument
  private let places: JSONDocument.Places
  private var problems: [DaemonConfiguration.Invalid.Problem] = []
  /// The current object, and its JSON Pointer.
  private var object: JSONDocument
  private var pointer = ""
  /// Keys that the reader has looked up, by the pointer of their object. The reader reports all other keys as
  /// unknown.
  private var known: [String: Set<String>] = [:]

  init(_ octets: [UInt8]) throws(NoJSON) {
    do throws(JSONDocument.Failure) { (root, places) = try JSONDocument.read(octets) } catch {
      let line = JSONDocument.line(of: error.offset, in: octets)
      let what = error.offset < octets.count ? "invalid JSON from here on" : "the file ends too early"
      throw NoJSON(line: line, text: "\(what): a comma, quote or bracket before it is missing or superfluous")
    }
    object = root
    guard case .object = root else {
      throw NoJSON(line: 1, text: "the file is not a JSON object: it must begin with { and end with }")
    }
    for place in places.repeated {
      problems.append(.init(line: place.line, text: "\(Self.name(place.pointer)) appears twice"))
    }
  }

  // MARK: Values

  func has(_ key: String) -> Bool { object[key] != nil }

  mutating func text(_ key: String) -> String? { value(key, "a string in quotes") { $0.text } }

  mutating func number(_ key: String, _ range: ClosedRange<Double>) -> Double? {
    guard let number = value(key, "a number", \.real) else { return nil }
    guard !range.contains(number) else { return number }
    note(key, "\(key) must be \(Self.short(range.lowerBound)) … \(Self.short(range.upperBound))")
    return nil
  }

  mutating func whole(_ key: String, _ range: ClosedRange<Int>) -> Int? {
    guard let number = number(key, Double(range.lowerBound)...Double(range.upperBound)) else { return nil }
    guard let whole = Int(exactly: number) else {
      note(key, "\(key) must be a whole number")
      return nil
    }
    return whole
  }

  mutating func choice(_ key: String, _ choices: [String]) -> String? {
    guard let text = text(key) else { return nil }
    guard !choices.contains(text) else { return text }
    note(key, "'\(text)' is not one of \(choices.joined(separator: ", "))")
    return nil
  }

  /// Reads a value with the parser of the command-line option of the same name. Numbers may be in quotes.
  ///
  /// - Parameters:
  ///   - section: the name of the object in messages.
  ///   - parse: throws an error that describes the text.
  mutating func parsed<Value>(
    _ key: String, of section: String, _ parse: (String) throws -> Value
  ) -> Value? {
    let text = value(key, "a string or a number") { value in
      switch value {
      case .text(let text), .number(let text): text
      default: nil
      }
    }
    guard let text else { return nil }
    do { return try parse(text) } catch {
      note(key, "\(section): \(error)")
      return nil
    }
  }

  /// Reads a value that has a range, with the parser of the command-line option of the same name.
  ///
  /// - Parameter parse: throws an error that describes the range.
  mutating func ranged<Value>(
    _ key: String, of section: String, _ parse: (String) throws -> Value
  ) -> Value? {
    parsed(key, of: section) { text in
      do { return try parse(text) } catch { throw OutOfRange(key: key, text: text, range: "\(error)") }
    }
  }

  private struct OutOfRange: Error, CustomStringConvertible {
    let key: String
    let text: String
    let range: String

    var description: String { "the value '\(text)' is invalid for \(key): \(range)" }
  }

  /// Reads an object.
  ///
  /// - Returns: the result of `read`; `nil` if the object is missing or `read` returns `nil`.
  mutating func section<Value>(
    _ key: String, _ read: (inout ConfigurationReader) -> Value?
  ) -> Value? {
    let document = value(key, "an object in braces") { value in
      if case .object = value { value } else { nil }
    }
    guard let document else { return nil }
    return within(document, key, read)
  }

  mutating func objects<Value>(
    _ key: String, _ read: (inout ConfigurationReader) -> Value
  ) -> [Value] {
    guard let elements = value(key, "a list in brackets", { $0.array }) else { return [] }
    return elements.enumerated().compactMap { index, element in
      guard case .object = element else {
        note("\(key)/\(index)", "each of \(key) must be an object in braces")
        return nil
      }
      return within(element, "\(key)/\(index)", read)
    }
  }

  /// Records an error of the current object as a whole.
  mutating func note(_ text: String) {
    problems.append(.init(line: places.lines[pointer] ?? 1, text: text))
  }

  private mutating func within<Value>(
    _ document: JSONDocument, _ key: String, _ read: (inout ConfigurationReader) -> Value
  ) -> Value {
    let outer = (object, pointer)
    (object, pointer) = (document, pointer + "/" + key)
    defer { (object, pointer) = outer }
    let value = read(&self)
    noteUnknown()
    return value
  }

  private mutating func value<Value>(
    _ key: String, _ what: String, _ read: (JSONDocument) -> Value?
  ) -> Value? {
    known[pointer, default: []].insert(key)
    guard let member = object[key] else { return nil }
    guard let value = read(member) else {
      note(key, "\(key) must be \(what)")
      return nil
    }
    return value
  }

  // MARK: Problems

  /// Records that a required key is missing.
  ///
  /// - Returns: `value`, as a placeholder in place of the missing value.
  mutating func missing<Value>(_ key: String, _ why: String, _ value: Value) -> Value {
    note("\"\(key)\" is missing: \(why)")
    return value
  }

  /// Records an error.
  ///
  /// - Parameter key: a key of the current object, or a pointer relative to it.
  mutating func note(_ key: String, _ text: String) {
    problems.append(.init(line: line(of: key), text: text))
  }

  private func line(of key: String) -> Int {
    places.lines[pointer + "/" + key] ?? places.lines[pointer] ?? 1
  }

  private mutating func noteUnknown() {
    guard case .object(let members) = object else { return }
    let known = known[pointer] ?? []
    for key in members.keys where !known.contains(key) {
      let near = known.min { Self.distance($0, key) < Self.distance($1, key) }
      let isTypo = near.map { Self.distance($0, key) <= 3 } ?? false
      let hint =
        isTypo
        ? "did you mean \"\(near ?? "")\"?" : "known keys are \(known.sorted().joined(separator: ", "))"
      note(key, "unknown key \"\(key)\"; \(hint)")
    }
  }

  /// Reports unknown keys and returns the errors.
  ///
  /// - Returns: all errors, sorted by line.
  mutating func finish() -> [DaemonConfiguration.Invalid.Problem] {
    noteUnknown()
    return problems.sorted { ($0.line, $0.text) < ($1.line, $1.text) }
  }

  private static func name(_ pointer: String) -> String {
    "\"\(pointer.split(separator: "/").last ?? "")\""
  }

  private static func short(_ number: Double) -> String {
    number == number.rounded() && abs(number) < 1e15 ? "\(Int(number))" : "\(number)"
  }

  /// Returns the edit distance: the number of letters to add, remove or change. Wagner and Fischer 1974.
  private static func distance(_ one: String, _ other: String) -> Int {
    let (one, other) = (Array(one.utf8.prefix(40)), Array(other.utf8.prefix(40)))
    var row = Array(0...other.count)
    for (place, letter) in one.enumerated() {
      var corner = row[0]
      row[0] = place + 1
      for column in other.indices {
        let changed = corner + (letter == other[column] ? 0 : 1)
        corner = row[column + 1]
        row[column + 1] = min(changed, row[column] + 1, corner + 1)
      }
    }
    return row[other.count]
  }
}
