public import BLEStack
public import BLEWire
import JSONText

/// Text description of a device: its name, its attributes, and the security that they require.
///
/// ```
/// # A comment: a line that starts with a number sign.
/// device Strap                       the advertised name
/// advertise 180d                     services to advertise (default: all primary ones)
///   0x0001-0x0005 2800 0d18          handles, type, value in on-air byte order
///   0x0002 2803 12 0300 372a
///   0x0003 2a37 00 48
///   0x0004 2902 0000
///   0x0005 2901 52617465
/// needs encrypted 0x0003             or authenticated: to read, write or subscribe
/// ```
public struct DeviceFile: Sendable {
  /// Maximum number of attributes of a device.
  public static let attributeLimit = AttributeText.limit

  public private(set) var name = ""
  public private(set) var advertised: [BluetoothUUID] = []
  public private(set) var services: [GATTServiceDescription] = []

  private var attributes: [WrittenAttribute] = []
  private var needs: [AttributeHandle: ATTSecurity.Level] = [:]

  private typealias Fault = AttributeText.Fault

  /// Parses a text.
  ///
  /// - Throws: an error with the line that cannot be parsed or that contradicts other lines.
  public init(parsing text: some StringProtocol) throws(DeviceFileError) {
    var number = 0
    var lines: [AttributeHandle: Int] = [:]
    var isAdvertisingAll = true
    for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
      number += 1
      let words = line.split(whereSeparator: \.isWhitespace).map { String($0) }
      guard let word = words.first, !word.hasPrefix("#") else { continue }
      let rest = Array(words.dropFirst())
      do throws(Fault) {
        switch word {
        case "device": name = rest.joined(separator: " ")
        case "advertise":
          isAdvertisingAll = false
          for word in rest { advertised.append(try Self.uuid(word)) }
        case "needs": try demand(rest)
        case _ where word.hasPrefix("0x"):
          try AttributeText.add(words, to: &attributes)
          lines[attributes[attributes.count - 1].handle] = number
        default: throw Fault("'\(word)' is not one of device, advertise, needs and a handle such as 0x0003")
        }
      } catch { throw DeviceFileError(line: number, error.reason) }
    }
    if name.isEmpty { throw DeviceFileError(line: 0, "there is no `device NAME` in it") }
    for index in attributes.indices {
      do throws(Fault) { try place(index) } catch {
        throw DeviceFileError(line: lines[attributes[index].handle] ?? 0, error.reason)
      }
    }
    if let handle = needs.keys.first(where: { handle in !attributes.contains { $0.handle == handle } }) {
      throw DeviceFileError(line: 0, "there is no attribute \(handle.text) that could need anything")
    }
    if isAdvertisingAll { advertised = services.filter { $0.kind == .primary }.map(\.uuid) }
  }

  private static func uuid(_ text: String) throws(Fault) -> BluetoothUUID {
    guard let uuid = BluetoothUUID(text) else { throw Fault("'\(text)' is not a UUID") }
    return uuid
  }

  private mutating func demand(_ words: [String]) throws(Fault) {
    let levels: [String: ATTSecurity.Level] = ["encrypted": .encrypted, "authenticated": .authenticated]
    guard words.count >= 2, let level = levels[words[0]] else {
      throw Fault("`needs` takes `encrypted` or `authenticated`, and handles")
    }
    for word in words.dropFirst() {
      guard let handle = AttributeText.handle(word) else {
        throw Fault("'\(word)' is not a handle such as 0x0003")
      }
      needs[handle] = level
    }
  }

  // MARK: Attributes as services

  private var lastService: Int { services.count - 1 }
  private var lastCharacteristic: Int { services[lastService].characteristics.count - 1 }

  private mutating func place(_ index: Int) throws(Fault) {
    let attribute = attributes[index]
    switch attribute.type {
    case .primaryService, .secondaryService: try beginService(attribute)
    case _ where services.isEmpty: throw Fault("the first attribute declares a service: type 2800")
    case _ where attribute.handle > services[lastService].endHandle ?? .none:
      throw Fault("it is beyond the end of its service")
    case .include: try include(attribute, after: attributes[index - 1])
    case .characteristic: try beginCharacteristic(index)
    default: try placeInCharacteristic(attribute, after: attributes[index - 1])
    }
  }

  private mutating func beginService(_ attribute: WrittenAttribute) throws(Fault) {
    let value = attribute.value.span
    guard let uuid = value.uuid(at: 0, byteCount: value.count) else {
      throw Fault("a service's value is its UUID, of 2 or 16 octets")
    }
    let kind: GATTServiceDescription.Kind = attribute.type == .primaryService ? .primary : .secondary
    services.append(
      GATTServiceDescription(
        uuid, kind: kind, handle: attribute.handle, endHandle: attribute.range.end))
    let last = attributes.last { attribute.range.contains($0.handle) }
    let next = attributes.first { $0.handle > attribute.handle && $0.isService }
    if let last, let next, last.handle >= next.handle {
      throw Fault("the next service begins inside of this one")
    }
  }

  private mutating func include(
    _ attribute: WrittenAttribute, after former: WrittenAttribute
  ) throws(Fault) {
    guard attribute.value.count >= 4 else { throw Fault("an include's value is two handles and a UUID") }
    let value = attribute.value.span
    let start = value.handle(at: 0)
    guard services[lastService].characteristics.isEmpty, former.handle.next == attribute.handle else {
      throw Fault("includes must directly follow their service")
    }
    let declarations = attributes.filter(\.isService)
    guard let place = declarations.firstIndex(where: { $0.handle == start }) else {
      throw Fault("there is no service at \(start.text)")
    }
    services[lastService].includes.append(place)
  }

  private mutating func beginCharacteristic(_ index: Int) throws(Fault) {
    let attribute = attributes[index]
    let value = attribute.value.span
    guard value.count == 5 || value.count == 19, let uuid = value.uuid(at: 3, byteCount: value.count - 3)
    else {
      throw Fault("a characteristic's value is its properties, the handle of its value and a UUID")
    }
    let properties = CharacteristicProperties(rawValue: value[0])
    guard index + 1 < attributes.count, attributes[index + 1].handle == value.handle(at: 1),
      attribute.handle.next == value.handle(at: 1), attributes[index + 1].type == uuid
    else { throw Fault("its value must directly follow it, with the handle and type that it declares") }
    let isPushed = !properties.isDisjoint(with: [.notify, .indicate])
    let configuration = index + 2 < attributes.count ? attributes[index + 2] : nil
    let isConfigured =
      configuration?.type == .clientCharacteristicConfiguration
      && configuration?.handle == attributes[index + 1].handle.next
    guard isPushed == isConfigured else {
      throw Fault(
        isPushed
          ? "a characteristic with notify or indicate needs its descriptor 2902 directly after its value"
          : "a descriptor 2902 needs a characteristic with notify or indicate")
    }
    var characteristic = GATTCharacteristicDescription(
      uuid, properties, value: Array(attributes[index + 1].value.prefix(ATT.maximumValueByteCount)),
      handle: attribute.handle)
    if let level = needs[attributes[index + 1].handle] { characteristic.demand(.needs(level)) }
    services[lastService].characteristics.append(characteristic)
  }

  /// Adds a descriptor. Values and configuration descriptors were added with their declaration.
  private mutating func placeInCharacteristic(
    _ attribute: WrittenAttribute, after former: WrittenAttribute
  ) throws(Fault) {
    guard lastCharacteristic >= 0 else { throw Fault("a descriptor belongs to a characteristic: type 2803") }
    guard former.type != .characteristic, attribute.type != .clientCharacteristicConfiguration else { return }
    let access: ATTAccess = needs[attribute.handle].map { .needs($0) } ?? .allowed
    services[lastService].characteristics[lastCharacteristic].descriptors.append(
      GATTDescriptorDescription(
        attribute.type, value: attribute.value, handle: attribute.handle, readAccess: access))
  }
}

