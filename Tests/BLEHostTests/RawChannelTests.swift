import BLELinux
import BLEWire
import CTestSystem
import Glibc
import Synchronization
import TestKit
import TestPeer
import Testing

@testable import BLEHost

/// The raw channel over a socket pair; a script plays the controller, on a kernel that is out of memory.
@Suite(.timeLimit(.minutes(1))) struct RawChannelTests {
  /// Read Local Supported Commands, and its Command Complete: 64 bytes of bits. Core 5.4, Vol 4, Part E,
  /// 7.4.2.
  private static let command = "01021000"
  private static let reply = "04 0e 44 01 0210 00" + String(repeating: "5a", count: 64)

  private func open(
    failing number: CInt, skip: CInt = 0, count: CInt, lost: Counter = Counter()
  ) async throws -> (loop: EventLoop, channel: RawChannel, controller: Peer) {
    let loop = try EventLoop.start()
    let pair = try SocketPair()
    let controller = try Peer.start(pair.theirs()) { hexOf($0) == Self.command ? [octetsOf(Self.reply)] : [] }
    let address = DeviceAddress(bits: 0x5E00_5301, type: .public)
    let info = AdapterInfo(index: 0, address: address, isUp: true, bus: 0)
    let channel = try await RawChannel.adopt(pair.ours(), of: info, on: loop) { _ in }
    await channel.onLost { lost.add() }
    // Only calls on the receive thread fail.
    await Task(executorPreference: loop) { test_fail(TEST_RECVMMSG, number, skip, count) }.value
    return (loop, channel, controller)
  }

  /// Packets that wait in the socket are received when there is memory again, and the channel stays open.
  @Test(arguments: [ENOMEM, ENOBUFS], [1, 50, 900] as [CInt])
  func goesOnAfterAShortage(_ number: CInt, _ count: CInt) async throws {
    let lost = Counter()
    let (loop, channel, _) = try await open(failing: number, count: count, lost: lost)
    #expect(try await channel.command(ReadLocalSupportedCommands()) == Array(repeating: 0x5A, count: 64))
    let failures = await Task(executorPreference: loop) { () -> CInt in
      defer { test_fail(TEST_RECVMMSG, 0, 0, 0) }
      return test_failures(TEST_RECVMMSG)
    }.value
    #expect(failures == count)
    // A success in between resets the count.
    await Task(executorPreference: loop) { test_fail(TEST_RECVMMSG, number, 0, count) }.value
    #expect(try await channel.command(ReadLocalSupportedCommands()).count == 64)
    #expect(lost.value == 0)
    await channel.close()
    loop.stop()
  }

  /// If there is never any memory, the adapter counts as lost: there is no endless loop.
  @Test func isLostInTheEnd() async throws {
    let lost = Counter()
    let (loop, channel, _) = try await open(failing: ENOMEM, count: .max, lost: lost)
    await #expect(throws: HostError.self) { try await channel.command(ReadLocalSupportedCommands()) }
    await lost.reaches(1)
    loop.stop()
  }

  /// The kernel has just started a scan of its own, for a connect, and its commands wait in the socket when the
  /// scan here ends: the kernel's is left alone.
  @Test(arguments: [(["010c20020000", "010c20020100"], 0), ([], 1)] as [([String], Int)])
  func leavesAScanThatJustBegan(_ kernels: [String], _ count: Int) async throws {
    let loop = try EventLoop.start()
    let pair = try SocketPair()
    let commands = Mutex<[String]>([])
    let controller = try Peer.start(pair.theirs()) { octets in
      let command = hexOf(octets)
      commands.withLock { $0.append(command) }
      // Command Complete with a status, for all but the supported commands.
      return [
        octetsOf(command == Self.command ? Self.reply : "04 0e 04 01 \(command.dropFirst(2).prefix(4)) 00")
      ]
    }
    let info = AdapterInfo(
      index: 0, address: DeviceAddress(bits: 0x5E00_5301, type: .public), isUp: true, bus: 0)
    let channel = try await RawChannel.adopt(pair.ours(), of: info, on: loop) { _ in }
    try await channel.startScan(.active, timing: ScanTiming(interval: 16, window: 16), duplicates: .reportAll)
    { _, _ in }
    let before = commands.withLock(\.count)
    try await channel.stopScan(after: kernels.map(octetsOf), from: controller)
    let sent = commands.withLock { $0.dropFirst(before) }
    #expect(sent.count == count && sent.allSatisfy { $0 == "010c20020000" }, "\(sent)")
    await channel.close()
    loop.stop()
  }

  /// Any other error ends it at once.
  @Test func isLostWithTheAdapter() async throws {
    let lost = Counter()
    let (loop, channel, _) = try await open(failing: ENODEV, count: 1, lost: lost)
    await #expect(throws: HostError.adapterDown("hci0")) {
      try await channel.command(ReadLocalSupportedCommands())
    }
    await lost.reaches(1)
    loop.stop()
  }
}

extension RawChannel {
  /// Stops the scan in the turn of the loop in which these commands arrive.
  fileprivate func stopScan(after commands: [[UInt8]], from controller: Peer) async throws(HostError) {
    for command in commands { controller.send(command) }
    try await stopScan()
  }
}
