import BLEWire

/// Replaces addresses, names and keys in a log, so that it can be shared.
///
/// Pass the whole log three times, in the same order, with `startOver` between the passes: twice to `learn`,
/// then to `rewrite`. The first learning pass finds all identifiers before a packet is written. The second
/// learning pass finds identifiers that are split over fragments.
///
/// Lengths, handles and opcodes are kept. Known addresses, keys, and names of four or more bytes are replaced
/// everywhere, including in vendor data. Commands and events are rewritten field by field, with the layouts
/// that `log show` uses. Data with unknown content are blanked: vendor and unknown commands and events, bytes
/// of a packet that no field covers, voice, L2CAP channels other than ATT, Security Manager and signalling,
/// and unknown types of advertising data. Text in an attribute of unknown type is treated as a name.
public struct LogAnonymiser: Sendable {
  /// Maximum number of links and directions followed at the same time; the least recently used channel is
  /// replaced.
  private static let maximumChannels = 128

  private var table = AnonymityTable()
  private var attributes = AnonymousAttributes()
  private var channels: [FragmentedFrame] = []
  /// Number of records handled in this pass.
  private var ordinal = 0
  /// New bytes of changed fragments, by record number.
  private var patches: [Int: [UInt8]] = [:]
  private var patchedByteCount = 0
  private static let patchLimit = Limit(
    32 << 20, "bytes of fragments that anonymising changes", by: .file, whenFull: "the log is refused",
    counted: "message and exit status")

  /// Number of records in the third pass whose unknown data was blanked.
  public private(set) var blankedRecords = 0

  public init() {}

  /// Whether the log has more addresses, names, keys or fragments than can be stored. The output of `rewrite`
  /// may then contain identifiers and must not be shared.
  public var isFull: Bool { table.isFull || patchedByteCount > Self.patchLimit.count }

  /// Prepares for a pass. Call this before each pass.
  public mutating func startOver() {
    ordinal = 0
    channels.removeAll()
    attributes.startOver()
  }

  /// Handles one record of the first or second pass.
  public mutating func learn(_ record: StoredPacketRecord) {
    if ordinal == 0 {
      patches.removeAll()
      patchedByteCount = 0
    }
    var record = record
    _ = replace(&record)
  }

  /// Rewrites one record of the third pass, and removes comments. Returns `nil` for a note with arbitrary
  /// content.
  public mutating func rewrite(_ record: StoredPacketRecord) -> StoredPacketRecord? {
    var record = record
    let patch = patches[ordinal + 1]
    table.hasBlanked = false
    guard replace(&record) else { return nil }
    if table.hasBlanked { blankedRecords += 1 }
    record.comment = []
    if let patch { record.packet = patch }
    return record
  }

  private mutating func replace(_ record: inout StoredPacketRecord) -> Bool {
    ordinal += 1
    guard let type = record.header.type else {
      guard let note = record.header.note else { return record.packet.isEmpty }
      return table.rewrite(note: note, &record.packet)
    }
    let isCut = record.packet.count < record.header.originalByteCount
    switch type {
    case .command:
      table.rewrite(command: &record.packet, isCut: isCut)
      table.sweep(&record.packet, from: 3)
    case .event:
      attributes.noteEvent(record.packet, adapter: record.header.adapter)
      table.rewrite(event: &record.packet, isCut: isCut)
      table.sweep(&record.packet, from: 2)
    case .acl: replace(acl: &record)
    // Voice data follow the handle and length, or the header of ISO data. Core 5.4, Vol 4, Part E, 5.4.3 and
    // 5.4.5.
    case .sco: table.blank(&record.packet, from: 3)
    case .iso: table.blank(&record.packet, from: Self.isoHeader(record.packet))
    default: table.blank(&record.packet, from: 0)
    }
    return true
  }

  private static func isoHeader(_ packet: [UInt8]) -> Int {
    guard packet.count > 1 else { return packet.count }
    // A first or complete fragment has sequence number and length, after an optional timestamp.
    let isStart = packet[1] >> 4 & 0b01 == 0
    return 4 + (packet[1] & 0x40 != 0 ? 4 : 0) + (isStart ? 4 : 0)
  }

