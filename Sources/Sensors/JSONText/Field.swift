package import BLEWire

/// Decoded value, shown as a member of a JSON object or as a line of text.
///
/// Dissectors build trees of fields with `FieldList`. `JSONLine.members(_:)` writes a tree as JSON; another
/// renderer writes the lines of `log show`. The tree determines the content, and the renderers determine the
/// form.
package struct Field: Hashable, Sendable {
  package enum Value: Hashable, Sendable {
    case null
    case flag(Bool)
    case integer(Int64)
    case number(Double)
    case text(String)
    /// Bytes in hexadecimal. Text output prints them in lines of sixteen bytes if the field has no label.
    case octets([UInt8])
    case uuid(BluetoothUUID)
    /// Reason why the following bytes were not decoded.
    case problem(String)
    /// The children are members. Text output prints each member on its own line.
    case object
    /// The children are members. Text output prints them on one line if all are scalars.
    case sentence
    /// The children are elements of a list.
    case list
  }

  /// Label before the value in text output.
  package enum Label: Hashable, Sendable {
    /// Text output omits the field and its children.
    case hidden
    /// Text output prints the value or the children without a label.
    case none
    /// Derived from the name: `runningSteps` becomes "running steps".
    case ofName
    case words(String)
  }

  /// Key in JSON; `nil` if JSON omits the field. Elements of a list have no name.
  package var name: String?
  package var label: Label
  package var value: Value
  /// Unit after the value in text output; `nil` if the name ends in the unit, as in `distanceMeters`.
  package var unit: String?
  /// Text that replaces value and unit in text output.
  package var words: String?
  /// Position of the value in the dissected bytes, if the dissector provides it.
  package var octets: Range<Int>?
  /// Members or elements. For any other value, additional lines of text output.
  package var children: [Field]

  package init(
    _ name: String?, _ value: Value, _ label: Label = .ofName, unit: String? = nil, words: String? = nil,
    octets: Range<Int>? = nil, children: [Field] = []
  ) {
    self.name = name
    self.label = label
    self.value = value
    self.unit = unit
    self.words = words
    self.octets = octets
    self.children = children
  }

  /// Whether the value fits on one line.
  package var isScalar: Bool {
    switch value {
    case .object, .sentence, .list, .problem: false
    default: true
    }
  }
}

/// Value that describes itself as fields.
package protocol FieldSource {
  func describe(into fields: inout FieldList)
}

/// List of fields under construction: members of an object, or elements of a list.
package struct FieldList: Hashable, Sendable {
  package enum Reader: Hashable, Sendable {
    case anyone
    /// Only JSON is written, so no text is generated.
    case programs
  }

  package let reader: Reader
  package private(set) var fields: [Field] = []

  package init(for reader: Reader = .anyone) { self.reader = reader }

  package init(of source: some FieldSource, for reader: Reader = .anyone) {
    self.init(for: reader)
    source.describe(into: &self)
  }

  /// Returns the text after a label if text is generated; otherwise `nil`.
  package func words(_ words: @autoclosure () -> String?) -> String? { reader == .anyone ? words() : nil }

  package mutating func append(_ field: Field) { fields.append(field) }

  package mutating func members(of source: some FieldSource) { source.describe(into: &self) }

  // MARK: Members

  /// Adds a member; `nil` becomes `null`.
  package mutating func member(
    _ name: String, _ text: String?, _ label: Field.Label = .ofName, words: @autoclosure () -> String? = nil
  ) {
    fields.append(Field(name, text.map { .text($0) } ?? .null, label, words: self.words(words())))
  }

  /// Adds a member; `nil` becomes `null`.
  package mutating func member(
    _ name: String, _ number: (some BinaryInteger)?, _ label: Field.Label = .ofName, unit: String? = nil,
    words: @autoclosure () -> String? = nil
  ) {
    let value = number.map { Field.Value.integer(Int64(clamping: $0)) } ?? .null
    fields.append(Field(name, value, label, unit: unit, words: self.words(words())))
  }

  /// Adds a member; `nil` becomes `null`.
  package mutating func member(
    _ name: String, _ number: Double?, _ label: Field.Label = .ofName, unit: String? = nil,
    words: @autoclosure () -> String? = nil
  ) {
    let value = number.map { Field.Value.number($0) } ?? .null
    fields.append(Field(name, value, label, unit: unit, words: self.words(words())))
  }

  package mutating func member(_ name: String, _ flag: Bool, _ label: Field.Label = .ofName) {
    fields.append(Field(name, .flag(flag), label))
  }

  package mutating func member(_ name: String, hex octets: Span<UInt8>, _ label: Field.Label = .ofName) {
    fields.append(Field(name, .octets([UInt8](encoding: octets)), label))
  }

  package mutating func member(_ name: String, hex octets: [UInt8], _ label: Field.Label = .ofName) {
    fields.append(Field(name, .octets(octets), label))
  }

  package mutating func nullMember(_ name: String) { fields.append(Field(name, .null)) }

  /// Adds a member that is a list.
  package mutating func member(
    _ name: String, _ label: Field.Label = .ofName, words: @autoclosure () -> String? = nil,
    array elements: (inout FieldList) -> Void
  ) {
    var list = FieldList(for: reader)
    elements(&list)
    fields.append(Field(name, .list, label, words: self.words(words()), children: list.fields))
  }

  /// Adds a member that is an object. Text output prints it on one line.
  package mutating func object(_ name: String, _ members: (inout FieldList) -> Void) {
    var list = FieldList(for: reader)
    members(&list)
    fields.append(Field(name, .sentence, children: list.fields))
  }

  // MARK: Elements

  package mutating func value(_ text: String) { fields.append(Field(nil, .text(text), .none)) }

  package mutating func value(_ number: some BinaryInteger) {
    fields.append(Field(nil, .integer(Int64(clamping: number)), .none))
  }

  package mutating func value(_ number: Double) { fields.append(Field(nil, .number(number), .none)) }

  package mutating func value(_ flag: Bool) { fields.append(Field(nil, .flag(flag), .none)) }

  package mutating func hex(_ octets: Span<UInt8>) {
    fields.append(Field(nil, .octets([UInt8](encoding: octets)), .none))
  }

  /// Adds a list of numbers.
  package mutating func row(_ numbers: Int...) {
    array { list in for number in numbers { list.value(number) } }
  }

  package mutating func array(_ elements: (inout FieldList) -> Void) {
    var list = FieldList(for: reader)
    elements(&list)
    fields.append(Field(nil, .list, .none, children: list.fields))
  }

  package mutating func object(_ members: (inout FieldList) -> Void) {
    var list = FieldList(for: reader)
    members(&list)
    fields.append(Field(nil, .sentence, .none, children: list.fields))
  }
}

