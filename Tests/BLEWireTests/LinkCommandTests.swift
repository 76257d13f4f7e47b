import BLEWire
import TestKit
import Testing

/// Bytes that google/bumble 0.0.236 encodes for the same parameters, without the H4 type.
@Suite struct LinkCommandTests {
  private let handle = ConnectionHandle(0x40)
  private let peer = DeviceAddress(bits: 0xF0F1_F2F3_F4F5, type: .random)

  private func packet<Command: HCICommand>(_ command: Command) -> [UInt8] {
    let parameters = [UInt8](encoding: 255) { command.encodeParameters(into: &$0) }
    return [UInt8](encoding: HCICommandPacket.maximumByteCount) {
      HCICommandPacket(opcode: Command.opcode, parameters: parameters.span).encode(into: &$0)
    }
  }

  @Test func writesTiming() {
    let slow = LinkParameterRange(
      minimumInterval: 0x50, maximumInterval: 0x64, latency: 4, supervisionTimeout: 500)
    #expect(packet(LEConnectionUpdate(handle, slow)) == octetsOf("13200e 4000 5000 6400 0400 f401 0000 0000"))
    let fast = LinkParameterRange(
      minimumInterval: 6, maximumInterval: 12, latency: 1, supervisionTimeout: 200)
    #expect(
      packet(LERemoteConnectionParameterRequestReply(handle, fast))
        == octetsOf("20200e 4000 0600 0c00 0100 c800 0000 0000"))
    #expect(packet(LERemoteConnectionParameterRequestNegativeReply(handle)) == octetsOf("212003 4000 3b"))
  }

  @Test func writesDataLength() {
    #expect(packet(LESetDataLength(handle)) == octetsOf("222006 4000 fb00 4808"))
  }

  @Test func writesPHYs() {
    #expect(packet(LESetPHY(handle, .le2M)) == octetsOf("322007 4000 00 02 02 0000"))
    let slowest = LESetPHY(handle, transmit: nil, receive: [.le2M, .leCoded], coded: .s8)
    #expect(packet(slowest) == octetsOf("322007 4000 01 00 06 0200"))
  }

  @Test func writesQueries() {
    #expect(packet(ReadRSSI(handle)) == octetsOf("051402 4000"))
    #expect(packet(LEReadRemoteFeatures(handle)) == octetsOf("162002 4000"))
    #expect(packet(ReadRemoteVersionInformation(handle)) == octetsOf("1d0402 4000"))
  }

  @Test func writesTheAcceptList() {
    #expect(packet(LEClearFilterAcceptList()) == octetsOf("102000"))
    #expect(packet(LEAddDeviceToFilterAcceptList(peer)) == octetsOf("112007 01 f5f4f3f2f1f0"))
  }

  @Test func connectsAndScansByTheAcceptList() {
    #expect(
      packet(LECreateConnection(toAcceptListFrom: .random, parameters: .default))
        == octetsOf("0d2019 6000 6000 01 00 000000000000 01 1800 2800 0000 2a00 0000 0000"))
    #expect(
      packet(LEExtendedCreateConnection(toAcceptListFrom: .random, parameters: .default))
        == octetsOf("43201a 01 01 00 000000000000 01 6000 6000 1800 2800 0000 2a00 0000 0000"))
    let timing = ScanTiming(interval: 96, window: 48)
    #expect(
      packet(LESetScanParameters(kind: .passive, timing: timing, ownType: .random, filter: .acceptList))
        == octetsOf("0b2007 00 6000 3000 01 01"))
    #expect(
      packet(
        LESetExtendedScanParameters(kind: .passive, timing: timing, ownType: .random, filter: .acceptList))
        == octetsOf("412008 01 01 01 00 6000 3000"))
  }

  @Test func writesTheRandomAddress() {
    #expect(packet(LESetRandomAddress(peer)) == octetsOf("052006 f5f4f3f2f1f0"))
  }
}

/// Return parameters after the status, laid out by hand from Core 5.4, Vol 4, Part E.
@Suite struct LinkReplyTests {
  private func read<Reply: HCIReply>(_ type: Reply.Type, _ hex: String) throws -> Reply {
    let octets = octetsOf(hex)
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.truncated(.hciEvent, needed: octets.count, available: count)) {
        _ = try Reply(validating: cut.span)
      }
    }
    return try Reply(validating: octets.span)
  }

  @Test func readsRSSI() throws {
    let near = try read(ReadRSSI.Reply.self, "4000 d6")
    #expect(near.handle == ConnectionHandle(0x40))
    #expect(near.rssi == -42)
    #expect(try read(ReadRSSI.Reply.self, "4000 7f").rssi == nil)
  }
}