  private mutating func replace(acl record: inout StoredPacketRecord) {
    let packet = record.packet
    guard packet.count > 4 else { return }
    let boundary = packet[1] >> 4 & 0b11
    let handle = UInt16(packet[0]) | UInt16(packet[1] & 0x0F) << 8
    let key = FragmentedFrame.Key(
      adapter: record.header.adapter, handle: handle, direction: record.header.direction)
    var frame = take(key)
    if boundary != 0b01 { frame.removeAll() }
    defer { channels.append(frame) }
    if boundary != 0b01, packet.count >= 8 {
      frame.isOpaque = !KnownPackets.isRead(channel: UInt16(packet[6]) | UInt16(packet[7]) << 8)
    }
    // A fragment without its start may belong to any channel.
    if boundary == 0b01, frame.fragments.isEmpty { frame.isOpaque = true }
    if frame.isOpaque { return table.blank(&record.packet, from: boundary == 0b01 ? 4 : 8) }
    frame.append(packet, ordinal)
    // A cut packet is never completed, so parse the available bytes.
    let isCut = packet.count < record.header.originalByteCount
    guard frame.isComplete || isCut else {
      table.sweep(&record.packet, from: boundary == 0b01 ? 4 : min(8, packet.count))
      return
    }
    var octets = frame.octets
    attributes.rewrite(frame: &octets, key, &table)
    table.sweep(&octets, from: min(4, octets.count))
    if frame.fragments.count == 1 {
      record.packet.replaceSubrange(4..., with: octets)
    } else if octets != frame.octets {
      for (fragment, range) in frame.fragments { patch(fragment.ordinal, fragment.header + octets[range]) }
    }
    frame.removeAll()
  }

  private mutating func patch(_ ordinal: Int, _ octets: [UInt8]) {
    patchedByteCount += octets.count
    if patchedByteCount <= Self.patchLimit.count { patches[ordinal] = octets }
  }

  private mutating func take(_ key: FragmentedFrame.Key) -> FragmentedFrame {
    if let index = channels.lastIndex(where: { $0.key == key }) { return channels.remove(at: index) }
    if channels.count == Self.maximumChannels { channels.removeFirst() }
    return FragmentedFrame(key: key)
  }
}

/// An L2CAP frame and the packets that carry it. Core 5.4, Vol 3, Part A, 3.1.
private struct FragmentedFrame: Sendable {
  struct Key: Hashable, Sendable {
    var adapter: UInt16
    var handle: UInt16
    var direction: HCIDirection
  }

  struct Fragment: Sendable {
    var ordinal: Int
    /// Header of the ACL packet.
    var header: [UInt8]
  }

  let key: Key
  /// Whether the channel may carry arbitrary data.
  var isOpaque = false
  private(set) var octets: [UInt8] = []
  private(set) var fragments: [(Fragment, Range<Int>)] = []

  init(key: Key) { self.key = key }

  var isComplete: Bool {
    octets.count >= 4 && octets.count >= 4 + Int(octets[0]) + Int(octets[1]) << 8
  }

  mutating func removeAll() {
    octets.removeAll(keepingCapacity: true)
    fragments.removeAll(keepingCapacity: true)
    isOpaque = false
  }

  mutating func append(_ packet: [UInt8], _ ordinal: Int) {
    let start = octets.count
    octets += packet[4...]
    fragments.append((Fragment(ordinal: ordinal, header: Array(packet[..<4])), start..<octets.count))
  }
}

/// Replaces identifying data in PDUs of ATT and SMP.
private struct AnonymousAttributes: Sendable {
  private enum Kind: Sendable {
    case name, identifier
    /// A SIG-defined type without personal data.
    case harmless
  }

  /// The server of an attribute: a peer or this host.
  private enum Server: Hashable, Sendable {
    case peer(UInt64)
    case unknownPeer(adapter: UInt16, handle: UInt16)
    case host(adapter: UInt16)
  }

  private struct Request: Sendable {
    var opcode: UInt8
    /// Attribute handle, or the attribute type of a Read By Type Request.
    var subject: UInt16
  }

  private struct Link: Hashable, Sendable {
    var adapter: UInt16
    var handle: UInt16
  }

  private var kinds: [Server: [UInt16: Kind]] = [:]
  private var requests: [FragmentedFrame.Key: Request] = [:]
  private var peers: [Link: UInt64] = [:]

  /// Prepares for the next pass, and keeps the handles that contain names.
  mutating func startOver() {
    requests.removeAll()
    peers.removeAll()
  }

  /// Learns the peer of a connection handle.
  mutating func noteEvent(_ event: [UInt8], adapter: UInt16) {
    guard event.count > 2 else { return }
    let event = event.span
    guard let (handle, peer) = ConnectionFields.start(code: event[0], event.extracting(2...)) else { return }
    peers[Link(adapter: adapter, handle: handle.rawValue)] = peer.bits
    for direction in [HCIDirection.hostToController, .controllerToHost] {
      requests[.init(adapter: adapter, handle: handle.rawValue, direction: direction)] = nil
    }
  }

