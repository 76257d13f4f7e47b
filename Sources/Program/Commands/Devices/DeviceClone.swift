import BLEDissector
import BLEEmulation
import BLEHost
import BLESensors
import BLEStack
import BLEWire
import CommandKit
import JSONText

/// A device's attributes and values, as the file that `serve` reads.
struct DeviceClone: Sendable {
  /// The contents of the file.
  private(set) var text = ""
  /// Remarks about properties of the device that the file lacks, one line each.
  private(set) var remarks: [String] = []
  /// The reason why reading ended before the last value; `nil` if reading was complete.
  let interruption: String?

  private let values: DeviceValues
  private var names: [AttributeHandle: String] = [:]

  /// Describes a device as a file for `serve`.
  ///
  /// - Parameters:
  ///   - database: the attributes.
  ///   - values: the values of the attributes that could be read.
  ///   - address: the device, for a comment.
  ///   - name: the name to use if the device has no name.
  init(of database: GATTDatabase, _ values: DeviceValues, _ address: DeviceAddress, name: String?) {
    self.values = values
    interruption = values.interruption
    let read = database.characteristic(.deviceName).flatMap { values.values[$0.valueHandle] }
      .map { String(decoding: $0, as: UTF8.self).split(whereSeparator: \.isWhitespace) }
      .map { $0.joined(separator: " ").printable }
    add("# The attributes of \(address), read by `ringtap gatt --output`, for `ringtap serve`.")
    if values.isEncrypted {
      add("# They were read on an encrypted link: the security that the device demands did not show.")
    }
    let shown = [read, name?.printable].compactMap(\.self).first { !$0.isEmpty } ?? address.description
    if read?.isEmpty != false { remark("the device's name is unknown; edit the line `device`") }
    // Quotation marks around a name are not part of the name.
    add(shown.hasPrefix("\"") && shown.hasSuffix("\"") ? "device \"\(shown)\"" : "device \(shown)")
    // Two UUIDs that every device has are omitted, to leave room for other UUIDs.
    let advertised = database.services.filter {
      $0.kind == .primary && $0.uuid != .genericAccess && $0.uuid != .genericAttribute
    }
    if !advertised.isEmpty {
      add("advertise " + advertised.map { Self.name($0.uuid, .service) }.joined(separator: ", "))
    }
    for service in database.services { add(service, of: database) }
    do throws(DeviceFileError) { _ = try WrittenDevice.parse(text) } catch {
      remark("`ringtap serve` cannot serve this device as it is: \(error)")
    }
  }

  private mutating func add(_ line: String) { text += line + "\n" }

  /// Adds a comment to the file, and a remark to print.
  private mutating func remark(_ line: String, indent: String = "") {
    remarks.append(line)
    add("\(indent)# \(line)")
  }

  private static func name(_ uuid: BluetoothUUID, _ kind: AttributeNames.Kind) -> String {
    AttributeNames.name(of: uuid, kind).map { "\"\($0)\"" } ?? uuid.shortText
  }

  // MARK: Attributes

  private mutating func add(_ service: GATTDatabase.Service, of database: GATTDatabase) {
    let (start, end) = (service.range.start.rawValue, service.range.end.rawValue)
    add("")
    add(
      "\(service.kind == .secondary ? "secondary " : "")service \(start.handleText)-\(end.handleText) "
        + Self.name(service.uuid, .service))
    let first = service.characteristics.first?.handle.rawValue
    let room = first.map { Int($0) - Int(start) - 1 } ?? Int(end) - Int(start)
    for (index, include) in service.includes.enumerated() {
      let isPlaced = Int(include.handle.rawValue) == Int(start) + 1 + index
      guard index < room, database.services.contains(where: { $0.range.start == include.range.start }) else {
        remark(
          "\(include.handle.rawValue.handleText): left out an include of \(include.uuid.shortText)",
          indent: "  ")
        continue
      }
      if !isPlaced {
        remark(
          "\(include.handle.rawValue.handleText): the include has handle "
            + "\((start + 1 + UInt16(index)).handleText) here", indent: "  ")
      }
      add("  include \(include.range.start.rawValue.handleText)")
    }
    for (index, characteristic) in service.characteristics.enumerated() {
      let next = index + 1
      let limit =
        next < service.characteristics.count
        ? Int(service.characteristics[next].handle.rawValue) : Int(end) + 1
      add(characteristic, before: limit)
    }
  }