extension AttributeHandle {
  /// The handle in the notation of the file.
  fileprivate var text: String {
    "0x" + hexadecimal(UInt8(rawValue >> 8)) + hexadecimal(UInt8(rawValue & 0xFF))
  }
}

extension WrittenAttribute {
  fileprivate var isService: Bool { type == .primaryService || type == .secondaryService }
}

/// An error in a text that describes a device.
public struct DeviceFileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The line, from 1; 0 for the file as a whole.
  public var line: Int
  public var reason: String

  /// Creates an error.
  ///
  /// - Parameters:
  ///   - line: the line in the file, from 1.
  ///   - reason: may quote the file; control characters are replaced to protect the terminal.
  public init(line: Int, _ reason: String) {
    self.line = line
    self.reason = reason.printable
  }

  public var description: String { line > 0 ? "line \(line): \(reason)" : reason }
}

/// An attribute as described in a text.
package struct WrittenAttribute: Hashable, Sendable {
  /// Handle of the attribute; for a service declaration, the range from its handle to the end of the group.
  package var range: HandleRange
  package var type: BluetoothUUID
  package var value: [UInt8]

  package init(range: HandleRange, type: BluetoothUUID, value: [UInt8]) {
    self.range = range
    self.type = type
    self.value = value
  }

  package var handle: AttributeHandle { range.start }
}

