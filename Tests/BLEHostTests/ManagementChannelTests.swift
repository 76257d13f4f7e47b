import BLELinux
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

@testable import BLEHost

/// A management channel over a socket pair; a script plays the kernel, with bytes that Linux 6.1 sent.
@Suite(.timeLimit(.minutes(1))) struct ManagementChannelTests {
  private static let information =
    "0100 0000 1b01 0400 00 0153005e0000 0d ffff 1bbe0100 01020000 000000"
    + String(repeating: "00", count: 260)
  private static let (started, busy) = ("0100 0000 0400 2300 00 06", "0100 0000 0400 2300 0a 06")
  private static let (stopped, rejected) = ("0100 0000 0400 2400 00 06", "0100 0000 0400 2400 0b 06")
  private static let (discovering, over) = ("1300 0000 0200 0601", "1300 0000 0200 0600")
  private static let found = "1200 0000 1b00 b2a1000dcb70 01 c9 00000000 0d00 020106 09095230325f41314232"
  private static let (start, stop) = ("23000000010006", "24000000010006")

  private let loop: EventLoop
  private let notes = Lines()

  init() throws { loop = try EventLoop.start() }

  private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    let count = Counter()
    var all: [String] { lines.withLock { $0 } }
    func add(_ line: String) {
      lines.withLock { $0.append(line) }
      count.add()
    }
  }

  /// - Parameter script: packets that the kernel sends for each command after the first, by the command's
  ///   bytes.
  private func open(
    _ script: @escaping @Sendable (String) -> [String]
  ) async throws -> (channel: ManagementChannel, kernel: Peer) {
    let pair = try SocketPair()
    let kernel = try Peer.start(pair.theirs()) { command in
      let command = hexOf(command)
      return (command == "040000000000" ? [Self.information] : script(command)).map(octetsOf)
    }
    let notes = notes
    let channel = try await ManagementChannel.adopt(pair.ours(), index: 0, on: loop) { notes.add($0) }
    return (channel, kernel)
  }

  private func close(_ channel: ManagementChannel) async {
    await channel.close()
    loop.stop()
  }

  @Test func reportsWhatIsFound() async throws {
    let (channel, kernel) = try await open { command in
      command == Self.start ? [Self.started, Self.discovering, Self.found] : [Self.stopped, Self.over]
    }
    let seen = Lines()
    try await channel.startDiscovery { report, _ in seen.add("\(report.address) \(report.rssi ?? 0)") }
    await seen.count.reaches(1)
    try await channel.stopDiscovery()
    #expect(seen.all == ["70:CB:0D:00:A1:B2 -55"])
    #expect(kernel.received.dropFirst().map(hexOf) == [Self.start, Self.stop])
    #expect(notes.all == [])
    await close(channel)
  }

  /// Another adapter's events, other replies and BR/EDR devices are ignored.
  @Test func leavesOutWhatIsOthers() async throws {
    let elsewhere = "1200 0100 1b00 b2a1000dcb70 01 c9 00000000 0d00 020106 09095230325f41314232"
    let classic = "1200 0000 0e00 b2a1000dcb70 00 c9 00000000 0000"
    let unknown = "3000 0000 0000"
    let reply = "0100 0000 0300 3500 00"
    let (channel, _) = try await open { command in
      command == Self.start
        ? [elsewhere, classic, unknown, reply, Self.started, Self.discovering, Self.found]
        : [Self.stopped]
    }
    let seen = Lines()
    try await channel.startDiscovery { report, _ in seen.add("\(report.address)") }
    await seen.count.reaches(1)
    #expect(seen.all.count == 1)
    #expect(await channel.malformed == 0)
    try await channel.stopDiscovery()
    await close(channel)
  }

  /// Index Removed ends the scan. An adapter that is only powered off may come back.
  @Test func endsAScanWhenTheAdapterGoes() async throws {
    let removed = "0500 0000 0000"
    let (channel, _) = try await open { $0 == Self.start ? [Self.started, Self.discovering, removed] : [] }
    let lost = Counter()
    await channel.onLost { lost.add() }
    try await channel.startDiscovery { _, _ in }
    await lost.reaches(1)
    await #expect(throws: HostError.adapterDown("hci0")) { try await channel.stopDiscovery() }
    await close(channel)
  }

  @Test func countsWhatIsMalformed() async throws {
    let (channel, _) = try await open { command in
      command == Self.start
        ? [Self.started, "1300 0000 0300 0601", "1200 0000 0200 0000", Self.found] : [Self.stopped]
    }
    let seen = Lines()
    try await channel.startDiscovery { report, _ in seen.add("\(report.address)") }
    await seen.count.reaches(1)
    #expect(await channel.malformed == 2)
    try await channel.stopDiscovery()
    await close(channel)
  }

  /// All of the kernel's packets arrive at once: the reply is processed before the end that follows it.
  @Test func beginsAgainAfterTheKernelsEnd() async throws {
    let starts = Counter()
    let (channel, kernel) = try await open { command in
      guard command == Self.start else { return [Self.stopped, Self.over] }
      starts.add()
      return starts.value < 3
        ? [Self.started, Self.discovering, Self.over] : [Self.started, Self.discovering]
    }
    try await channel.startDiscovery { _, _ in }
    await starts.reaches(3)
    try await channel.stopDiscovery()
    #expect(kernel.received.dropFirst().map(hexOf) == [Self.start, Self.start, Self.start, Self.stop])
    await close(channel)
  }

  /// Another program is discovering: its results are ours too, but its end does not end our scan.
  @Test func listensWhileAnotherDiscovers() async throws {
    let (channel, kernel) = try await open { command in
      command == Self.start ? [Self.busy, Self.found] : [Self.stopped]
    }
    let seen = Lines()
    try await channel.startDiscovery { report, _ in seen.add("\(report.address)") }
    await seen.count.reaches(1)
    try await channel.stopDiscovery()
    #expect(!kernel.received.map(hexOf).contains(Self.stop))
    #expect(notes.all.count == 1)
    #expect(notes.all.first?.contains("already runs discovery on hci0") == true)
    await close(channel)
  }

  @Test func takesOverFromAnother() async throws {
    let starts = Counter()
    let (channel, kernel) = try await open { command in
      guard command == Self.start else { return [Self.stopped, Self.over] }
      starts.add()
      return starts.value == 1 ? [Self.busy, Self.over] : [Self.started, Self.discovering, Self.found]
    }
    let seen = Lines()
    try await channel.startDiscovery { report, _ in seen.add("\(report.address)") }
    await seen.count.reaches(1)
    try await channel.stopDiscovery()
    #expect(kernel.received.dropFirst().map(hexOf) == [Self.start, Self.start, Self.stop])
    await close(channel)
  }

  /// It had just ended by itself: this is not an error.
  @Test func endsWhatHasEnded() async throws {
    let (channel, _) = try await open { $0 == Self.start ? [Self.started] : [Self.rejected] }
    try await channel.startDiscovery { _, _ in }
    try await channel.stopDiscovery()
    try await channel.stopDiscovery()
    await close(channel)
  }

  /// For example, a scan ends and an adapter is closed before the kernel has replied to the start.
  @Test func allWhoStopAStartGoOn() async throws {
    let (channel, kernel) = try await open { $0 == Self.stop ? [Self.stopped, Self.over] : [] }
    let start = Task { try await channel.startDiscovery { _, _ in } }
    _ = await kernel.received(atLeast: 2)
    let stops = await channel.beginStops(2)
    // In the order in which they reach the loop: both wait now.
    _ = await channel.malformed
    await #expect(throws: HostError.scanBusy(holder: "this program"), "the first start is not answered yet") {
      try await channel.startDiscovery { _, _ in }
    }
    kernel.send(octetsOf(Self.started))
    for stop in stops { try await stop.value }
    try await start.value
    #expect(kernel.received.dropFirst().map(hexOf) == [Self.start, Self.stop])
    await close(channel)
  }

  @Test(
    arguments: [
      (
        "0200 0000 0300 2300 14",
        .notPermitted(action: "the kernel's management interface", capability: "CAP_NET_ADMIN")
      ),
      ("0100 0000 0400 2300 0f 06", .adapterDown("hci0")), ("0200 0000 0300 2300 11", .adapterDown("hci0")),
      ("0100 0000 0400 2300 0c 06", .managementRefused(.startDiscovery, .notSupported)),
    ] as [(String, HostError)])
  func saysWhyItCannot(_ answer: String, _ error: HostError) async throws {
    let (channel, kernel) = try await open { _ in [answer] }
    await #expect(throws: error) { try await channel.startDiscovery { _, _ in } }
    try await channel.stopDiscovery()
    #expect(kernel.received.count == 2, "nothing to end")
    await close(channel)
  }

  @Test func failsWhenTheKernelHangsUp() async throws {
    let (channel, kernel) = try await open { _ in [] }
    let load = Task { try await channel.command(LoadConnectionParameters([])) }
    _ = await kernel.received(atLeast: 2)
    kernel.hangUp()
    await #expect(throws: HostError.adapterDown("hci0")) { try await load.value }
    await #expect(throws: HostError.adapterDown("hci0")) {
      try await channel.command(LoadConnectionParameters([]))
    }
    await close(channel)
  }
}

extension ManagementChannel {
  fileprivate func beginStops(_ count: Int) -> [Task<Void, any Error>] {
    (0..<count).map { _ in Task { try await stopDiscovery() } }
  }
}
