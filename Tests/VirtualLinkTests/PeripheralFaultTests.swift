import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire
import PeripheralKit
import Synchronization
import TestKit
import Testing

/// Centrals that break rules: each gets the specified response, and is counted.
@Suite(.timeLimit(.minutes(1))) struct PeripheralFaultTests {
  /// 0x000C: read only. 0x000E: written and indicated, followed by its CCCD. 0x0011: notified. 0x0014:
  /// requires encryption.
  static let services: [GATTServiceDescription] = {
    var protected = GATTCharacteristicDescription(BluetoothUUID(0xAA04), [.read, .write], value: [4])
    protected.demand(.needs(.encrypted))
    return [
      GATTServiceDescription(
        BluetoothUUID(0xAA00), handle: AttributeHandle(0x000B),
        characteristics: [
          GATTCharacteristicDescription(
            BluetoothUUID(0xAA01), .read, value: [1], handle: AttributeHandle(0x000C)),
          GATTCharacteristicDescription(
            BluetoothUUID(0xAA02), [.read, .write, .writeWithoutResponse, .indicate], value: [2],
            maximumByteCount: 40, handle: AttributeHandle(0x0010)),
          GATTCharacteristicDescription(BluetoothUUID(0xAA03), .notify, handle: AttributeHandle(0x0020)),
          protected,
        ])
    ]
  }()

  private static let clock = LoopClock.virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000))

  /// Requests in hexadecimal, and their responses. Core 5.4, Vol 3, Part F, 3.4; CCCDs: Core Specification
  /// Supplement, B, 1.2.
  static let refused: [(request: String, answer: String)] = [
    // Invalid handles.
    ("0a0000", "010a000001"), ("0affff", "010affff01"), ("0cffff0000", "010cffff01"),
    ("12ffff00", "0112ffff01"), ("16ffff000000", "0116ffff01"), ("0e0d00ffff", "010effff01"),
    ("200d00ffff", "0120ffff01"),
    // Invalid ranges.
    ("0402000100", "0104020001"), ("0400000100", "0104000001"), ("08020001000028", "0108020001"),
    ("10000001000028", "0110000001"), ("060000ffff00280018", "0106000001"),
    // Operations that are not permitted.
    ("120d0001", "01120d0003"), ("0a2100", "010a210002"), ("0c11000200", "010c110007"),
    ("160d00000001", "01160d0003"),
    ("10 0100 ffff 0029", "0110 0100 10"),
    // Values that do not fit: longer than the attribute, invalid CCCDs.
    ("121100" + String(repeating: "00", count: 20), "13"), ("12 2200 04 00", "0112 2200 fd"),
    ("12 2200 02 00", "0112 2200 fd"), ("12 2200 01 01", "0112 2200 fd"), ("12 2200 01", "0112 2200 0d"),
    ("12 2200 01 00 00", "0112 2200 0d"), ("12 2200", "0112 2200 0d"), ("12 1200 01 00", "0112 1200 fd"),
    // Lengths that are invalid for the request.
    ("02", "0102000004"), ("021700 00", "0102000004"), ("0a", "010a000004"), ("0a0d0000", "010a000004"),
    ("0c0d00", "010c000004"), ("04010001", "0104000004"), ("080100ffff00", "0108000004"),
    ("100100ffff002800", "0110000004"), ("060100ffff00", "0106000004"), ("1211", "0112000004"),
    ("16110000", "0116000004"), ("18", "0118000004"), ("1801 00", "0118000004"), ("1802", "0118000004"),
    ("0e0d00", "010e000004"), ("0e0d000d", "010e000004"), ("200d00", "0120000004"),
    // Not a request in any specification. Core 5.4, Vol 3, Part F, 3.3: bit 6 marks commands.
    ("3e00", "013e000006"), ("b200", "01b2000006"),
  ]

  @Test func refusesWhatIsWrong() async throws {
    let device = try await VirtualDevice.open(centrals: 1)
    try await device.serve(Self.services) { server in
      let connection = try await device.connect()
      for (request, answer) in Self.refused {
        #expect(try await connection.answer(to: request) == answer.filter { $0 != " " }, "\(request)")
      }
      #expect(await server.statistics.refusals == Self.refused.count - 1)
      #expect(await server.subscribers(of: AttributeHandle(0x0021)).isEmpty)
      #expect(await server.statistics.faults == 0)
      // An MTU below the minimum: the minimum applies. Core 5.4, Vol 3, Part F, 3.4.2.1.
      #expect(try await connection.answer(to: "020500") == "030502")
      #expect(try await connection.answer(to: "121100" + String(repeating: "00", count: 20)) == "13")
      #expect(await server.statistics.faults == 1)
      // Truncated commands, an unknown one, an unexpected confirmation: no response, and the link continues.
      for command in ["52", "5211", "7f0000", "1e"] { try await connection.send(octetsOf(command)) }
      #expect(try await connection.answer(to: "0a0d00") == "0b01")
      #expect(await server.statistics.faults == 4)
      #expect(await server.statistics.writes == 2)
      // Longer than the MTU.
      try await connection.send(octetsOf("521100" + String(repeating: "00", count: 21)))
      #expect(try await connection.answer(to: "0a0d00") == "0b01")
      #expect(await server.statistics.faults == 5)
      #expect(await server.statistics.writes == 2)
      // Responses without a request.
      for answer in ["0b01", "13", "030502", "010a030002"] { try await connection.send(octetsOf(answer)) }
      #expect(try await connection.answer(to: "0a0d00") == "0b01")
      #expect(await server.statistics.faults == 9)
      await connection.close()
    }
    await device.close()
  }

  /// There is room for 64 parts: the next is refused, and the earlier ones are still executed. Core 5.4, Vol
  /// 3, Part F, 3.4.6.1.
  @Test func refusesPreparedWritesWithoutEnd() async throws {
    let device = try await VirtualDevice.open(centrals: 2)
    try await device.serve(Self.services) { server in
      let connection = try await device.connect(0)
      for _ in 0..<64 { #expect(try await connection.answer(to: "1611000000aabb") == "1711000000aabb") }
      for _ in 0..<1000 { #expect(try await connection.answer(to: "1611000000cc") == "0116110009") }
      // Each link has its own queue.
      let other = try await device.connect(1)
      #expect(try await other.answer(to: "1611000000dd") == "1711000000dd")
      #expect(try await other.answer(to: "1800") == "19")
      #expect(try await connection.answer(to: "1801") == "19")
      #expect(try await connection.answer(to: "0a1100") == "0baabb")
      #expect(await server.statistics.refusals == 1000)
      #expect(await server.statistics.writes == 1)
      for link in [connection, other] { await link.close() }
    }
    await device.close()
  }

  @Test func storesNothingOfAWriteThatALostLinkBroke() async throws {
    let device = try await VirtualDevice.open(centrals: 2, pace: .air, clock: Self.clock)
    try await withTaskExecutorPreference(device.loop.preference) {
      try await device.serve(Self.services) { server in
        let connection = try await device.connect(0)
        #expect(try await connection.answer(to: "1611000000aabb") == "1711000000aabb")
        #expect(try await connection.answer(to: "1611000200ccdd") == "1711000200ccdd")
        let other = try await device.connect(1)
        await device.emulation.inject(
          AirFault.outOfRange(DeviceAddress(bits: 0x00AA_0100_0001, type: .public)))
        while await server.centrals.count == 2 { try await device.loop.wait(for: .milliseconds(100)) }
        #expect(try await other.answer(to: "1801") == "19")
        #expect(try await other.answer(to: "0a1100") == "0b02")
        let counts = await server.statistics
        #expect(counts.brokenWrites == 1)
        #expect(counts.writes == 0)
        await other.close()
      }
    }
    await device.close()
  }

  // MARK: Floods

  /// A client may have one outstanding request. Core 5.4, Vol 3, Part F, 3.3.2. A client that sends a
  /// thousand and reads the responses gets them in order.
  @Test func answersRequestsThatDidNotWait() async throws {
    let answers = Mutex<[UInt8]>([])
    let device = try await VirtualDevice.open(
      centrals: 1, pace: .air, clock: Self.clock,
      wrap: { base in
        // Its host follows the rule, and therefore sees only the last response.
        HostileTransport(
          base,
          receiving: { channel, payload in
            guard channel == 4, payload.count == 2, payload[0] == 0x0B else { return [payload] }
            return answers.withLock {
              $0.append(payload[1])
              return $0.count == 1000 ? [payload] : []
            }
          })
      })
    try await withTaskExecutorPreference(device.loop.preference) {
      try await device.serve(Self.services) { server in
        let connection = try await device.connect()
        for number in 1..<1000 { try await connection.send([0x0A, number % 3 == 0 ? 0x11 : 0x0D, 0x00]) }
        #expect(try await connection.answer(to: "0a0d00") == "0b01")
        #expect(answers.withLock { $0 } == (1...1000).map { $0 % 3 == 0 ? 2 : 1 })
        #expect(await server.statistics.floods == 0)
        await connection.close()
      }
    }
    await device.close()
  }

  /// The responses are longer than the requests, so the client gets ahead of them: it is disconnected, and
  /// another client is not affected.
  @Test func endsAFloodWhoseAnswersWait() async throws {
    let device = try await VirtualDevice.open(
      centrals: 2, pace: .air, clock: Self.clock,
      wrap: { base in
        HostileTransport(
          base,
          receiving: { channel, payload in
            channel == 0 || channel == 4 && payload.count > 100 ? [] : [payload]
          })
      })
    var services = Self.services
    services[0].characteristics[0].value = [UInt8](repeating: 7, count: 512)
    try await withTaskExecutorPreference(device.loop.preference) {
      try await device.serve(services) { server in
        let connection = try await device.connect(0)
        #expect(try await connection.answer(to: "020502") == "030502")
        let other = try await device.connect(1)
        var count = 0
        while count < 3000, (try? await connection.send([0x0A, 0x0D, 0x00])) != nil { count += 1 }
        #expect(count < 3000)
        #expect(try await other.answer(to: "0a1100") == "0b02")
        #expect(await server.statistics.floods == 1)
        await other.close()
      }
    }
    await device.close()
  }
}

extension Connection {
  /// Sends a request and returns the response, both as hexadecimal.
  func answer(to request: String) async throws -> String {
    do throws(GATTError) {
      return hexOf(try await transact(octetsOf(request.filter { $0 != " " })))
    } catch {
      guard case .refused(let refusal) = error else { throw error }
      return hexOf([UInt8](encoding: ErrorResponse.byteCount) { refusal.encode(into: &$0) })
    }
  }
}
