import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

/// Reads, writes and discovery on a streaming link do not delay any notification.
@Suite(.timeLimit(.minutes(1))) struct ControlTrafficTests {
  /// Work that the receive thread had done when a notification reached its subscriber.
  private struct Call: Equatable, Sendable {
    var number: Int
    /// Number of system calls that received PDUs, including this one's.
    var batch: Int
    /// Number of PDUs that we sent.
    var sent: Int
    /// Number of all system calls.
    var systemCalls: UInt64

    /// Whether we did anything for the link between two notifications received by one system call.
    func isDelayed(after last: Call) -> Bool {
      batch == last.batch && (sent != last.sent || systemCalls != last.systemCalls)
    }
  }

  private final class Calls: Sendable {
    private let calls = Mutex<[Call]>([])
    let count = Counter()

    var all: [Call] { calls.withLock { $0 } }

    func take(_ notification: borrowing HandleValueNotification, on connection: Connection) {
      let value = notification.value
      let number = Int(value[0]) << 8 | Int(value[1])
      let statistics = connection.assumeIsolated { $0.statistics }
      let systemCalls = ThreadUsage.currentSystemCalls
      calls.withLock {
        $0.append(
          Call(
            number: number, batch: statistics.batches, sent: statistics.sent, systemCalls: systemCalls))
      }
      count.add()
    }
  }

  private static let handle: UInt16 = 3

  private static func notification(_ number: Int) -> String {
    "1b0300" + hexOf([UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number)])
  }

  private func subscribe(_ link: Link, _ calls: Calls) async throws -> Subscription {
    let connection = link.connection
    return try await connection.subscribe(Link.characteristic(Self.handle)) { value, _ in
      calls.take(value, on: connection)
    }
  }

  /// A response inside a batch allows the next request, which is sent after the batch.
  @Test func theNextRequestWaitsForTheWholeBatch() async throws {
    let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : [] }
    let calls = Calls()
    let subscription = try await subscribe(link, calls)
    let reads = (8...9 as ClosedRange<UInt16>).map { handle in
      Task { try await link.connection.read(AttributeHandle(handle)) }
    }
    // The configuration and the first read; the other read is queued once it was requested, too.
    let first = await link.peer.received(atLeast: 2)
    try await eventually("the other read waits") { await link.connection.waitingRequests == 1 }
    let gate = Gate()
    let held = Task { await link.connection.hold(at: gate) }
    await gate.waitForSomebody()
    link.send(Self.notification(0))
    link.send("0b" + hexOf([first[1][1]]))
    for number in 1...9 { link.send(Self.notification(number)) }
    gate.open()
    await held.value
    await calls.count.reaches(10)
    let second = await link.peer.received(atLeast: 3)
    #expect(hexOf(second[2].prefix(1)) == "0a", "the other read follows")
    link.send("0b" + hexOf([second[2][1]]))
    for read in reads { #expect(try await read.value.count == 1) }

    let all = calls.all
    #expect(all.map(\.number) == Array(0..<10))
    #expect(Set(all.map(\.batch)).count == 1, "one system call brought them all")
    #expect(all.allSatisfy { $0.sent == 2 && $0.systemCalls == all[0].systemCalls })
    try await link.connection.unsubscribe(subscription)
    await link.close()
  }

  /// - Returns: number of rounds of discovery, reads and writes until it was cancelled.
  private static func request(over connection: Connection) async throws -> Int {
    var rounds = 0
    do throws(GATTError) {
      while !Task.isCancelled {
        let services = try await connection.discover().services.count
        let value = try await connection.read(AttributeHandle(8))
        try await connection.write([1], to: AttributeHandle(9))
        #expect(services == 1 && value == [8, 0])
        rounds += 1
      }
    } catch { guard error == .cancelled else { throw error } }
    return rounds
  }

  /// A stream of 30,000, and requests of each kind as fast as their responses arrive.
  @Test func aBusyLinkDeliversEachBatchAtOnce() async throws {
    let count = 30_000
    let link = try await Link.open { pdu in
      switch pdu.prefix(2) {
      // One primary service without attributes, then no more.
      case "10":
        [
          pdu == "100100ffff0028"
            ? "1106" + "0100" + "2000" + "0d18" : "0110" + pdu.dropFirst(2).prefix(4) + "0a"
        ]
      case "08", "04": ["01" + pdu.prefix(2) + pdu.dropFirst(2).prefix(4) + "0a"]
      case "0a": ["0b" + pdu.dropFirst(2)]
      case "12": ["13"]
      default: []
      }
    }
    let calls = Calls()
    let subscription = try await subscribe(link, calls)
    // Several tasks, so that a request is queued whenever a response arrives.
    let requests = (0..<4).map { _ in Task { try await Self.request(over: link.connection) } }
    let peer = link.peer
    try SystemThread.start(named: "stream") {
      for number in 0..<count { peer.send(octetsOf(Self.notification(number))) }
    }
    await calls.count.reaches(count)
    for request in requests { request.cancel() }
    for request in requests { #expect(try await request.value > 0) }
    let all = calls.all
    #expect(all.map(\.number) == Array(0..<count))
    #expect(zip(all.dropFirst(), all).filter { $0.isDelayed(after: $1) }.isEmpty)
    #expect(all[count - 1].sent > all[0].sent, "requests went between the notifications")
    try await link.connection.unsubscribe(subscription)
    await link.close()
  }
}
