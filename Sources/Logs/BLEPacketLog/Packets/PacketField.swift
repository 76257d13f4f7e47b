/// One field of a packet: its encoding, its label, and whether it may identify a person or device.
///
/// The type is a class to avoid copies of the texts when the fields of each packet are visited.
package final class PacketField: Sendable {
  package enum Kind: Sendable {
    /// A little-endian number of this many bytes, shown in decimal or in hexadecimal.
    case number(Int), hexadecimal(Int)
    /// A number of two bytes, shown in decimal and in hexadecimal.
    case both
    /// A signed number of this many bytes.
    case signed(Int)
    /// Bytes of this number, shown in transmission order.
    case octets(Int)
    case status, reason, connectionHandle
    /// A signed byte; 127 means "not available".
    case dBm, rssi
    /// A number of this many bytes, in microseconds or in milliseconds.
    case microseconds(Int), milliseconds(Int)
    /// Numbers in units of 625 µs and 1.25 ms (this many bytes), 10 ms and 312.5 µs (two bytes), and 1.28 s
    /// (this many bytes).
    case slots(Int), connectionIntervals(Int), centiseconds, halfSlots, inquiryIntervals(Int)
    /// A number of seconds in two bytes.
    case seconds
    case addressType, address, randomAddress, publicAddress
    /// An address, followed by its type as in the kernel's management interface.
    case device
    /// A number of this many bytes, with names for its values.
    case enumeration([UInt16: String], Int)
    /// A bit mask of this many bytes, with names for its bits.
    case bits([UInt16: String], Int)
    /// A company identifier. Bluetooth Assigned Numbers, 7.1.
    case company
    /// An appearance: a number for the kind of a device. Bluetooth Assigned Numbers, 2.6.
    case appearance
    /// A UUID of 16 bytes.
    case uuid
    /// Eight bytes of LE features. Core 5.4, Vol 6, Part B, 4.6.
    case features
    /// The number of a bit of LE features.
    case featureBit
    /// The number of a page of LMP features.
    case page
    /// Eight bytes of LMP features of this page; `nil` for the page in the last page field. Core 5.4, Vol 2,
    /// Part C, 3.3.
    case lmpFeatures(page: UInt8?)
    /// 64 bytes with a bit for each command. Core 5.4, Vol 4, Part E, 6.27.
    case supportedCommands
    /// A mask of events in eight bytes. Bit n is the event with number n + 1, the event with number n + 0x40,
    /// or the LE subevent with number n + 1. Core 5.4, Vol 4, Part E, 7.3.1, 7.3.69 and 7.8.1.
    case eventMask, secondEventMask, subeventMask
    /// A bit mask of the advertising channels 37 to 39.
    case channels
    /// A bit mask of channels, of this many bytes.
    case channelMap(Int)
    /// The class of a device in three bytes. Bluetooth Assigned Numbers, 2.8.
    case deviceClass
    /// A voice setting in two bytes. Core 5.4, Vol 4, Part E, 6.12.
    case voiceSetting
    /// Bits of the event type of an extended advertising report.
    case extendedEventType
    /// Bits of the properties of extended advertising.
    case advertisingProperties
    /// Authentication and key distribution bits of the Security Manager. Core 5.4, Vol 3, Part H, 3.5.1 and
    /// 3.6.1.
    case authentication, keyDistribution
    /// Numbers of commands, events and controllers of the kernel's management interface, in two bytes.
    case managementCommand, managementEvent, controller
    /// UTF-8 text up to the end or the first zero byte, or such text in this many bytes.
    case name, paddedName(Int)
    /// A length of this many bytes, followed by advertising data of that length.
    case advertisingData(Int)
    /// Advertising data up to the end of the packet.
    case structures
    /// A number of this many bytes: the length or count of a later field. The first such number belongs to
    /// the first field that needs one.
    case length(Int)
    /// Advertising data, or bytes, whose length is in an earlier field.
    case sizedData, sizedOctets
    /// Bytes up to the end of the packet.
    case rest
    /// The remaining bytes, which have no meaning.
    case padding
    /// A number of this many bytes: the number of repetitions of the inner fields.
    case times(Int)
    /// A bit mask with one repetition of the inner fields for each set bit.
    case timesByBits
    /// Repetitions of the inner fields: as many as an earlier field indicates, or up to the end of the
    /// packet.
    case timesOfLength, untilEnd
    /// A condition: the inner fields are present if the last number with names before this field has this
    /// value.
    case when(UInt8)
  }

  /// The content of a field, which determines the anonymiser's action.
  package enum Content: Sendable {
    /// A description of a packet or a kind of device, which is kept.
    case number
    /// An identifier, which is replaced; equal identifiers have equal replacements.
    case address, name
    /// A key, or a random number, hash or code for making or checking keys; replaced like an address.
    case key
    /// AD structures. Each structure is replaced, blanked or kept according to its type.
    case advertising
    /// Arbitrary data, which is blanked.
    case opaque
    /// Bytes without meaning, which are zeroed but not counted as blanked.
    case padding
  }

  package let kind: Kind
  package let content: Content
  package let label: String
  /// The field's key in JSON, and the key of the value's name.
  package let key: String
  package let nameKey: String
  /// The fields that are repeated or conditional.
  package let inner: [PacketField]
  /// Number of bytes in the fixed part of the field.
  package let byteCount: Int

  init(kind: Kind, content: Content, label: String, inner: [PacketField] = []) {
    self.kind = kind
    self.content = content
    self.label = label
    self.inner = inner
    byteCount = kind.byteCount
    var words = label[...]
    if case .times = kind { words = JSONKey.counted(words) }
    let stem = JSONKey.lowerCamelCase(words)
    key = stem + kind.unit
    nameKey = stem + "Name"
  }
}