  /// Rewrites an L2CAP frame, starting with its header.
  mutating func rewrite(
    frame octets: inout [UInt8], _ key: FragmentedFrame.Key, _ table: inout AnonymityTable
  ) {
    guard octets.count > 4 else { return }
    switch UInt16(octets[2]) | UInt16(octets[3]) << 8 {
    case 0x0004: rewrite(att: &octets, key, &table)
    case 0x0006, 0x0007: Self.rewrite(smp: &octets, &table)
    case let channel where KnownPackets.isRead(channel: channel): break
    default: table.blank(&octets, from: 4)
    }
  }

  /// Rewrites a PDU of the Security Manager. Core 5.4, Vol 3, Part H, 3.5 and 3.6.
  private static func rewrite(smp octets: inout [UInt8], _ table: inout AnonymityTable) {
    switch octets[4] {
    case 0x03, 0x04, 0x06, 0x08, 0x0A, 0x0D: table.replaceKey(in: &octets, at: 5)
    case 0x07: table.replaceKey(in: &octets, at: 7, byteCount: 8)
    case 0x09 where octets.count >= 12: table.replaceAddress(in: &octets, at: 6)
    // These are the coordinates of a public key, as in HCI.
    case 0x0C: for offset in [5, 37] { table.replaceKey(in: &octets, at: offset, byteCount: 32) }
    case 0x01, 0x02, 0x05, 0x0B, 0x0E: break
    default: table.blank(&octets, from: 5)
    }
  }

  /// Returns the kind of an attribute type. These types hold personal data: Device Name and Serial Number
  /// String; a person's names, e-mail address and other text; System ID and Reconnection Address, which are
  /// derived from an address; a person's birth date, age, gender, height, weight and location.
  private static func kind(ofType type: UInt16) -> Kind {
    switch type {
    case 0x2A00, 0x2A25, 0x2A46, 0x2A87, 0x2A8A, 0x2A90, 0x2ABE: .name
    case 0x2A03, 0x2A23, 0x2A67, 0x2A80, 0x2A85, 0x2A8C, 0x2A8E, 0x2A98, 0x2AAE...0x2AB2: .identifier
    default: .harmless
    }
  }

  /// Rewrites an ATT PDU. Core 5.4, Vol 3, Part F, 3.4.
  private mutating func rewrite(
    att octets: inout [UInt8], _ key: FragmentedFrame.Key, _ table: inout AnonymityTable
  ) {
    let pdu = 4
    func u16(_ offset: Int) -> UInt16 {
      offset + 1 < octets.count ? UInt16(octets[offset]) | UInt16(octets[offset + 1]) << 8 : 0
    }
    switch octets[pdu] {
    case 0x08: requests[key] = Request(opcode: 0x08, subject: octets.count == pdu + 7 ? u16(pdu + 5) : 0)
    case 0x04, 0x0A, 0x0C: requests[key] = Request(opcode: octets[pdu], subject: u16(pdu + 1))
    case 0x05:
      guard octets.count > pdu + 1, octets[pdu + 1] == 1 else { return }
      for entry in stride(from: pdu + 2, to: octets.count - 3, by: 4) {
        note(u16(entry), type: u16(entry + 2), servedIn: key)
      }
    case 0x09: rewrite(readByType: &octets, pdu, key, &table)
    case 0x0B, 0x0D:
      let request = answeredRequest(key)
      guard request?.opcode == octets[pdu] - 1, let handle = request?.subject else { return }
      replace(&octets, pdu + 1, kinds[server(key)]?[handle], &table)
    case 0x16, 0x17:
      let side = octets[pdu] == 0x16 ? key.reversed : key
      replace(&octets, pdu + 5, kinds[server(side)]?[u16(pdu + 1)], &table)
    // The values are concatenated, and only the request identifies their attributes.
    case 0x0F, 0x21: table.blank(&octets, from: pdu + 1)
    case 0x23: rewrite(notifications: &octets, pdu, key, &table)
    case 0x12, 0x52, 0xD2: replace(&octets, pdu + 3, kinds[server(key.reversed)]?[u16(pdu + 1)], &table)
    case 0x1B, 0x1D: replace(&octets, pdu + 3, kinds[server(key)]?[u16(pdu + 1)], &table)
    default: if !KnownPackets.isKnown(att: octets[pdu]) { table.blank(&octets, from: pdu + 1) }
    }
  }

