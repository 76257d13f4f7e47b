import BLEPacketLog
import BLEWire
import Testing

/// The descriptions of packets find the values that the codecs of `BLEWire` write.
@Suite struct DescribedCodecTests {
  private let peer = DeviceAddress("C1:02:03:04:05:06", type: .random)
  private let handle = ConnectionHandle(0x0123)
  private let range = LinkParameterRange(
    minimumInterval: 0x18, maximumInterval: 0x28, latency: 3, supervisionTimeout: 0x1F4)
  private let timing = ScanTiming(interval: 0x0102, window: 0x0304)

  /// The fields of a command, by label.
  private func fields(_ command: some HCICommand, at location: SourceLocation = #_sourceLocation)
    -> [String: UInt64]
  {
    let octets = [UInt8](encoding: 256) { command.encodeParameters(into: &$0) }
    let opcode = type(of: command).opcode.rawValue
    return values(HCICommandTable.layouts[opcode]?.fields, octets, location)
  }

  private func values(
    _ fields: [PacketField]?, _ octets: [UInt8], _ location: SourceLocation
  ) -> [String: UInt64] {
    var values = LabelledValues()
    FieldWalk.walk(fields, octets.span, &values)
    #expect(fields != nil && values.isWhole && values.end == octets.count, sourceLocation: location)
    return values.values
  }

  @Test func findsParametersOfLinks() throws {
    let peer = try #require(peer)
    let parameters: [String: UInt64] = [
      "Min connection interval": 0x18, "Max connection interval": 0x28, "Connection latency": 3,
      "Supervision timeout": 0x1F4, "Min connection length": 0, "Max connection length": 0,
    ]
    func with(_ others: [String: UInt64]) -> [String: UInt64] { parameters.merging(others) { $1 } }
    let link: [String: UInt64] = [
      "Scan interval": 0x60, "Scan window": 0x60, "Filter policy": 0, "Peer address type": 1,
      "Peer address": peer.bits, "Own address type": 1,
    ]
    #expect(fields(LECreateConnection(to: peer, ownType: .random, parameters: range)) == with(link))
    #expect(
      fields(LEExtendedCreateConnection(to: peer, ownType: .random, parameters: range))
        == with(link.merging(["Initiating PHYs": 1]) { $1 }))
    #expect(fields(LEConnectionUpdate(handle, range)) == with(["Handle": 0x0123]))
    #expect(fields(LERemoteConnectionParameterRequestReply(handle, range)) == with(["Handle": 0x0123]))
    #expect(
      fields(LERemoteConnectionParameterRequestNegativeReply(handle)) == ["Handle": 0x0123, "Reason": 0x3B])
    #expect(fields(Disconnect(handle)) == ["Handle": 0x0123, "Reason": 0x13])
    #expect(
      fields(LESetDataLength(handle, octets: 200, microseconds: 1_712))
        == ["Handle": 0x0123, "TX octets": 200, "TX time": 1_712])
    #expect(
      fields(LESetPHY(handle, transmit: .le2M, receive: nil, coded: .s8))
        == [
          "Handle": 0x0123, "All PHYs preference": 2, "TX PHYs preference": 2, "RX PHYs preference": 0,
          "PHY options preference": 2,
        ])
    #expect(fields(ReadRSSI(handle)) == ["Handle": 0x0123])
    #expect(fields(LEReadRemoteFeatures(handle)) == ["Handle": 0x0123])
    #expect(fields(ReadRemoteVersionInformation(handle)) == ["Handle": 0x0123])
  }

  @Test func findsParametersOfScans() throws {
    let peer = try #require(peer)
    let scan: [String: UInt64] = [
      "Type": 1, "Interval": 0x0102, "Window": 0x0304, "Own address type": 1, "Filter policy": 1,
    ]
    #expect(
      fields(LESetScanParameters(kind: .active, timing: timing, ownType: .random, filter: .acceptList))
        == scan)
    #expect(
      fields(
        LESetExtendedScanParameters(kind: .active, timing: timing, ownType: .random, filter: .acceptList))
        == scan.merging(["PHYs": 1]) { $1 })
    #expect(fields(LESetScanEnable(.reportOnce)) == ["Scanning": 1, "Filter duplicates": 1])
    #expect(
      fields(LESetExtendedScanEnable(.reportAll))
        == ["Extended scan": 1, "Filter duplicates": 0, "Duration": 0, "Period": 0])
    #expect(fields(LEAddDeviceToFilterAcceptList(peer)) == ["Address type": 1, "Address": peer.bits])
    #expect(fields(LESetRandomAddress(peer)) == ["Address": peer.bits])
    #expect(fields(SetEventMask(bits: 0x0102_0304_0506_0708)) == ["Mask": 0x0102_0304_0506_0708])
    #expect(fields(LESetEventMask(bits: 0x0102_0304_0506_0708)) == ["Mask": 0x0102_0304_0506_0708])
  }

  @Test func findsParametersOfAdvertising() throws {
    let peer = try #require(peer)
    let set = AdvertisingSetHandle(rawValue: 7)
    let interval = AdvertisingInterval(0x30...0x60)
    #expect(
      fields(LESetAdvertisingParameters(kind: .scannable, interval: interval, ownType: .random))
        == [
          "Min advertising interval": 0x30, "Max advertising interval": 0x60, "Type": 2,
          "Own address type": 1, "Direct address type": 0, "Direct address": 0, "Channel map": 7,
          "Filter policy": 0,
        ])
    #expect(
      fields(
        LESetExtendedAdvertisingParameters(set, kind: .scannable, interval: interval, ownType: .random))
        == [
          "Handle": 7, "Properties": 0x12, "Min advertising interval": 0x30,
          "Max advertising interval": 0x60, "Channel map": 7, "Own address type": 1, "Peer address type": 0,
          "Peer address": 0, "Filter policy": 0, "TX power": 0x7F, "Primary PHY": 1,
          "Secondary max skip": 0, "Secondary PHY": 1, "SID": 0, "Scan request notifications": 0,
        ])
    #expect(
      fields(LESetAdvertisingSetRandomAddress(set, peer))
        == ["Advertising handle": 7, "Advertising random address": peer.bits])
    #expect(
      fields(LESetExtendedAdvertisingEnable(.on, set))
        == [
          "Extended advertising": 1, "Number of sets": 1, "Handle": 7, "Duration": 0, "Max ext adv events": 0,
        ])
    #expect(
      fields(LESetExtendedAdvertisingEnable.allOff) == ["Extended advertising": 0, "Number of sets": 0])
    #expect(fields(LERemoveAdvertisingSet(set)) == ["Handle": 7])
    #expect(fields(LESetAdvertisingEnable(.on)) == ["Advertising": 1])
    // The data themselves: flags.
    let data: [UInt8] = [2, 1, 6]
    #expect(fields(LESetAdvertisingData(data))["Length"] == 0x06_01_02)
    #expect(fields(LESetScanResponseData(data))["Length"] == 0x06_01_02)
    let extended: [String: UInt64] = [
      "Handle": 7, "Operation": 3, "Fragment preference": 1, "Data length": 0x06_01_02,
    ]
    #expect(fields(LESetExtendedAdvertisingData(set, data)) == extended)
    #expect(fields(LESetExtendedScanResponseData(set, data)) == extended)
  }

  @Test func findsKeys() {
    let key: UInt128 = 0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF
    let command = LEEnableEncryption(handle, random: 0x0102_0304_0506_0708, diversifier: 0x1234, key: key)
    #expect(
      fields(command)
        == [
          "Handle": 0x0123, "Random number": 0x0102_0304_0506_0708, "Encrypted diversifier": 0x1234,
          "Long term key": 0x8899_AABB_CCDD_EEFF,
        ])
    #expect(
      fields(LELongTermKeyRequestReply(handle, key: key))
        == ["Handle": 0x0123, "Long term key": 0x8899_AABB_CCDD_EEFF])
    #expect(fields(LELongTermKeyRequestNegativeReply(handle)) == ["Handle": 0x0123])
  }

  @Test func findsParametersOfEvents() throws {
    let peer = try #require(peer)
    let complete = LEConnectionComplete(
      handle: handle, role: .peripheral, peer: peer,
      parameters: LinkParameters(interval: 0x18, latency: 3, supervisionTimeout: 0x1F4))
    let octets = [UInt8](encoding: 32) { complete.encode(into: &$0) }
    #expect(
      values(HCIEventTable.subevents[UInt16(octets[0])]?.fields, Array(octets.dropFirst()), #_sourceLocation)
        == [
          "Status": 0, "Handle": 0x0123, "Role": 1, "Peer address type": 1, "Peer address": peer.bits,
          "Connection interval": 0x18, "Connection latency": 3, "Supervision timeout": 0x1F4,
          "Central clock accuracy": 0,
        ])
    let change = EncryptionChange(status: .success, handle: handle, isEncrypted: true, keyByteCount: 16)
    #expect(
      values(
        HCIEventTable.layouts[0x59]?.fields, [UInt8](encoding: 8) { change.encode(into: &$0) },
        #_sourceLocation) == ["Status": 0, "Handle": 0x0123, "Encryption": 1, "Key size": 16])
    let refresh = EncryptionKeyRefreshComplete(status: .pinOrKeyMissing, handle: handle)
    #expect(
      values(
        HCIEventTable.layouts[0x30]?.fields, [UInt8](encoding: 8) { refresh.encode(into: &$0) },
        #_sourceLocation) == ["Status": 6, "Handle": 0x0123])
  }
}

/// The first eight bytes of each field as a number, by label.
private struct LabelledValues: FieldVisitor {
  private(set) var values: [String: UInt64] = [:]
  private(set) var isWhole = true
  private(set) var end = 0

  mutating func visit(_ field: PacketField, _ range: Range<Int>, in bytes: Span<UInt8>, type: AddressType) {
    end = range.upperBound
    if case .padding = field.kind { return }
    var number: UInt64 = 0
    for (index, place) in range.prefix(8).enumerated() {
      number |= UInt64(bytes[place]) << (8 * UInt64(index))
    }
    values[field.label] = number
  }

  mutating func beginList(of field: PacketField) {}
  mutating func beginEntry() {}
  mutating func endEntry() {}
  mutating func endList(of field: PacketField) {}

  mutating func fail(_ field: PacketField, needed: Int, _ rest: Range<Int>, in bytes: Span<UInt8>) {
    isWhole = false
  }

  mutating func leave(_ rest: Range<Int>, in bytes: Span<UInt8>) { isWhole = false }
}
