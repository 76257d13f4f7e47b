import BLEPacketLog
import BLEWire
import LogKit
import TestKit

/// A packet made from the description of its fields, and the places of what identifies somebody.
struct DescribedPacket {
  enum Shape: Hashable {
    case command(UInt16), returned(UInt16), event(UInt8), subevent(UInt8)
    case managementCommand(UInt16), managementReturned(UInt16), managementEvent(UInt16)
  }

  let shape: Shape
  /// The packet with its header. For the management interface, a record of the monitor.
  let octets: [UInt8]
  let filler: FieldFiller

  /// - Parameter variant: which of the named values the numbers have.
  init(_ shape: Shape, _ fields: [PacketField], variant: Int = 0, usesSecrets: Bool = false) {
    self.shape = shape
    var filler = FieldFiller(variant: variant, usesSecrets: usesSecrets)
    filler.fill(fields)
    func number(_ value: UInt16) -> [UInt8] { [UInt8(value & 0xFF), UInt8(value >> 8)] }
    let count = UInt8(truncatingIfNeeded: filler.octets.count)
    let cookie: [UInt8] = [1, 0, 0, 0]
    let header: [UInt8] =
      switch shape {
      case .command(let opcode): number(opcode) + [count]
      case .returned(let opcode): [0x0E, count + 3, 1] + number(opcode)
      case .event(let code): [code, count]
      case .subevent(let code): [0x3E, count + 1, code]
      case .managementCommand(let code), .managementEvent(let code): cookie + number(code)
      case .managementReturned(let code): cookie + [1, 0] + number(code) + [0]
      }
    octets = header + filler.octets
    filler.shift(by: header.count)
    self.filler = filler
  }

  /// The packet as a record of BlueZ's monitor.
  var monitorOpcode: UInt16 {
    switch shape {
    case .command: 2
    case .returned, .event, .subevent: 3
    case .managementCommand: 16
    case .managementReturned, .managementEvent: 17
    }
  }

  var logged: LoggedPacket? {
    switch shape {
    case .command: LoggedPacket(type: .command, direction: .hostToController, octets: octets)
    case .returned, .event, .subevent:
      LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
    default: nil
    }
  }

  /// Every described packet, with those returned by commands.
  static var layouts: [(shape: Shape, fields: [PacketField])] {
    var all: [(Shape, [PacketField])] = []
    for (opcode, layout) in HCICommandTable.layouts.sorted(by: { $0.key < $1.key }) {
      all.append((.command(opcode), layout.fields ?? []))
      all.append((.returned(opcode), layout.returned))
    }
    for (code, layout) in HCIEventTable.layouts.sorted(by: { $0.key < $1.key }) {
      if let fields = layout.fields { all.append((.event(UInt8(code)), fields)) }
    }
    for (code, layout) in HCIEventTable.subevents.sorted(by: { $0.key < $1.key }) {
      all.append((.subevent(UInt8(code)), layout.fields ?? []))
    }
    for (code, layout) in ManagementTable.commands.sorted(by: { $0.key < $1.key }) {
      all.append((.managementCommand(code), layout.fields ?? []))
      all.append((.managementReturned(code), layout.returned))
    }
    // Command Complete and Command Status contain others.
    for (code, layout) in ManagementTable.events.sorted(by: { $0.key < $1.key }) where code > 2 {
      all.append((.managementEvent(code), layout.fields ?? []))
    }
    return all.map { (shape: $0.0, fields: $0.1) }
  }
}

/// Makes bytes for fields, by what `PacketField.Kind` says about their sizes.
struct FieldFiller {
  let variant: Int
  /// Whether addresses, names, keys and unknown data have random bytes that occur nowhere else.
  let usesSecrets: Bool
  private(set) var octets: [UInt8] = []
  /// Addresses, names, keys and unknown data.
  private(set) var secrets: [[UInt8]] = []
  /// Bytes that describe the packet.
  private(set) var kept: [Range<Int>] = []
  private var lengths: [Int] = []
  private var choice: UInt8 = 0
  private var generator = SeededGenerator(state: 0x5EED)

  init(variant: Int, usesSecrets: Bool) {
    self.variant = variant
    self.usesSecrets = usesSecrets
    for _ in 0..<variant { _ = generator.next() }
  }

  mutating func shift(by count: Int) { kept = kept.map { $0.lowerBound + count..<$0.upperBound + count } }