  /// Adds a characteristic with its descriptors. `limit` is the first handle after the characteristic.
  private mutating func add(_ characteristic: GATTDatabase.Characteristic, before limit: Int) {
    let handle = Int(characteristic.handle.rawValue)
    let others = characteristic.descriptors.filter { $0.uuid != .clientCharacteristicConfiguration }
    let configurations = characteristic.descriptors.count - others.count
    var properties = characteristic.properties
    let place = characteristic.valueHandle.rawValue.handleText
    if Int(characteristic.valueHandle.rawValue) != handle + 1 {
      remark("\(place): the value directly follows its declaration here", indent: "  ")
    }
    if characteristic.canPush, configurations == 0 {
      if handle + 2 + others.count < limit {
        remark("\(place): added the descriptor 2902, which the device lacks", indent: "  ")
      } else {
        properties.subtract([.notify, .indicate])
        remark(
          "\(place): left out \(characteristic.properties.intersection([.notify, .indicate]).names.joined(separator: " and ")), "
            + "because the device lacks the descriptor 2902", indent: "  ")
      }
    }
    if configurations > (characteristic.canPush ? 1 : 0) {
      remark("\(place): left out a descriptor 2902 that controls nothing", indent: "  ")
    }
    let isPushed = !properties.isDisjoint(with: [.notify, .indicate])
    if isPushed, let configuration = characteristic.configuration, Int(configuration.rawValue) != handle + 2 {
      remark("\(place): the descriptor 2902 directly follows the value here", indent: "  ")
    }
    let words = properties.names.isEmpty ? ["none"] : properties.names
    add(
      "  characteristic \(characteristic.handle.rawValue.handleText) "
        + ([Self.name(characteristic.uuid, .characteristic)] + words).joined(separator: " "),
      characteristic.valueHandle, characteristic.uuid, .characteristic)
    var last = handle + (isPushed ? 2 : 1)
    for descriptor in others {
      let wanted = Int(descriptor.handle.rawValue)
      last = max(last + 1, wanted)
      guard last < limit else {
        remark(
          "\(descriptor.handle.rawValue.handleText): left out a descriptor \(descriptor.uuid.shortText)",
          indent: "    ")
        break
      }
      let moved = UInt16(last)
      if last != wanted {
        remark(
          "\(descriptor.handle.rawValue.handleText): the descriptor has handle \(moved.handleText) here",
          indent: "    ")
      }
      add(
        "    descriptor \(moved.handleText) \(Self.name(descriptor.uuid, .descriptor))", descriptor.handle,
        descriptor.uuid, .descriptor)
    }
  }

  /// Adds the line of an attribute, with the attribute's security and value.
  private mutating func add(
    _ line: String, _ handle: AttributeHandle, _ uuid: BluetoothUUID, _ kind: AttributeNames.Kind
  ) {
    let level = values.levels[handle].map { " \($0)" } ?? ""
    if let problem = values.problems[handle] {
      let name = AttributeNames.name(of: uuid, kind) ?? uuid.shortText
      remark(
        "\(handle.rawValue.handleText) \(name): the value could not be read: \(problem)",
        indent: kind == .descriptor ? "    " : "  ")
    }
    add(line + level + (values.values[handle].map { Self.text(of: $0, uuid) } ?? ""))
  }

  // MARK: Values

  /// Returns the value with an equals sign, and the value's meaning as a comment if the meaning is known.
  private static func text(of value: [UInt8], _ uuid: BluetoothUUID) -> String {
    guard !value.isEmpty else { return "" }
    let meaning = DecodedValue(value.span, of: uuid, by: .read)?.text.printable
    let text = String(decoding: value, as: UTF8.self)
    // A single byte that happens to be a letter is written as a number.
    let isText = value.count > 1 && Array(text.utf8) == value && text.printable == text
    if isText, meaning.map({ $0.contains(text) }) ?? true {
      let escaped = text.map { "\"\\".contains($0) ? "\\\($0)" : "\($0)" }.joined()
      return " = \"\(escaped)\""
    }
    return " = \(value.hexText)" + (meaning.map { "  # \($0.prefix(60))" } ?? "")
  }
}

/// The readable values of a device's attributes.
struct DeviceValues: Sendable {
  var values: [AttributeHandle: [UInt8]] = [:]
  /// Security that the device required to read a value, by handle.
  var levels: [AttributeHandle: DeviceLevel] = [:]
  /// The reasons why values could not be read, by handle.
  var problems: [AttributeHandle: String] = [:]
  /// Whether the link was encrypted before the first value was read.
  var isEncrypted = false
  /// The reason why reading ended before the last value.
  var interruption: String?

  /// Reads the values of all readable characteristics and of all descriptors except 2902. A descriptor 2902
  /// has a separate value for each host.
  ///
  /// - Throws: if the command is interrupted.
  static func read(_ database: GATTDatabase, _ connection: Connection) async throws -> DeviceValues {
    var found = DeviceValues()
    found.isEncrypted = await connection.link.security?.isEncrypted == true
    for service in database.services {
      for characteristic in service.characteristics {
        if characteristic.properties.contains(.read) {
          try await found.read(characteristic.valueHandle, connection)
        }
        for descriptor in characteristic.descriptors
        where descriptor.uuid != .clientCharacteristicConfiguration {
          try await found.read(descriptor.handle, connection)
        }
      }
    }
    return found
  }

  private mutating func read(_ handle: AttributeHandle, _ connection: Connection) async throws {
    if let interruption {
      problems[handle] = interruption
      return
    }
    let wasEncrypted = await connection.link.security?.isEncrypted == true
    do throws(GATTError) {
      values[handle] = try await connection.read(handle)
      // The device refused the first request, and the host then encrypted the link.
      let isEncrypted = await connection.link.security?.isEncrypted == true
      if isEncrypted, !wasEncrypted { levels[handle] = .encrypted }
    } catch {
      try Task.checkCancellation()
      switch error {
      case .refused(let refusal):
        problems[handle] = "\(refusal.code.name)"
        if refusal.code.wantsSecurity || refusal.code == .encryptionKeySizeTooShort {
          levels[handle] = wasEncrypted ? .authenticated : .encrypted
          problems[handle] = "\(refusal.code.name); pair with `ringtap pair \(connection.peer)`"
        }
      case .closed, .timedOut:
        interruption = "\(error)"
        problems[handle] = "\(error)"
      default: problems[handle] = "\(error)"
      }
    }
  }
}