/// Event parameters that google/bumble 0.0.236 encodes.
@Suite struct LinkEventTests {
  private func checkTruncations(_ hex: String, _ decode: ([UInt8]) throws(WireError) -> Void) {
    let octets = octetsOf(hex)
    for count in 0..<octets.count {
      let cut = Array(octets[..<count])
      #expect(throws: WireError.truncated(.hciEvent, needed: octets.count, available: count)) {
        try decode(cut)
      }
    }
  }

  @Test func readsAParameterRequest() throws {
    let hex = "06 4000 0600 0c00 0100 c800"
    let octets = octetsOf(hex)
    let request = try LERemoteConnectionParameterRequest(validating: octets.span)
    #expect(request.handle == ConnectionHandle(0x40))
    #expect(
      request.wanted
        == LinkParameterRange(minimumInterval: 6, maximumInterval: 12, latency: 1, supervisionTimeout: 200))
    checkTruncations(hex) { (cut) throws(WireError) in
      _ = try LERemoteConnectionParameterRequest(validating: cut.span)
    }
  }

  @Test func readsRemoteFeatures() throws {
    let hex = "04 00 4000 2301000000000000"
    let octets = octetsOf(hex)
    let read = try LEReadRemoteFeaturesComplete(validating: octets.span)
    #expect(read.status == .success)
    #expect(read.handle == ConnectionHandle(0x40))
    #expect(read.features.hasConnectionParametersRequest)
    #expect(read.features.hasDataPacketLengthExtension)
    #expect(read.features.hasPHY2M)
    #expect(!read.features.hasPHYCoded)
    checkTruncations(hex) { (cut) throws(WireError) in
      _ = try LEReadRemoteFeaturesComplete(validating: cut.span)
    }
  }

  @Test func readsTheRemoteVersion() throws {
    let hex = "00 4000 09 f105 3412"
    let octets = octetsOf(hex)
    let read = try ReadRemoteVersionComplete(validating: octets.span)
    #expect(read.status == .success)
    #expect(read.handle == ConnectionHandle(0x40))
    #expect(read.version == LinkLayerVersion(version: 9, company: 0x05F1, subversion: 0x1234))
    checkTruncations(hex) { (cut) throws(WireError) in
      _ = try ReadRemoteVersionComplete(validating: cut.span)
    }
  }
}

/// Core 5.4, Vol 6, Part B, 1.3.2.
@Suite struct RandomAddressTests {
  @Test func setsTheTwoUpperBits() throws {
    let bits: UInt64 = 0xFFFF_1234_5678_9ABC
    let fixed = try #require(DeviceAddress.randomStatic(bits))
    #expect(fixed.description == "D2:34:56:78:9A:BC")
    #expect(fixed.type == .random)
    let fleeting = try #require(DeviceAddress.nonResolvablePrivate(bits))
    #expect(fleeting.description == "12:34:56:78:9A:BC")
    #expect(fleeting.type == .random)
  }

  /// At least one bit of the random part is 0, and at least one is 1.
  @Test func refusesAllZerosAndAllOnes() {
    for bits in [0, 1 << 46, 1 << 46 - 1, UInt64.max] as [UInt64] {
      #expect(DeviceAddress.randomStatic(bits) == nil)
      #expect(DeviceAddress.nonResolvablePrivate(bits) == nil)
    }
    #expect(DeviceAddress.randomStatic(1)?.description == "C0:00:00:00:00:01")
    #expect(DeviceAddress.nonResolvablePrivate(1 << 46 - 2)?.description == "3F:FF:FF:FF:FF:FE")
  }

  @Test func differsFromThePublicAddress() {
    let own = DeviceAddress(bits: 0x0000_5E00_5301, type: .public)
    #expect(DeviceAddress.nonResolvablePrivate(own.bits, differingFrom: own) == nil)
    #expect(DeviceAddress.nonResolvablePrivate(own.bits + 1, differingFrom: own) != nil)
  }

  @Test(
    arguments: [
      ("C0:00:00:00:00:01", .static), ("7F:00:00:00:00:01", .resolvablePrivate),
      ("3F:00:00:00:00:01", .nonResolvablePrivate), ("80:00:00:00:00:01", .reserved),
    ] as [(String, RandomAddressKind)])
  func tellsKindsApart(_ text: String, _ kind: RandomAddressKind) throws {
    let address = try #require(DeviceAddress(text, type: .random))
    #expect(RandomAddressKind(address) == kind)
    #expect(RandomAddressKind(address.with(type: .public)) == nil)
  }
}
