import BLEEmulation
import BLEStack
import BLEWire
import CommandKit
import JSONText

/// Input file of `ringtap serve`. A line describes an attribute by name, properties and value, or by its raw
/// bytes.
///
/// ```
/// device Strap
/// service "Heart Rate"
///   characteristic "Heart Rate Measurement" notify
///   characteristic 2a38 read = u8 1
///     descriptor 2901 = "chest or wrist"
/// service 0x0020-0x0027 "Battery Service"
///   characteristic 0x0021 "Battery Level" read notify encrypted = u8 57
/// ```
///
/// Lines with names are converted to raw lines, which `DeviceFile` parses. A file without names is passed to
/// `DeviceFile` unchanged.
struct WrittenDevice {
  typealias Fault = AttributeText.Fault

  private var entries: [Entry] = []
  private var name = ""
  /// Whether a line needs translation, because `DeviceFile` cannot parse it.
  private var isTranslated = false

  /// Parses a device.
  ///
  /// - Throws: an error with the invalid or contradictory line, and a correction if possible.
  static func parse(_ text: String) throws(DeviceFileError) -> DeviceFile {
    var device = WrittenDevice()
    var number = 0
    for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
      number += 1
      do throws(Fault) { try device.add(line, number) } catch {
        throw DeviceFileError(line: number, error.reason)
      }
    }
    guard device.isTranslated else { return try DeviceFile(parsing: text) }
    return try device.translated()
  }

  // MARK: Lines

  private struct Entry {
    var line: Int
    var content: Content
    /// First handle, and last handle of a service. The handles are assigned when all lines are known.
    var handle = AttributeHandle.none
    var end = AttributeHandle.none

    var isService: Bool {
      switch content {
      case .service: true
      case .attribute(let attribute, _): attribute.isService
      default: false
      }
    }
  }

  private enum Content {
    /// A line that `DeviceFile` can parse.
    case line(String)
    /// An attribute in bytes, and the line that contains it.
    case attribute(WrittenAttribute, String)
    case service(BluetoothUUID, isSecondary: Bool, HandleRange?)
    case include(DeviceReference, AttributeHandle?)
    case characteristic(Characteristic, AttributeHandle?)
    case descriptor(BluetoothUUID, DeviceLevel?, [UInt8], AttributeHandle?)
    case needs(DeviceLevel, [DeviceReference])
  }

  private struct Characteristic {
    var uuid: BluetoothUUID
    var properties: CharacteristicProperties
    var level: DeviceLevel?
    var value: [UInt8]

    var isPushed: Bool { !properties.isDisjoint(with: [.notify, .indicate]) }
  }

  private static let keywords = [
    "device", "advertise", "service", "secondary", "include", "characteristic", "descriptor", "needs",
  ]

  private mutating func add(_ line: Substring, _ number: Int) throws(Fault) {
    let plain = line.split(whereSeparator: \.isWhitespace).map { String($0) }
    guard let word = plain.first, !word.hasPrefix("#") else { return }
    let rest = line.drop(while: \.isWhitespace).dropFirst(word.count)
    let content: Content
    switch word {
    case "device":
      name = plain.dropFirst().joined(separator: " ")
      content = .line("device \(name)")
    case "advertise": content = try advertised(plain, rest)
    case "needs": content = try needs(plain, rest)
    case _ where word.hasPrefix("0x"): content = Self.attribute(plain)
    default:
      isTranslated = true
      switch word {
      case "service": content = try Self.service(DeviceWords(rest), isSecondary: false)
      case "secondary": content = try Self.service(DeviceWords(rest), isSecondary: true)
      case "include": content = try Self.include(DeviceWords(rest))
      case "characteristic": content = try Self.characteristic(DeviceWords(rest))
      case "descriptor": content = try Self.descriptor(DeviceWords(rest))
      default: throw Self.unknown(word)
      }
    }
    entries.append(Entry(line: number, content: content))
  }

  private static func unknown(_ word: String) -> Fault {
    if let near = CommandGuess.nearest(to: word.lowercased(), among: keywords) {
      return Fault("'\(word)' is not the first word of a line; did you mean '\(near)'?")
    }
    return Fault("'\(word)' is not one of \(keywords.joined(separator: ", ")) and a handle such as 0x0003")
  }

  private static func attribute(_ words: [String]) -> Content {
    let text = words.joined(separator: " ")
    var attributes: [WrittenAttribute] = []
    // `DeviceFile` reports the error in the line.
    do throws(Fault) { try AttributeText.add(words, to: &attributes) } catch { return .line(text) }
    return .attribute(attributes[0], text)
  }

  private mutating func advertised(_ plain: [String], _ rest: Substring) throws(Fault) -> Content {
    let isPlain = plain.dropFirst().allSatisfy { BluetoothUUID($0) != nil }
    guard !isPlain else { return .line(plain.joined(separator: " ")) }
    isTranslated = true
    var text = "advertise"
    for words in try DeviceWords(rest).groups() { text += " " + (try words.uuid(.service)).description }
    return .line(text)
  }

  private mutating func needs(_ plain: [String], _ rest: Substring) throws(Fault) -> Content {
    guard plain.count > 2, let level = DeviceLevel(rawValue: plain[1]) else {
      return .line(plain.joined(separator: " "))
    }
    var references: [DeviceReference] = []
    for words in try DeviceWords(rest).dropFirst().groups() {
      references.append(try words.reference(.characteristic))
    }
    // `DeviceFile` reports an invalid handle.
    if !plain.dropFirst(2).allSatisfy({ $0.hasPrefix("0x") }) { isTranslated = true }
    return .needs(level, references)
  }

  private static func service(_ line: DeviceWords, isSecondary: Bool) throws(Fault) -> Content {
    var words = line
    if isSecondary {
      guard words.first == "service" else {
        throw Fault("write the word 'service' after 'secondary', as in: secondary service 180f")
      }
      words = words.dropFirst()
    }
    try words.refuseValue(of: "a service")
    let range = try words.takeRange()
    return .service(try words.uuid(.service), isSecondary: isSecondary, range)
  }

  private static func include(_ line: DeviceWords) throws(Fault) -> Content {
    var words = line
    try words.refuseValue(of: "an include")
    let handle = try words.takeHandle()
    return .include(try words.reference(.service), handle)
  }

  private static func characteristic(_ line: DeviceWords) throws(Fault) -> Content {
    var words = line
    let value = try words.takeValue()
    let (properties, level) = words.takeProperties()
    let handle = try words.takeHandle()
    let uuid = try words.uuid(.characteristic)
    guard let properties else {
      throw Fault(
        "the characteristic has no properties; add one or more of \(DeviceWords.propertyNames), or none")
    }
    return .characteristic(
      Characteristic(uuid: uuid, properties: properties, level: level, value: value ?? []), handle)
  }

  private static func descriptor(_ line: DeviceWords) throws(Fault) -> Content {
    var words = line
    let value = try words.takeValue()
    let (properties, level) = words.takeProperties()
    guard properties ?? .read == .read else {
      throw Fault("a descriptor can be read and cannot be written; write it without properties")
    }
    let handle = try words.takeHandle()
    return .descriptor(try words.uuid(.descriptor), level, value ?? [], handle)
  }

  // MARK: Translation

  private consuming func translated() throws(DeviceFileError) -> DeviceFile {
    removeQuotes()
    addGenericServices()
    var placing = Placing()
    for index in entries.indices {
      if entries[index].isService { try end(&placing) }
      do throws(Fault) { try place(index, &placing) } catch {
        throw DeviceFileError(line: entries[index].line, error.reason)
      }
    }
    try end(&placing)
    var lines: [String] = []
    var numbers: [Int] = []
    for index in entries.indices {
      let added: [String]
      do throws(Fault) { added = try written(index) } catch {
        throw DeviceFileError(line: entries[index].line, error.reason)
      }
      lines += added
      numbers += added.map { _ in entries[index].line }
    }
    do throws(DeviceFileError) { return try DeviceFile(parsing: lines.joined(separator: "\n")) } catch {
      guard numbers.indices.contains(error.line - 1) else { throw error }
      throw DeviceFileError(line: numbers[error.line - 1], error.reason)
    }
  }

  /// Removes the quotation marks around a device's name.
  private mutating func removeQuotes() {
    guard name.count > 2, name.hasPrefix("\""), name.hasSuffix("\"") else { return }
    let quoted = "device \(name)"
    name = String(name.dropFirst().dropLast())
    for index in entries.indices {
      if case .line(quoted) = entries[index].content { entries[index].content = .line("device \(name)") }
    }
  }

  /// Adds the services that every host expects, if the file has no handles. Core 5.4, Vol 3, Part C, 12 and
  /// Part G, 7.
  private mutating func addGenericServices() {
    var services: [BluetoothUUID] = []
    var isAdvertising = false
    for entry in entries {
      switch entry.content {
      case .attribute, .service(_, _, .some), .include(_, .some), .characteristic(_, .some),
        .descriptor(_, _, _, .some):
        return
      case .service(let uuid, isSecondary: false, nil): services.append(uuid)
      case .line(let text) where text.hasPrefix("advertise"): isAdvertising = true
      default: break
      }
    }
    guard !services.isEmpty, !services.contains(.genericAccess), !name.isEmpty else { return }
    var added: [Content] = [
      .service(.genericAccess, isSecondary: false, nil),
      .characteristic(
        Characteristic(
          uuid: .deviceName, properties: .read, value: Array(name.utf8.prefix(ATT.maximumValueByteCount))),
        nil),
      .characteristic(Characteristic(uuid: .appearance, properties: .read, value: [0, 0]), nil),
    ]
    if !services.contains(.genericAttribute) {
      added.append(.service(.genericAttribute, isSecondary: false, nil))
    }
    if !isAdvertising {
      added.append(.line("advertise " + services.map(\.description).joined(separator: " ")))
    }
    entries.insert(contentsOf: added.map { Entry(line: 0, content: $0) }, at: 0)
  }

  /// The position of the next attribute.
  private struct Placing {
    /// The next free handle; 0x10000 if no handle is free.
    var next: UInt32 = 1
    /// The entry of the current service.
    var service: Int?
    var characteristic: (isPushed: Bool, configuration: AttributeHandle)?
    /// Whether the previous attribute is the service's declaration or an include.
    var takesIncludes = false
    /// Whether the previous attribute is the value of a characteristic, or its configuration.
    var takesConfiguration = false

    mutating func take(_ wanted: AttributeHandle?, count: UInt32 = 1) throws(Fault) -> AttributeHandle {
      let first = wanted.map { UInt32($0.rawValue) } ?? next
      guard first >= next else {
        throw Fault(
          "its handle \(UInt16(first).handleText) is not above those before it; the next free one is "
            + UInt16(truncatingIfNeeded: next).handleText)
      }
      guard first + count <= 0x1_0000 else { throw Fault("there is no handle left: the last is 0xffff") }
      next = first + count
      return AttributeHandle(UInt16(first))
    }
  }

  private mutating func place(_ index: Int, _ placing: inout Placing) throws(Fault) {
    switch entries[index].content {
    case .line, .needs: return
    case .attribute(let attribute, _):
      if attribute.isService { placing.service = index }
      entries[index].handle = attribute.handle
      entries[index].end = attribute.range.end
      placing.next = UInt32(attribute.handle.rawValue) + 1
      placing.characteristic = nil
      (placing.takesIncludes, placing.takesConfiguration) = (false, false)
    case .service(_, _, let range):
      entries[index].handle = try placing.take(range?.start)
      placing.service = index
      placing.characteristic = nil
      (placing.takesIncludes, placing.takesConfiguration) = (true, false)
    case .include(_, let handle):
      guard placing.takesIncludes, handle.map({ UInt32($0.rawValue) == placing.next }) ?? true else {
        throw Fault("an include directly follows its service; move it there, and leave its handle out")
      }
      entries[index].handle = try placing.take(nil)
    case .characteristic(let characteristic, let handle):
      guard placing.service != nil else {
        throw Fault("a characteristic belongs to a service; write a line before it such as: service 180d")
      }
      entries[index].handle = try placing.take(handle, count: characteristic.isPushed ? 3 : 2)
      placing.characteristic = (
        characteristic.isPushed, AttributeHandle(entries[index].handle.rawValue &+ 2)
      )
      (placing.takesIncludes, placing.takesConfiguration) = (false, true)
    case .descriptor(.clientCharacteristicConfiguration, _, _, let handle):
      try placeConfiguration(index, handle, placing)
    case .descriptor(_, _, _, let handle):
      guard placing.characteristic != nil else {
        throw Fault(
          "a descriptor belongs to a characteristic; write a line before it such as: characteristic 2a38 read"
        )
      }
      entries[index].handle = try placing.take(handle)
      placing.takesConfiguration = false
    }
  }

  /// Places a configuration descriptor. If the descriptor was already placed with its characteristic, adds
  /// nothing.
  private mutating func placeConfiguration(
    _ index: Int, _ handle: AttributeHandle?, _ placing: Placing
  ) throws(Fault) {
    guard let characteristic = placing.characteristic, characteristic.isPushed else {
      throw Fault("a descriptor 2902 needs a characteristic with notify or indicate; add one of them to it")
    }
    guard placing.takesConfiguration, handle ?? characteristic.configuration == characteristic.configuration
    else {
      throw Fault(
        "the descriptor 2902 directly follows its value, at \(characteristic.configuration.rawValue.handleText); "
          + "leave the line out: it is added by itself")
    }
    entries[index].content = .line("#")
  }

  /// Ends the current service at the handle in the service's line, or at the last attribute if the line has
  /// no handle.
  private mutating func end(_ placing: inout Placing) throws(DeviceFileError) {
    guard let index = placing.service.take(),
      case .service(_, _, let range) = entries[index].content
    else { return }
    let last = AttributeHandle(UInt16(placing.next - 1))
    entries[index].end = range.flatMap { $0.end > $0.start ? $0.end : nil } ?? last
    guard entries[index].end >= last else {
      throw DeviceFileError(
        line: entries[index].line,
        "the service ends at \(entries[index].end.rawValue.handleText), before its last attribute; write "
          + "\(entries[index].handle.rawValue.handleText)-\(last.rawValue.handleText)")
    }
    placing.next = UInt32(entries[index].end.rawValue) + 1
  }

  /// Returns the lines of bytes for an entry.
  private func written(_ index: Int) throws(Fault) -> [String] {
    let entry = entries[index]
    let handle = entry.handle.rawValue
    switch entry.content {
    case .line(let text), .attribute(_, let text): return [text]
    case .service(let uuid, let isSecondary, _):
      return [
        "\(handle.handleText)-\(entry.end.rawValue.handleText) \(isSecondary ? "2801" : "2800") "
          + uuid.octets.hexText
      ]
    case .include(let reference, _):
      let service = try included(reference)
      guard let uuid = service.uuid else { return [] }
      let value =
        [UInt8(truncatingIfNeeded: service.start), UInt8(service.start >> 8)]
        + [UInt8(truncatingIfNeeded: service.end), UInt8(service.end >> 8)]
        + (uuid.short == nil ? [] : uuid.octets)
      return ["\(handle.handleText) 2802 \(value.hexText)"]
    case .characteristic(let characteristic, _):
      let value = handle + 1
      let declaration =
        [characteristic.properties.rawValue, UInt8(truncatingIfNeeded: value), UInt8(value >> 8)]
        + characteristic.uuid.octets
      var lines = [
        "\(handle.handleText) 2803 \(declaration.hexText)",
        "\(value.handleText) \(characteristic.uuid) \(characteristic.value.hexText)",
      ]
      if characteristic.isPushed { lines.append("\((handle + 2).handleText) 2902 0000") }
      if let level = characteristic.level { lines.append("needs \(level) \(value.handleText)") }
      return lines
    case .descriptor(let uuid, let level, let value, _):
      return ["\(handle.handleText) \(uuid) \(value.hexText)"]
        + (level.map { ["needs \($0) \(handle.handleText)"] } ?? [])
    case .needs(let level, let references):
      var handles: [UInt16] = []
      for reference in references { handles += try needing(reference) }
      return ["needs \(level) " + handles.map(\.handleText).joined(separator: " ")]
    }
  }

  private func included(
    _ reference: DeviceReference
  ) throws(Fault) -> (start: UInt16, end: UInt16, uuid: BluetoothUUID?) {
    let services = entries.compactMap { entry -> (start: UInt16, end: UInt16, uuid: BluetoothUUID?)? in
      switch entry.content {
      case .service(let uuid, _, _): (entry.handle.rawValue, entry.end.rawValue, uuid)
      case .attribute(let attribute, _) where attribute.isService:
        (
          entry.handle.rawValue, entry.end.rawValue,
          attribute.value.span.uuid(at: 0, byteCount: attribute.value.count)
        )
      default: nil
      }
    }
    if let handle = reference.handle, let found = services.first(where: { $0.start == handle.rawValue }) {
      return found
    }
    let named = services.filter { $0.uuid != nil && $0.uuid == reference.uuid }
    guard let found = named.first else {
      throw Fault(
        "the file has no service \(reference.text); write one that it has, by its name, UUID or first handle")
    }
    guard named.count == 1 else {
      let handles = named.map(\.start.handleText).joined(separator: ", ")
      throw Fault(
        "the file has \(counted(named.count, "service")) \(reference.text); write a handle (\(handles))")
    }
    return found
  }

  /// Returns the handles of the values and descriptors to which a reference refers.
  private func needing(_ reference: DeviceReference) throws(Fault) -> [UInt16] {
    var found: [UInt16] = []
    for entry in entries {
      let handle = entry.handle.rawValue
      let attribute: (handle: UInt16, type: BluetoothUUID)? =
        switch entry.content {
        case .characteristic(let characteristic, _): (handle + 1, characteristic.uuid)
        case .descriptor(let uuid, _, _, _): (handle, uuid)
        case .attribute(let attribute, _): (handle, attribute.type)
        default: nil
        }
      guard let attribute else { continue }
      if attribute.handle == reference.handle?.rawValue { return [attribute.handle] }
      if attribute.type == reference.uuid { found.append(attribute.handle) }
    }
    guard !found.isEmpty else {
      throw Fault(
        "the file has no value \(reference.text); write one that it has, by its name, UUID or handle")
    }
    return found
  }
}

extension BluetoothUUID {
  /// The 2 or 16 bytes of the UUID in transmission order.
  fileprivate var octets: [UInt8] { [UInt8](encoding: 16) { $0.append(self) } }
}

extension WrittenAttribute {
  fileprivate var isService: Bool { type == .primaryService || type == .secondaryService }
}
