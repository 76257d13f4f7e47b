import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CMallocCounter
import ColmiRing
import Synchronization
import TestPeer
import Testing

/// Notifications through a real `Connection`: socket, event loop, slab, client machine, subscriber, ring
/// decode, sample queue and packet log, without any allocation on the receive thread.
///
/// Rejected frames cannot be measured here, because swift-testing keeps a copy of every error thrown.
@Suite(.serialized, .enabled(if: malloc_counter_counts(), "the sanitizer has an allocator of its own"))
struct ZeroAllocationTests {
  static let warmUp = 2_000
  static let measured = 100_000
  static let valueHandle = AttributeHandle(0x12)

  /// The part of a notification that the recorder of a ring keeps.
  struct Sample: BitwiseCopyable, Sendable {
    let time: ReceiveTime
    let sample: RingRawSample
  }

  /// Decodes and queues samples, and records the receive thread's allocations at both ends of the measured
  /// stretch.
  final class Sink: Sendable {
    let samples = SampleQueue<Sample>(capacity: 1 << 10)
    let malformed = Atomic<Int>(0)
    let before = Atomic<UInt64>(0)
    let after = Atomic<UInt64>(0)
    let seen = Atomic<Int>(0)
    let done = Counter()

    func take(_ notification: borrowing HandleValueNotification, at time: ReceiveTime) {
      let number = seen.add(1, ordering: .relaxed).newValue
      do throws(WireError) {
        let frame = try RingFrame(validating: notification.value)
        samples.push(Sample(time: time, sample: try RingRawSample(decoding: frame)))
      } catch { malformed.add(1, ordering: .relaxed) }
      if number == ZeroAllocationTests.warmUp {
        before.store(malloc_counter_calls(), ordering: .relaxed)
      } else if number == ZeroAllocationTests.warmUp + ZeroAllocationTests.measured {
        after.store(malloc_counter_calls(), ordering: .relaxed)
        done.add()
      }
    }

    var allocations: UInt64 { after.load(ordering: .relaxed) - before.load(ordering: .relaxed) }
  }

  @Test func oneHundredThousandNotificationsAllocateNothing() async throws {
    let sink = Sink()
    let statistics = try await receive(sink) { sink.take($0, at: $1) }
    #expect(sink.allocations == 0)
    #expect(sink.malformed.load(ordering: .relaxed) == 0)
    #expect(statistics.notifications == Self.warmUp + Self.measured)
    #expect(statistics.malformed == 0)
    #expect(statistics.withoutKernelStamp == 0)
  }

  /// The counter detects the allocations of a subscriber that copies.
  @Test func aSinkThatCopiesIsCounted() async throws {
    let sink = Sink()
    let kept = Mutex<[UInt8]>([])
    _ = try await receive(sink) { notification, time in
      kept.withLock { $0 = [UInt8](encoding: notification.value.count) { $0.append(notification.value) } }
      sink.take(notification, at: time)
    }
    #expect(sink.allocations >= UInt64(Self.measured))
  }

  private func receive(
    _ sink: Sink, _ body: @escaping Connection.Sink
  ) async throws -> BearerStatistics {
    let pair = try SocketPair()
    let loop = try EventLoop.start()
    // Responds to the write of the configuration, then sends without a pause; the socket's own limit slows it
    // down.
    let peer = try Peer.start(pair.theirs()) { $0[0] == ATTOpcode.writeRequest.rawValue ? [[0x13]] : [] }
    let log = PacketQueue(byteCount: 1 << 16)
    let wake = try WakeEvent()
    let connection = try await Connection.adopt(
      pair.ours(), peer: .any, on: loop, tap: PacketTap(log))
    await connection.addWake(wake)
    let drains = Drain(sink.samples, log, wake)
    try drains.start()

    let characteristic = GATTDatabase.Characteristic(
      handle: AttributeHandle(0x11), properties: .notify, valueHandle: Self.valueHandle,
      endHandle: AttributeHandle(0x13), uuid: RingUUID.commandNotify,
      descriptors: [
        GATTDatabase.Descriptor(handle: AttributeHandle(0x13), uuid: .clientCharacteristicConfiguration)
      ])
    _ = try await connection.subscribe(characteristic, body)
    try SystemThread.start(named: "sender") { Self.send(to: peer) }
    await sink.done.reaches(1)
    let statistics = await connection.statistics
    await connection.close()
    drains.stop()
    loop.stop()
    return statistics
  }

  /// Sends captured frames of a ring (`ring-vectors.json`: raw-spo2-ei-1, raw-ppg-ei-1, raw-acc-ei-1).
  private static func send(to peer: Peer) {
    let captured: [[UInt8]] = [
      [0xA1, 0x01, 0x00, 0xA0, 0x00, 0xC2, 0x00, 0x72, 0x00, 0x95, 0x01, 0, 0, 0, 0, 0x0C],
      [0xA1, 0x02, 0x29, 0x81, 0x2A, 0xCD, 0x29, 0xC1, 0x01, 0x0C, 0x01, 0, 0, 0, 0, 0x3C],
      [0xA1, 0x03, 0x12, 0x03, 0x0B, 0x0D, 0x17, 0x04, 0, 0, 0, 0, 0, 0, 0, 0xEC],
    ]
    let frames = captured.map { [0x1B, 0x12, 0x00] + $0 }
    for number in 0..<warmUp + measured { peer.send(frames[number % frames.count]) }
  }

  /// Empties both queues as the recorder's thread does.
  final class Drain: Sendable {
    private let samples: SampleQueue<Sample>
    private let log: PacketQueue
    private let wake: WakeEvent
    private let isStopping = Atomic<Bool>(false)

    init(_ samples: SampleQueue<Sample>, _ log: PacketQueue, _ wake: WakeEvent) {
      self.samples = samples
      self.log = log
      self.wake = wake
    }

    func start() throws {
      try SystemThread.start(named: "drain") { [self] in
        while !isStopping.load(ordering: .sequentiallyConsistent) {
          while samples.pop() != nil {}
          while log.pop({ _, _, _, _ in }) {}
          wake.sleep { samples.isEmpty && log.isEmpty && !isStopping.load(ordering: .sequentiallyConsistent) }
        }
      }
    }

    func stop() {
      isStopping.store(true, ordering: .sequentiallyConsistent)
      wake.signal()
    }
  }
}