/// Parses attributes that are written one per line, such as `0x0002 2803 02 0300 002a`.
package enum AttributeText {
  /// Maximum number of attributes in a text.
  package static let limit = 10_000
  /// Maximum number of bytes in a list of words: a frame of 65,535 bytes with its headers.
  private static let byteLimit = 65_600

  /// Reason of an error, without the line.
  package struct Fault: Error {
    package let reason: String
    package init(_ reason: String) { self.reason = reason }
  }

  /// Parses an attribute: handle or range, type, value.
  package static func add(_ words: [String], to attributes: inout [WrittenAttribute]) throws(Fault) {
    guard words.count >= 2 else { throw Fault("an attribute has a handle, a type and a value") }
    let ends = words[0].split(separator: "-", omittingEmptySubsequences: false).map { Self.handle($0) }
    guard (1...2).contains(ends.count), let start = ends[0], let end = ends[ends.count - 1], start <= end
    else { throw Fault("'\(words[0])' is neither a handle such as 0x0003 nor a range such as 0x0001-0x0004") }
    guard let type = BluetoothUUID(words[1]) else { throw Fault("'\(words[1])' is not a UUID") }
    if let last = attributes.last, last.handle >= start { throw Fault("handles must rise") }
    guard attributes.count < Self.limit else { throw Fault("more than \(Self.limit) attributes") }
    let value = try Self.octets(words[2...])
    guard !value.contains(nil) else { throw Fault("a value has no open octets") }
    attributes.append(
      WrittenAttribute(
        range: HandleRange(start: start, end: end), type: type, value: value.compactMap { $0 }))
  }

  package static func handle(_ text: some StringProtocol) -> AttributeHandle? {
    guard text.lowercased().hasPrefix("0x"), let value = UInt16(text.dropFirst(2), radix: 16), value > 0
    else { return nil }
    return AttributeHandle(value)
  }

  /// Parses bytes such as `1b0300`, `02....` and `0bff*20`. Two points mean any byte (`nil`).
  package static func octets(_ words: some Sequence<some StringProtocol>) throws(Fault) -> [UInt8?] {
    var octets: [UInt8?] = []
    for word in words {
      let fault = Fault("'\(word)' is not hexadecimal, such as 0a0300, 02.... or 0bff*20")
      let parts = word.split(separator: "*", omittingEmptySubsequences: false)
      guard parts.count <= 2, parts[0].utf8.count.isMultiple(of: 2), !parts[0].isEmpty else { throw fault }
      var rest = parts[0][...]
      while !rest.isEmpty {
        let digits = rest.prefix(2)
        rest = rest.dropFirst(2)
        if digits == ".." {
          octets.append(nil)
        } else if digits.allSatisfy(\.isHexDigit), let octet = UInt8(digits, radix: 16) {
          octets.append(octet)
        } else {
          throw fault
        }
      }
      guard parts.count == 2 else { continue }
      guard let count = Int(parts[1]), (1...65_535).contains(count), let last = octets.last else {
        throw fault
      }
      guard octets.count + count <= byteLimit else { throw Fault("more than \(byteLimit) octets") }
      octets += Array(repeating: last, count: count - 1)
    }
    return octets
  }
}
