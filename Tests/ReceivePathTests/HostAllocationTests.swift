import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CMallocCounter
import ColmiRing
import Synchronization
import TestPeer
import Testing

/// Notifications through our own host: packet socket, slab, HCI, L2CAP, client machine, subscriber and ring
/// decode, on one link and on sixteen, without any allocation on the receive thread.
@Suite(
  .serialized, .timeLimit(.minutes(2)),
  .enabled(if: malloc_counter_counts(), "the sanitizer has an allocator of its own"))
struct HostAllocationTests {
  private static let warmUp = 3_000
  private static let measured = 60_000

  private final class Sink: Sendable {
    let seen = Atomic<Int>(0)
    let malformed = Atomic<Int>(0)
    let before = Atomic<UInt64>(0)
    let after = Atomic<UInt64>(0)
    let samples = SampleQueue<RingRawSample>(capacity: 1 << 10)
    let done = Counter()

    func take(_ notification: borrowing HandleValueNotification) {
      do throws(WireError) {
        samples.push(try RingRawSample(decoding: RingFrame(validating: notification.value)))
      } catch { malformed.add(1, ordering: .relaxed) }
      _ = samples.pop()
      let number = seen.add(1, ordering: .relaxed).newValue
      if number == HostAllocationTests.warmUp {
        before.store(malloc_counter_calls(), ordering: .relaxed)
      } else if number == HostAllocationTests.warmUp + HostAllocationTests.measured {
        after.store(malloc_counter_calls(), ordering: .relaxed)
        done.add()
      }
    }
  }

  @Test(arguments: [1, 16]) func notificationsOverOurOwnHostAllocateNothing(_ links: Int) async throws {
    let rings = (0..<links).map { number in
      var ring = EmulatedRing.Configuration()
      ring.address = DeviceAddress(bits: 0x70CB_0D00_0000 + UInt64(number), type: .public)
      ring.notificationsPerSecond = 18_000 / Double(links)
      ring.advertisingInterval = .milliseconds(20)
      ring.behaviour = .quiet
      return ring
    }
    let loop = try EventLoop.start()
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(
      VirtualController(peripherals: rings.map { EmulatedRing($0) }), to: pair.takeController(), .datagrams)
    let adapter = try await HostAdapter.open(
      try loop.transport(over: pair.takeHost(), .datagrams), name: "virtual", on: loop)

    let sink = Sink()
    await adapter.onLost {
      Issue.record("the controller is gone")
      sink.done.add()
    }
    var clients: [Connection] = []
    for ring in rings {
      let client = try await adapter.connect(
        to: ring.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
      _ = try await client.subscribe(Self.replies) { notification, _ in sink.take(notification) }
      clients.append(client)
    }
    let start = [UInt8](encoding: RingFrame.byteCount) { RingCommand.rawStart.encode(into: &$0) }
    for client in clients { try await client.write(start, to: AttributeHandle(0x10)) }
    await sink.done.reaches(1)
    // Closing it is not a loss.
    await adapter.onLost {}
    await adapter.close()
    await emulation.detach()
    loop.stop()

    #expect(sink.after.load(ordering: .relaxed) - sink.before.load(ordering: .relaxed) == 0)
    #expect(sink.malformed.load(ordering: .relaxed) == 0)
  }

  /// As in the table of `EmulatedRing`.
  private static let replies = GATTDatabase.Characteristic(
    handle: AttributeHandle(0x11), properties: .notify, valueHandle: AttributeHandle(0x12),
    endHandle: AttributeHandle(0x13), uuid: RingUUID.commandNotify,
    descriptors: [
      GATTDatabase.Descriptor(handle: AttributeHandle(0x13), uuid: .clientCharacteristicConfiguration)
    ])
}