  /// Rewrites a Multiple Handle Value Notification: handle, length and value of each attribute. Core 5.4, Vol
  /// 3, Part F, 3.4.7.4.
  private func rewrite(
    notifications octets: inout [UInt8], _ pdu: Int, _ key: FragmentedFrame.Key, _ table: inout AnonymityTable
  ) {
    var entry = pdu + 1
    while entry + 4 <= octets.count {
      let handle = UInt16(octets[entry]) | UInt16(octets[entry + 1]) << 8
      let end = min(octets.count, entry + 4 + Int(octets[entry + 2]) + Int(octets[entry + 3]) << 8)
      replace(&octets, entry + 4, kinds[server(key)]?[handle], &table, end: end)
      entry = end
    }
  }

  /// Rewrites a list of entries of equal length, each with a handle and a value. Core 5.4, Vol 3, Part F,
  /// 3.4.4.2.
  private mutating func rewrite(
    readByType octets: inout [UInt8], _ pdu: Int, _ key: FragmentedFrame.Key, _ table: inout AnonymityTable
  ) {
    guard let request = answeredRequest(key), request.opcode == 0x08, octets.count > pdu + 1 else { return }
    let byteCount = Int(octets[pdu + 1])
    guard byteCount > 2 else { return }
    for entry in stride(from: pdu + 2, to: octets.count, by: byteCount) {
      let end = min(octets.count, entry + byteCount)
      guard end - entry > 2 else { return }
      let handle = UInt16(octets[entry]) | UInt16(octets[entry + 1]) << 8
      if request.subject == 0x2803, end - entry == 7 {
        // The value has properties, value handle and type. Core 5.4, Vol 3, Part G, 3.3.1.
        note(
          UInt16(octets[entry + 3]) | UInt16(octets[entry + 4]) << 8,
          type: UInt16(octets[entry + 5]) | UInt16(octets[entry + 6]) << 8, servedIn: key)
      } else if request.subject == 0 {
        replace(&octets, entry + 2, nil, &table, end: end)
      } else if request.subject != 0x2803 {
        note(handle, type: request.subject, servedIn: key)
        replace(&octets, entry + 2, Self.kind(ofType: request.subject), &table, end: end)
      }
    }
  }

  private func replace(
    _ octets: inout [UInt8], _ start: Int, _ kind: Kind?, _ table: inout AnonymityTable, end: Int? = nil
  ) {
    let end = end ?? octets.count
    guard start < end else { return }
    switch kind {
    case .name: table.replaceName(in: &octets, start..<end)
    case .identifier: table.replaceKey(in: &octets, at: start, byteCount: end - start)
    case .harmless: break
    case nil: if KnownPackets.isText(octets[start..<end]) { table.replaceName(in: &octets, start..<end) }
    }
  }

  private mutating func note(_ handle: UInt16, type: UInt16, servedIn key: FragmentedFrame.Key) {
    kinds[server(key), default: [:]][handle] = Self.kind(ofType: type)
  }

  /// Removes and returns the request that a response in the direction of `key` answers.
  private mutating func answeredRequest(_ key: FragmentedFrame.Key) -> Request? {
    requests.removeValue(forKey: key.reversed)
  }

  /// Returns the server that sends in the direction of `key`.
  private func server(_ key: FragmentedFrame.Key) -> Server {
    if key.direction == .hostToController { return .host(adapter: key.adapter) }
    if let peer = peers[Link(adapter: key.adapter, handle: key.handle)] { return .peer(peer) }
    return .unknownPeer(adapter: key.adapter, handle: key.handle)
  }
}

extension FragmentedFrame.Key {
  fileprivate var reversed: Self {
    var other = self
    other.direction = direction == .hostToController ? .controllerToHost : .hostToController
    return other
  }
}

/// Advertising data, PDUs and channels without identifying data. Everything that is neither listed here nor
/// rewritten by `AnonymityTable` is unknown and blanked. HCI packets are in `HCICommandTable` and
/// `HCIEventTable`.
///
/// Core Specification Supplement, Part A; Assigned Numbers, 2.3.
enum KnownPackets {
  /// Returns whether advertising data of a type is harmless: data that describe a kind of device rather than
  /// a device, and service and manufacturer data, which anonymising keeps.
  static func isHarmless(advertisingDataType type: UInt8) -> Bool {
    switch type {
    case 0x01...0x07, 0x0A, 0x0D, 0x11, 0x12, 0x14...0x16, 0x19, 0x1A, 0x1C, 0x1F...0x21, 0x27, 0x28, 0x2C,
      0x2F,
      0x32, 0x34, 0x3D, 0xFF:
      true
    default: false
    }
  }

