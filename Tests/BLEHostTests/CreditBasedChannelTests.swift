import BLECore
import BLEHost
import BLEStack
import BLELinux
import BLEWire
import Testing

/// Our client against google/bumble's server, over a controller of bumble's.
@Suite(
  .serialized,
  .timeLimit(.minutes(1)))
struct CreditBasedPeerTests {
  /// Steele, Lea and Flood's SplitMix64: the same sizes and octets each time.
  private struct Generator: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var z = state
      z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
      z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
      return z ^ z >> 31
    }
  }

  private func withConnection(
    _ body: (HostAdapter, Connection) async throws -> Void
  ) async throws {
    let peer = try await BumblePeer.start("bumble_credit_channel.py")
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let adapter = try await HostAdapter.open(.tcpClient(host: "127.0.0.1", port: peer.port), on: loop)
    let connection = try await adapter.connect(
      to: peer.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    try await body(adapter, connection)
    #expect(await connection.end == nil)
    #expect(await adapter.malformed == 0)
    await adapter.close()
  }

  /// Sends all, and reads them back at the same time.
  private func echo(_ sdus: [[UInt8]], over channel: CreditBasedChannel) async throws -> [[UInt8]] {
    async let sent: Void = {
      for sdu in sdus { try await channel.send(sdu) }
    }()
    var echoes: [[UInt8]] = []
    for await sdu in channel {
      echoes.append(sdu)
      if echoes.count == sdus.count { break }
    }
    try await sent
    return echoes
  }

  /// 0x80 takes PDUs of 100 octets, 0x81 PDUs of 23 and one at a time; with our side as narrow too.
  @Test(
    arguments: [
      (0x80, .default), (0x81, .default), (0x80, CreditBasedParameters(mtu: 512, mps: 23, credits: 1)),
      (0x81, CreditBasedParameters(mtu: 64, mps: 64, credits: 2)),
    ] as [(UInt16, CreditBasedParameters)])
  func carriesSDUsBothWays(_ spsm: UInt16, _ parameters: CreditBasedParameters) async throws {
    try await withConnection { adapter, connection in
      let channel = try await adapter.openChannel(to: spsm, on: connection, taking: parameters)
      let (mtu, mps) = spsm == 0x80 ? (512, 100) : (64, 23)
      #expect(Int(channel.peerParameters.mtu) == mtu)
      #expect(Int(channel.peerParameters.mps) == mps)

      var random = Generator(state: 1)
      var sizes = [0, 1, mps - 2, mps - 1, mps, mtu]
      for _ in 0..<200 { sizes.append(Int.random(in: 0...mtu, using: &random)) }
      let sdus = sizes.map { size in (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) } }
      #expect(try await echo(sdus, over: channel) == sdus)

      await #expect(throws: ChannelError.tooLong(mtu: mtu)) {
        try await channel.send([UInt8](repeating: 0, count: mtu + 1))
      }
      await channel.close()
      #expect(await channel.end == .closedLocally)
      await #expect(throws: ChannelError.ended(.closedLocally)) { try await channel.send([1]) }
    }
  }

  /// ATT goes on beside the channels, and each has its own SDUs.
  @Test func carriesSeveralChannelsAtOnce() async throws {
    try await withConnection { adapter, connection in
      let first = try await adapter.openChannel(to: 0x80, on: connection)
      let second = try await adapter.openChannel(to: 0x81, on: connection)
      let (ours, theirs) = ((0..<50).map { [1, UInt8($0)] }, (0..<50).map { [2, UInt8($0)] })
      async let echoes = echo(ours, over: first)
      async let others = echo(theirs, over: second)
      // Exchange MTU, Core 5.4, Vol 3, Part F, 3.4.2.
      let answer = try await connection.transact([0x02, 0x05, 0x02])
      #expect(answer.first == 0x03)
      #expect(try await echoes == ours)
      #expect(try await others == theirs)
    }
  }

  @Test func tellsWhyThePeerRefused() async throws {
    try await withConnection { adapter, connection in
      for result in [2, 4, 5, 6, 7, 8, 9, 10, 11, 12] as [UInt16] {
        let expected = ChannelRefusal.refused(CreditBasedConnectionResult(rawValue: result))
        await #expect(throws: ChannelError.refused(expected)) {
          _ = try await adapter.openChannel(to: 0x90 + result, on: connection)
        }
      }
      // bumble's own answer where there is no server.
      await #expect(throws: ChannelError.refused(.refused(.spsmNotSupported))) {
        _ = try await adapter.openChannel(to: 0xFF, on: connection)
      }
      await #expect(throws: ChannelError.refused(.commandRejected(0))) {
        _ = try await adapter.openChannel(to: 0xA1, on: connection)
      }
    }
  }

  /// The channel ends, as the specification says, and the link goes on.
  @Test func endsChannelsThatBreakTheRules() async throws {
    try await withConnection { adapter, connection in
      for (spsm, expected) in [
        (0xB0, .fault(.creditOverflow)), (0xB1, .fault(.sduTooLong(2049))), (0xB2, .fault(.pduTooLong)),
        (0xB4, .closedByPeer),
      ] as [(UInt16, ChannelEnd)] {
        let channel = try await adapter.openChannel(to: spsm, on: connection)
        try await channel.send([1])
        for await sdu in channel { Issue.record("\(sdu)") }
        #expect(await channel.end == expected)
      }
    }
  }

  /// Whoever waits for a peer that says nothing can be told to stop: for an answer, for room, for an SDU.
  @Test func stopsWaitingWhenCancelled() async throws {
    try await withConnection { adapter, connection in
      let opening = Task {
        _ = try await adapter.openChannel(to: 0xA0, on: connection)
      }
      opening.cancel()
      #expect(await failure(of: opening) == .cancelled)

      let channel = try await adapter.openChannel(to: 0xB5, on: connection)
      let reading = Task { for await sdu in channel { Issue.record("\(sdu)") } }
      reading.cancel()
      await reading.value
      // Eight credits, and eight SDUs that wait for more.
      for number in 0..<16 as Range<UInt8> { try await channel.send([number]) }
      let sending = Task { try await channel.send([16]) }
      sending.cancel()
      #expect(await failure(of: sending) == .cancelled)
      #expect(await channel.end == nil)
      // And one that nobody cancels, when the channel ends.
      let waiting = Task { try await channel.send([17]) }
      await channel.close()
      #expect(await failure(of: waiting) == .ended(.closedLocally))
    }
  }

  private func failure(of task: Task<Void, any Error>) async -> ChannelError? {
    do { try await task.value } catch { return error as? ChannelError }
    return nil
  }

  /// Who does not read is not drowned: ten credits are ten SDUs.
  @Test func boundsWhatNobodyReads() async throws {
    try await withConnection { adapter, connection in
      let channel = try await adapter.openChannel(to: 0xB3, on: connection)
      try await channel.send([1])
      #expect(await channel.ended() == .fault(.noCredit))
      var sdus: [[UInt8]] = []
      for await sdu in channel { sdus.append(sdu) }
      #expect(sdus == (0..<10).map { [$0] })
    }
  }

  @Test func endsWithTheLink() async throws {
    let peer = try await BumblePeer.start("bumble_credit_channel.py")
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let adapter = try await HostAdapter.open(.tcpClient(host: "127.0.0.1", port: peer.port), on: loop)
    let connection = try await adapter.connect(
      to: peer.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    let channel = try await adapter.openChannel(to: 0x80, on: connection)
    await connection.close()
    for await sdu in channel { Issue.record("\(sdu)") }
    #expect(await channel.end == .linkLost)
    await #expect(throws: ChannelError.refused(.linkLost)) {
      _ = try await adapter.openChannel(to: 0x80, on: connection)
    }
    await adapter.close()
  }
}
