import BLELinux
import BLEStack
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

import BLEHost

@Suite(.timeLimit(.minutes(1))) struct ConnectionEndTests {
  @Test func aHangUpFailsAllRequests() async throws {
    let link = try await Link.open()
    let requests = (1...10).map { number in
      Task {
        await failure { () async throws(GATTError) in
          try await link.connection.transact([0x0A, UInt8(number), 0])
        }
      }
    }
    let ends = (1...3).map { _ in Task { await link.connection.ended() } }
    _ = await link.peer.received(atLeast: 1)
    link.peer.hangUp()
    for request in requests { #expect(await request.value == .closed(.linkLost(.unknown))) }
    for end in ends { #expect(await end.value == .linkLost(.unknown)) }
    #expect(await link.connection.ended() == .linkLost(.unknown))
    #expect(
      await failure { () async throws(GATTError) in try await link.connection.send([0x52, 1, 0]) }
        == .closed(.linkLost(.unknown)))
    await link.close()
  }

  /// PDUs sent before the disconnect are delivered first.
  @Test func deliversWhatCameBeforeTheEnd() async throws {
    let values = Values()
    let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : [] }
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    for number in 0..<200 { link.peer.send([0x1B, 3, 0, UInt8(number)]) }
    link.peer.hangUp()
    #expect(await link.connection.ended() == .linkLost(.unknown))
    let sent = (0..<200 as Range<UInt8>).map { "3:" + hexOf([$0]) }
    #expect(values.all == sent)
    await link.close()
  }

  /// The kernel reports a socket error before the PDUs that it still holds (`__skb_try_recv_datagram`). Here
  /// a peer that closes with unread data causes ECONNRESET, and so does a lost link on an L2CAP socket.
  @Test func deliversWhatCameBeforeAnError() async throws {
    let pair = try SocketPair()
    let loop = try EventLoop.start()
    let connection = try await Connection.adopt(pair.ours(), peer: .any, on: loop)
    try await connection.send([0x52, 1, 0])
    let gate = Gate()
    let holder = Task { await connection.hold(at: gate) }
    await gate.waitForSomebody()
    do {
      let theirs = pair.theirs()
      for number in 0..<100 as Range<UInt8> {
        let pdu: [UInt8] = [0x1B, 3, 0, number]
        _ = try theirs.send(pdu.span)
      }
    }
    gate.open()
    await holder.value
    #expect(await connection.ended() == .linkLost(.closedByPeer))
    let statistics = await connection.statistics
    #expect(statistics.notifications == 100)
    #expect(statistics.unclaimed == 100)
    loop.stop()
  }

  @Test func closesOnce() async throws {
    let link = try await Link.open()
    let request = Task {
      await failure { () async throws(GATTError) in try await link.connection.transact([0x0A, 1, 0]) }
    }
    _ = await link.peer.received(atLeast: 1)
    await link.connection.close()
    await link.connection.close()
    #expect(await request.value == .closed(.closedLocally))
    #expect(await link.connection.ended() == .closedLocally)
    await link.peer.ended()
    link.peer.hangUp()
    #expect(await link.connection.end == .closedLocally)
    await link.close()
  }

  /// An empty datagram is a malformed PDU, not the end: reference `linux-bluetooth-kernel.md`.
  @Test func anEmptyDatagramIsNotTheEnd() async throws {
    let values = Values()
    let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : [] }
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    link.send("")
    link.send("1b 0300 01")
    await values.count.reaches(1)
    let statistics = await link.connection.statistics
    #expect(statistics.malformed == 1)
    #expect(statistics.withoutKernelStamp == 0)
    #expect(await link.connection.end == nil)
    await link.close()
  }

  /// Closing releases the socket and the subscribers; there is no retain cycle.
  @Test func letsEverythingGo() async throws {
    final class Canary: Sendable {
      let gone: Counter
      init(_ gone: Counter) { self.gone = gone }
      deinit { gone.add() }
    }
    let gone = Counter()
    do {
      let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : [] }
      let canary = Canary(gone)
      _ = try await link.connection.subscribe(Link.characteristic(3)) { [canary] _, _ in
        _ = canary
      }
      await link.close()
    }
    await gone.reaches(1)
  }

  /// A loop that is stopped under a connection ends it: no request waits without end.
  @Test func aStoppedLoopFailsAllRequests() async throws {
    let link = try await Link.open()
    let request = Task {
      await failure { () async throws(GATTError) in try await link.connection.transact([0x0A, 1, 0]) }
    }
    let end = Task { await link.connection.ended() }
    _ = await link.peer.received(atLeast: 1)
    for _ in 0..<100 { _ = await link.connection.mtu }
    link.loop.stop()
    #expect(await request.value == .closed(.closedLocally))
    #expect(await end.value == .closedLocally)
    await link.peer.ended()
  }

  /// Stopping the loop under an open connection releases them, too.
  @Test func letsEverythingGoWithTheLoop() async throws {
    final class Canary: Sendable {
      let gone: Counter
      init(_ gone: Counter) { self.gone = gone }
      deinit { gone.add() }
    }
    let gone = Counter()
    do {
      let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : [] }
      let canary = Canary(gone)
      _ = try await link.connection.subscribe(Link.characteristic(3)) { [canary] _, _ in
        _ = canary
      }
      link.loop.stop()
    }
    await gone.reaches(1)
  }
}