extension [UInt8] {
  fileprivate init(encoding octets: Span<UInt8>) {
    self = octets.indices.map { octets[$0] }
  }
}

extension JSONLine {
  /// Writes the fields that have a name as members of an object.
  package mutating func members(_ fields: [Field]) {
    for field in fields {
      guard let name = field.name else { continue }
      key(name)
      value(field)
    }
  }

  package mutating func members(of source: some FieldSource) {
    members(FieldList(of: source, for: .programs).fields)
  }

  package mutating func value(_ field: Field) {
    switch field.value {
    case .null: null()
    case .flag(let flag): value(flag)
    case .integer(let number): value(number)
    case .number(let number): value(number)
    case .text(let text), .problem(let text): value(text)
    case .octets(let octets): hex(octets.span)
    case .uuid(let uuid): value(uuid)
    case .object, .sentence: object { $0.members(field.children) }
    case .list: array { line in for child in field.children { line.value(child) } }
    }
  }
}

/// Words and units for text output, derived from the names in JSON.
extension Field {
  /// Returns "running steps" for `runningSteps`, and "distance" for `distanceMeters`.
  package static func words(of name: String) -> String {
    var words: [String] = []
    for scalar in stem(of: name).unicodeScalars {
      let isCapital = ("A"..."Z").contains(scalar)
      if words.isEmpty || isCapital { words.append("") }
      words[words.count - 1].unicodeScalars.append(
        isCapital ? Unicode.Scalar(UInt8(scalar.value) | 0x20) : scalar)
    }
    return words.map { abbreviations[$0] ?? $0 }.joined(separator: " ")
  }

  /// Returns `m` for `distanceMeters`.
  package static func unit(of name: String) -> String? { suffix(of: name)?.unit }

  private static func stem(of name: String) -> Substring {
    guard let suffix = suffix(of: name) else { return name[...] }
    return name.dropLast(suffix.name.count)
  }

  private static func suffix(of name: String) -> (name: String, unit: String)? {
    suffixes.first { name.utf8.count > $0.name.utf8.count && name.hasSuffix($0.name) }
  }

  /// Suffixes and their units. A suffix that ends in another suffix must precede it.
  private static let suffixes: [(name: String, unit: String)] = [
    ("MetersPerSecond", "m/s"), ("DegreesPerSecond", "°/s"), ("RevolutionsPerMinute", "/min"),
    ("PerMinute", "/min"), ("Nanoseconds", "ns"), ("Milliseconds", "ms"), ("Seconds", "s"),
    ("Minutes", "min"), ("1024ths", "/1024 s"), ("Bpm", "beats/min"), ("Percent", "%"), ("Celsius", "°C"),
    ("Fahrenheit", "°F"), ("Meters", "m"), ("Kilojoules", "kJ"), ("Hectopascal", "hPa"),
    ("Microvolts", "µV"), ("MilliG", "mg"), ("Gauss", "G"), ("Hz", "Hz"), ("Cal", "cal"), ("Cm", "cm"),
    ("Kg", "kg"), ("Ms", "ms"), ("G", "g"), ("UTC", "UTC"),
  ]

  private static let abbreviations = [
    "spo2": "SpO2", "hrv": "HRV", "hr": "heart rate", "crc16": "CRC-16", "crc": "CRC", "rr": "RR",
    "ecg": "ECG", "ppg": "PPG", "ack": "acknowledged", "id": "identifier",
  ]
}