  /// Returns whether an opcode of ATT is known. Core 5.4, Vol 3, Part F, 3.4.8.
  static func isKnown(att opcode: UInt8) -> Bool {
    switch opcode {
    case 0x01...0x13, 0x16...0x19, 0x1B, 0x1D, 0x1E, 0x20, 0x21, 0x23, 0x52, 0xD2: true
    default: false
    }
  }

  /// Returns whether an L2CAP channel is parsed: signalling, ATT, Security Manager. Other channels carry
  /// profile data such as files, contacts, calls and streams.
  static func isRead(channel: UInt16) -> Bool {
    switch channel {
    case 0x0001, 0x0004...0x0007: true
    default: false
    }
  }

  /// Returns whether bytes may be personal text: printable, with at least three letters.
  static func isText(_ octets: ArraySlice<UInt8>) -> Bool {
    var letters = 0
    for scalar in String(decoding: octets, as: UTF8.self).unicodeScalars {
      // Invalid UTF-8 becomes the replacement character.
      guard scalar != "\u{FFFD}" else { return false }
      if scalar.properties.isAlphabetic {
        letters += 1
      } else if scalar.value < 0x20, ![0x00, 0x09, 0x0A, 0x0D].contains(scalar.value) {
        return false
      }
    }
    return letters >= 3
  }
}

/// Finds the longest known name or key at each place of a log, in a time that is independent of the number of
/// names and keys.
///
/// Prefixes are looked up by hash. The hash of a prefix is computed from the hash of the next shorter prefix.
/// Only the lengths of patterns with the same first bytes are tried.
struct SweptPatterns: Sendable {
  /// Length of the shortest pattern, in bytes.
  static let shortest = 4

  private struct Pattern: Sendable {
    let original: [UInt8]
    let replacement: [UInt8]
  }

  /// A random seed, so that the author of a log cannot construct hash collisions.
  private let seed = UInt64.random(in: .min ... .max)
  private var patterns: [UInt64: Pattern] = [:]
  /// Lengths of patterns by their first four bytes, in ascending order.
  private var lengths: [UInt32: [Int]] = [:]
  /// For each pair of bytes, whether a pattern starts with this pair.
  private var starts = [Bool](repeating: false, count: 65_536)

  /// Adds a pattern of at least `shortest` bytes.
  mutating func insert(_ original: [UInt8], _ replacement: [UInt8]) {
    starts[Int(original[0]) << 8 | Int(original[1])] = true
    let places = lengths[Self.start(original, 0)] ?? []
    if let place = places.firstIndex(where: { $0 >= original.count }) {
      if places[place] != original.count {
        lengths[Self.start(original, 0)]?.insert(original.count, at: place)
      }
    } else {
      lengths[Self.start(original, 0), default: []].append(original.count)
    }
    patterns[hash(seed, original, 0..<original.count)] = Pattern(original: original, replacement: replacement)
  }

  /// Returns the replacement of the longest pattern at `index`.
  func longest(in octets: [UInt8], at index: Int) -> [UInt8]? {
    guard index + Self.shortest <= octets.count, starts[Int(octets[index]) << 8 | Int(octets[index + 1])],
      let lengths = lengths[Self.start(octets, index)]
    else { return nil }
    var found: [UInt8]?
    var (hash, end) = (seed, index)
    for length in lengths where index + length <= octets.count {
      hash = self.hash(hash, octets, end..<index + length)
      end = index + length
      if let pattern = patterns[hash], octets[index..<end].elementsEqual(pattern.original) {
        found = pattern.replacement
      }
    }
    return found
  }

  /// Returns a hash: FNV-1a with another offset basis, and a shift that mixes high bits into low bits.
  private func hash(_ before: UInt64, _ octets: [UInt8], _ range: Range<Int>) -> UInt64 {
    var hash = before
    for place in range { hash = (hash ^ hash >> 32 ^ UInt64(octets[place])) &* 0x0000_0100_0000_01B3 }
    return hash
  }

  private static func start(_ octets: [UInt8], _ index: Int) -> UInt32 {
    UInt32(octets[index]) << 24 | UInt32(octets[index + 1]) << 16 | UInt32(octets[index + 2]) << 8
      | UInt32(octets[index + 3])
  }
}
