import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import SensorSessions
import Synchronization
import Testing

/// Commands of exclusive mode to the controller, other than for data.
@Suite(.timeLimit(.minutes(1))) struct LinkControlTests {
  /// Packets sent to the controller, H4 type byte first.
  private static func sent(_ ring: PacketQueue) -> [[UInt8]] {
    var packets: [[UInt8]] = []
    while ring.pop({ tag, _, _, packet in
      if tag == UInt32(HCIDirection.hostToController.rawValue) {
        packets.append([UInt8](encoding: packet.count) { $0.append(packet) })
      }
    }) {}
    return packets
  }

  /// Parameters of the commands with this opcode, without type and opcode.
  private static func parameters(_ packets: [[UInt8]], _ opcode: HCIOpcode) -> [[UInt8]] {
    let start: [UInt8] = [0x01, UInt8(opcode.rawValue & 0xFF), UInt8(opcode.rawValue >> 8)]
    return packets.filter { $0.starts(with: start) }.map { Array($0.dropFirst(4)) }
  }

  @Test func tellsHowALinkStands() async throws {
    let ring = quietRing()
    let link = try await VirtualLink.open([ring])
    let connection = try await link.adapter.connect(
      to: ring.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    let facts = try await link.adapter.facts(of: connection)
    // The virtual controller's description of its peripherals: link layer 5.0, no company, long packets and
    // 2M.
    #expect(facts.version?.version == 9)
    #expect(facts.version?.company == 0xFFFF)
    #expect(facts.features?.hasDataPacketLengthExtension == true)
    #expect(facts.features?.hasPHY2M == true)
    #expect(facts.rssi != nil)
    await connection.close()
    await link.close()
  }

  @Test func changesALinkThatIsUp() async throws {
    let ring = quietRing()
    let link = try await VirtualLink.open([ring])
    let connection = try await link.adapter.connect(
      to: ring.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    #expect(await connection.link.timing?.interval == 40)
    var request = LinkRequest()
    request.interval = 6...6
    await link.adapter.change(connection, to: request)
    _ = try await connection.read(AttributeHandle(0x0007))
    #expect(await connection.link.timing?.interval == 6)
    await connection.close()
    await link.close()
  }

  /// With the accept list. Core 5.4, Vol 4, Part E, 7.8.15–16.
  @Test func looksForAllThatAreWanted() async throws {
    let log = PacketQueue(byteCount: 1 << 16)
    let clock = LoopClock.virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000))
    let link = try await VirtualLink.open([quietRing()], pace: .air, clock: clock) {
      CapturingTransport($0, into: log)
    }
    await withTaskExecutorPreference(link.loop.preference) {
      await withTaskGroup { group in
        for number in [2, 3] as [UInt64] {
          group.addTask {
            let peer = quietRing(number: number).address
            await #expect(throws: HostError.noAnswer(peer, seconds: 5)) {
              try await link.adapter.connect(to: peer, asking: LinkRequest(), timeout: .seconds(5), tap: nil)
            }
          }
        }
      }
    }
    await link.close()
    let sent = Self.sent(log)
    #expect(Self.parameters(sent, .leClearFilterAcceptList).allSatisfy { $0.isEmpty })
    #expect(
      Set(Self.parameters(sent, .leAddDeviceToFilterAcceptList))
        == Set((2...3).map { [0x00, $0, 0x00, 0x00, 0x0D, 0xCB, 0x70] }))
    // Initiator_Filter_Policy 1 is the accept list; 0 is a directed attempt.
    let policies = Self.parameters(sent, .leCreateConnection).map { $0[4] }
    #expect(policies.contains(0x01))
    #expect(policies.count == Self.parameters(sent, .leCreateConnectionCancel).count)
  }

  /// Each scan has a new non-resolvable private address: its two upper bits are 0. Core 5.4, Vol 6, Part B, 1.3.2.2.
  @Test func hidesWhoScans() async throws {
    let log = PacketQueue(byteCount: 1 << 16)
    let link = try await VirtualLink.open([quietRing()]) { CapturingTransport($0, into: log) }
    await link.adapter.hideInScans()
    for _ in 0..<2 {
      try await link.adapter.startScan(.active, timing: .continuous, duplicates: .reportOnce) { _, _ in }
      try await link.adapter.stopScan()
    }
    await link.close()
    let sent = Self.sent(log)
    let addresses = Self.parameters(sent, .leSetRandomAddress)
    #expect(addresses.count == 2)
    #expect(Set(addresses).count == 2)
    #expect(addresses.allSatisfy { $0[5] & 0xC0 == 0 })
    // Own_Address_Type 1: random.
    #expect(Self.parameters(sent, .leSetScanParameters).map { $0[5] } == [0x01, 0x01])
  }

  /// The log has each packet of the start-up, in both directions, as it is on the wire.
  @Test func capturesEveryPacket() async throws {
    let log = PacketQueue(byteCount: 1 << 16)
    let link = try await VirtualLink.open([quietRing()]) { CapturingTransport($0, into: log) }
    await link.close()
    var first: [(UInt32, [UInt8])] = []
    while log.pop({ tag, _, _, packet in
      first.append((tag, [UInt8](encoding: packet.count) { $0.append(packet) }))
    }) {}
    // Reset, and its Command Complete. Core 5.4, Vol 4, Part E, 7.3.2.
    #expect(first[0] == (0, [0x01, 0x03, 0x0C, 0x00]))
    #expect(first[1] == (1, [0x04, 0x0E, 0x04, 0x01, 0x03, 0x0C, 0x00]))
    #expect(log.dropped == 0)
  }
}
