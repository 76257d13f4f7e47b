import BLEWire
import JSONText

/// Prints fields as lines of text. `JSONLine` writes the same fields as JSON.
extension PacketText {
  /// Maximum number of list elements shown. Further elements are only counted.
  private static let shownElements = 16

  mutating func print(_ fields: [Field], _ indent: Int) {
    for field in fields { print(field, indent) }
  }

  mutating func print(_ field: Field, _ indent: Int) {
    guard field.isShown else { return }
    let label = Self.label(of: field)
    switch field.value {
    case .problem(let reason): malformed(indent, reason)
    case .octets(let octets) where label.isEmpty: dump(indent, octets.span)
    case .object where label.isEmpty: print(field.children, indent)
    case .list where label.isEmpty && (field.children.isEmpty || !field.isRow): print(field.children, indent)
    case .object:
      line(indent, "\(label):" + (field.words.map { " " + $0 } ?? ""))
      print(field.children, indent + 2)
    case .sentence: printSentence(field, label, indent)
    case .list: printList(field, label, indent)
    default:
      let value = Self.value(of: field)
      line(indent, label.isEmpty ? value : "\(label): \(value)")
      print(field.children, indent + 2)
    }
  }

  /// Prints scalar members on one line, and the other members on the following lines.
  private mutating func printSentence(_ field: Field, _ label: String, _ indent: Int) {
    var parts: [String] = []
    for child in field.children where child.isScalar && child.isShown {
      parts.append(Self.part(child))
    }
    let sentence = parts.joined(separator: ", ")
    line(indent, label.isEmpty ? sentence : sentence.isEmpty ? label : "\(label): \(sentence)")
    for child in field.children where !child.isScalar { print(child, indent + 2) }
  }

  private mutating func printList(_ field: Field, _ label: String, _ indent: Int) {
    let prefix = label.isEmpty ? "" : label + ": "
    let unit = field.unit ?? field.name.flatMap(Field.unit)
    if let words = field.words {
      line(indent, prefix + words)
    } else if field.isRow {
      line(indent, prefix + Self.row(field) + (unit.map { field.children.isEmpty ? "" : " " + $0 } ?? ""))
    } else {
      line(indent, prefix + "\(field.children.count)")
      print(Array(field.children.prefix(Self.shownElements)), indent + 2)
      let rest = field.children.count - Self.shownElements
      if rest > 0 { line(indent + 2, "and \(rest) more") }
    }
  }

  private static func row(_ field: Field) -> String {
    guard !field.children.isEmpty else { return "none" }
    let shown = field.children.prefix(shownElements).map(value).joined(separator: ", ")
    let rest = field.children.count - shownElements
    return rest > 0 ? "\(shown) and \(rest) more" : shown
  }

  /// Returns label and value as text, such as `level 78 %` or `not charging`.
  private static func part(_ field: Field) -> String {
    let label = words(of: field)
    if case .flag(let flag) = field.value { return flag ? label : "not " + label }
    return label.isEmpty ? value(of: field) : "\(label) \(value(of: field))"
  }

  private static func words(of field: Field) -> String {
    switch field.label {
    case .hidden, .none: ""
    case .words(let words): words
    case .ofName: field.name.map(Field.words) ?? ""
    }
  }

  /// Returns the label, starting with a capital letter.
  private static func label(of field: Field) -> String {
    let words = words(of: field)
    return words.first.map { $0.uppercased() + words.dropFirst() } ?? ""
  }

  private static func value(of field: Field) -> String {
    if let words = field.words { return words.printable }
    let unit = field.unit ?? field.name.flatMap(Field.unit)
    let value =
      switch field.value {
      case .null: ""
      case .flag(let flag): flag ? "yes" : "no"
      case .integer(let number): "\(number)"
      case .number(let number): "\(number)"
      case .text(let text), .problem(let text): text.printable
      case .octets(let octets): hex(octets.span)
      case .uuid(let uuid): Self.uuid(uuid)
      case .object, .sentence, .list: ""
      }
    return unit.map { "\(value) \($0)" } ?? value
  }
}

extension Field {
  /// Whether the field is shown. Empty fields are not shown.
  fileprivate var isShown: Bool { label != .hidden && (value != .null || words != nil) }

  /// Whether the field is a list of scalars.
  fileprivate var isRow: Bool { value == .list && children.allSatisfy(\.isScalar) }
}