  private mutating func plain(_ count: Int, in range: ClosedRange<UInt8> = 1...0x7E) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: range, using: &generator) }
  }

  private mutating func keep(_ value: [UInt8]) {
    kept.append(octets.count..<octets.count + value.count)
    octets += value
  }

  private mutating func hide(_ value: [UInt8], atLeast: Int = 4) {
    if value.count >= atLeast { secrets.append(value) }
    octets += value
  }

  mutating func fill(_ fields: [PacketField]) {
    for (index, field) in fields.enumerated() { fill(field, before: fields[(index + 1)...]) }
  }

  private mutating func fill(_ field: PacketField, before later: ArraySlice<PacketField>) {
    switch field.kind {
    case .when(let value):
      guard value == choice else { return }
      let outer = choice
      fill(field.inner)
      choice = outer
    case .times(let byteCount): repeated(field, 2, [2] + [UInt8](repeating: 0, count: byteCount - 1))
    case .timesByBits: repeated(field, 2, [0b101])
    case .timesOfLength: repeated(field, lengths.removeFirst(), [])
    case .untilEnd: repeated(field, 2, [])
    case .length(let byteCount):
      // Advertising data need some bytes; a count of commands does not.
      lengths.append(later.contains { if case .timesOfLength = $0.kind { true } else { false } } ? 2 : 9)
      keep([UInt8(lengths[lengths.count - 1])] + [UInt8](repeating: 0, count: byteCount - 1))
    case .advertisingData(let byteCount):
      keep([9] + [UInt8](repeating: 0, count: byteCount - 1))
      advertising()
    case .structures, .sizedData:
      if case .sizedData = field.kind { lengths.removeFirst() }
      advertising()
      if case .structures = field.kind { octets += [UInt8](repeating: 0, count: 240 - 9) }
    case .padding: octets += [UInt8](repeating: 0, count: 31 - 9)
    case .name: name(248)
    case .paddedName(let count): name(count)
    case .sizedOctets: hide(secret(lengths.removeFirst()))
    case .rest: hide(secret(8))
    default: fixed(field)
    }
  }

  private mutating func repeated(_ field: PacketField, _ count: Int, _ header: [UInt8]) {
    keep(header)
    for _ in 0..<count { fill(field.inner) }
  }

  private mutating func secret(_ count: Int) -> [UInt8] {
    plain(count, in: usesSecrets ? 0x80...0xFE : 1...0x7E)
  }

  /// Flags and a complete local name, together nine bytes.
  private mutating func advertising() {
    keep([2, 1, 6, 5, 9])
    hide(usesSecrets ? Array("Qx\(10 + Int.random(in: 0..<90, using: &generator))".utf8) : Array("Ring".utf8))
  }

  private mutating func name(_ count: Int) {
    let letters = usesSecrets ? plain(9, in: UInt8(ascii: "a")...UInt8(ascii: "z")) : Array("Ring R02".utf8)
    let text = Array(letters.prefix(count))
    hide(text)
    octets += [UInt8](repeating: 0, count: count - text.count)
  }

  private mutating func fixed(_ field: PacketField) {
    let count = field.byteCount
    switch field.kind {
    case .status: keep([0])
    case .page: keep([UInt8(variant % 3)])
    // The used bytes of a pattern, which has 31.
    case .number(1) where field.label == "Length": keep([UInt8(1 + variant % 31)])
    case .enumeration(let words, _):
      let values = words.keys.sorted()
      let value = values.isEmpty ? 0 : values[variant % values.count]
      choice = UInt8(truncatingIfNeeded: value)
      let octets = (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * UInt16($0))) }
      if case .opaque = field.content { hide(octets) } else { keep(octets) }
    case .addressType: keep([UInt8(variant % 2)])
    case .device:
      hide(usesSecrets ? secret(6) : plain(6))
      keep([UInt8(variant % 3)])
    case .bits(let names, _):
      var mask: UInt64 = 0
      for bit in names.keys where variant == 0 || Bool.random(using: &generator) { mask |= 1 << UInt64(bit) }
      keep((0..<count).map { UInt8(truncatingIfNeeded: mask >> (8 * UInt64($0))) })
    case .connectionHandle: keep([UInt8.random(in: 1...0x7E, using: &generator), 0])
    case .deviceClass: keep([UInt8(variant % 8) << 2, UInt8(variant % 10), 0xFF])
    case .managementCommand, .managementEvent, .controller: keep([UInt8(1 + variant % 0x20), 0])
    case .uuid: keep(octetsOf("fb349b5f8000008000100000") + [0x0D, 0x18, 0, 0])
    case .channels: keep([UInt8(1 + variant % 7)])
    case .voiceSetting: keep([UInt8.random(in: 0...0xFF, using: &generator), UInt8(variant % 4)])
    case .extendedEventType, .advertisingProperties:
      let types: [UInt8] = [0, 1, 2, 5, 0x13, 0x15, 0x12, 0x10, 0x1A, 0x1B, 0x1D, 0x20, 0x40, 0x60]
      keep([types[variant % types.count], 0])
    case .featureBit: keep([UInt8(variant)])
    case .lmpFeatures, .features, .eventMask, .secondEventMask, .subeventMask, .supportedCommands,
      .channelMap:
      keep(plain(count, in: 0...0xFF))
    case .company: keep([0x0F, 0])
    default:
      switch field.content {
      case .number, .padding, .advertising: keep(plain(count))
      case .address, .key, .name: hide(secret(count))
      // A secret of few bytes may occur elsewhere by chance.
      case .opaque: hide(secret(count))
      }
    }
  }
}