@Suite(.timeLimit(.minutes(1))) struct ConnectionPressureTests {
  /// A full socket buffer does not change the order or lose PDUs.
  @Test func waitsForRoomToSend() async throws {
    let link = try await Link.prepare(sendBufferByteCount: 1)
    let sent = Counter()
    let sender = Task {
      for number in 0..<500 {
        try await link.connection.writeWithoutResponse(
          [UInt8(number & 0xFF), UInt8(number >> 8)], to: .first)
        sent.add()
      }
    }
    await sent.reaches(1)
    for _ in 0..<100 { _ = await link.connection.mtu }
    #expect(sent.value < 500, "the peer reads nothing yet")
    try link.peer.read()
    try await sender.value
    let received = await link.peer.received(atLeast: 500)
    let numbered = (0..<500 as Range<UInt16>).map { number -> [UInt8] in
      [0x52, 1, 0, UInt8(number & 0xFF), UInt8(number >> 8)]
    }
    #expect(received == numbered)
    await link.close()
  }

  @Test func manySendersLoseNothing() async throws {
    let link = try await Link.prepare(sendBufferByteCount: 1)
    let senders = (0..<20).map { sender in
      Task {
        for number in 0..<20 {
          try await link.connection.writeWithoutResponse([UInt8(sender), UInt8(number)], to: .first)
        }
      }
    }
    try link.peer.read()
    for sender in senders { try await sender.value }
    let received = await link.peer.received(atLeast: 400)
    for sender in 0..<20 {
      #expect(received.filter { $0[3] == sender }.map { $0[4] } == Array(0..<20), "each in its order")
    }
    await link.close()
  }

  @Test func aHangUpFailsASenderThatWaits() async throws {
    let link = try await Link.prepare(sendBufferByteCount: 1)
    let sent = Counter()
    let sender = Task {
      await failure { () async throws(GATTError) in
        while true {
          try await link.connection.send([0x52, 1, 0])
          sent.add()
        }
      }
    }
    await sent.reaches(1)
    for _ in 0..<100 { _ = await link.connection.mtu }
    await link.connection.close()
    #expect(await sender.value == .closed(.closedLocally))
    await link.close()
  }

  /// A peer that sends requests without reading the responses breaks the rule of one request at a time.
  @Test func aPeerThatNeverReadsIsCutOff() async throws {
    let link = try await Link.prepare(sendBufferByteCount: 1)
    let asker = Task.detached { for _ in 0..<2_000 { link.send("0a 0001") } }
    let end = await link.connection.ended()
    #expect(end == .answersNotTaken(64))
    #expect("\(end)" == "the device kept sending requests without accepting the responses: 64 were queued")
    await asker.value
    await link.close()
  }

  /// A peer that sends without a pause must not keep callers from the receive thread. Here reading a value
  /// makes the peer send the next, so the socket is never empty.
  @Test func aFloodDoesNotStarveCallers() async throws {
    let isOver = Flag()
    let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : $0.hasPrefix("0a") ? ["0b01"] : [] }
    let peer = link.peer
    _ = try await link.connection.subscribe(Link.characteristic(3)) { _, _ in
      if !isOver.isSet { peer.send([0x1B, 3, 0, 1]) }
    }
    for _ in 0..<128 { peer.send([0x1B, 3, 0, 1]) }
    for _ in 0..<50 {
      _ = await link.connection.mtu
      #expect(try await link.connection.read(.first) == [1])
    }
    isOver.set()
    let statistics = await link.connection.statistics
    #expect(statistics.notifications > 128)
    #expect(statistics.kernelQueueDrops == 0)
    await link.close()
  }

  private final class Flag: Sendable {
    private let value = Atomic<Bool>(false)
    var isSet: Bool { value.load(ordering: .relaxed) }
    func set() { value.store(true, ordering: .relaxed) }
  }
}