extension PacketField.Kind {
  /// Minimum size of the field, in bytes.
  fileprivate var byteCount: Int {
    switch self {
    case .number(let count), .hexadecimal(let count), .signed(let count), .octets(let count),
      .microseconds(let count), .milliseconds(let count), .slots(let count), .connectionIntervals(let count),
      .inquiryIntervals(let count), .enumeration(_, let count), .bits(_, let count), .channelMap(let count),
      .paddedName(let count), .advertisingData(let count), .length(let count), .times(let count):
      count
    case .status, .reason, .dBm, .rssi, .addressType, .channels, .authentication, .keyDistribution,
      .featureBit, .page,
      .timesByBits:
      1
    case .both, .seconds, .connectionHandle, .centiseconds, .halfSlots, .extendedEventType,
      .advertisingProperties, .company,
      .appearance, .voiceSetting, .managementCommand, .managementEvent,
      .controller:
      2
    case .deviceClass: 3
    case .address, .randomAddress, .publicAddress: 6
    case .device: 7
    case .features, .lmpFeatures, .eventMask, .secondEventMask, .subeventMask: 8
    case .uuid: 16
    case .supportedCommands: 64
    case .name, .structures, .sizedData, .sizedOctets, .rest, .padding, .timesOfLength, .untilEnd, .when: 0
    }
  }

  /// The unit, as a suffix of the field's key.
  fileprivate var unit: String {
    switch self {
    case .slots, .connectionIntervals, .centiseconds, .halfSlots, .inquiryIntervals, .milliseconds: "Ms"
    case .microseconds: "Us"
    case .seconds: "Seconds"
    case .dBm: "Dbm"
    default: ""
    }
  }
}

/// Keys of JSON objects, derived from labels.
private enum JSONKey {
  /// Converts `Max TX time` to `maxTxTime`.
  static func lowerCamelCase(_ label: Substring) -> String {
    var key: [UInt8] = []
    var isStart = true
    for octet in label.utf8 {
      guard isWord(octet) else {
        isStart = true
        continue
      }
      let isCapital = isStart && !key.isEmpty
      key.append(isCapital ? octet & ~lowerCaseBit(octet) : octet | lowerCaseBit(octet))
      isStart = false
    }
    return String(decoding: key, as: UTF8.self)
  }

  /// Converts `Num reports` to `reports`: an array has no separate count.
  static func counted(_ label: Substring) -> Substring {
    for words in ["Num ", "Number of "] where label.hasPrefix(words) { return label.dropFirst(words.count) }
    return label
  }

  private static func isWord(_ octet: UInt8) -> Bool {
    lowerCaseBit(octet) != 0 || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet)
  }

  /// Returns the bit that distinguishes lower case from upper case; 0 if the byte is not a letter.
  private static func lowerCaseBit(_ octet: UInt8) -> UInt8 {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(octet | 0x20) ? 0x20 : 0
  }
}
