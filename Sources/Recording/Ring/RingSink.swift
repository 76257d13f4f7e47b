import BLECore
import BLEHost
import BLELinux
import BLEWire
import ColmiRing
import SensorSessions
import Synchronization

/// What the receive thread does with each notification of a ring: check, decode, queue. No lock, no allocation.
final class RingSink: Sendable {
  /// Samples that may wait for the writer: about 8 s of the fastest ring stream (2,083/s).
  static let capacity = 1 << 14

  let samples = SampleQueue<RingRawReading>(capacity: capacity)
  private let tap: PacketTap?
  private let limit: Int
  private let isOpen = Atomic<Bool>(true)
  private let receivedCount = Atomic<Int>(0)
  private let malformedCount = Atomic<Int>(0)
  private let otherCount = Atomic<Int>(0)
  private let repeatedCount = Atomic<Int>(0)
  private let source = RawSource()
  private let lastError = Mutex<WireError?>(nil)
  /// Sample times on the current link.
  let times = SampleTimes()
  private let completion = Mutex<(@Sendable () -> Void)?>(nil)

  /// - Parameter limit: samples after which the recording ends, packet log included.
  init(limit: Int?, tap: PacketTap?) {
    self.limit = limit ?? .max
    self.tap = tap
  }

  /// Notifications while the recording was open.
  var received: Int { receivedCount.load(ordering: .relaxed) }
  var malformed: Int { malformedCount.load(ordering: .relaxed) }
  /// Whole frames that are no raw samples: replies, subtypes that nobody knows.
  var other: Int { otherCount.load(ordering: .relaxed) }
  /// Raw frames that came a second time on another characteristic.
  var repeated: Int { repeatedCount.load(ordering: .relaxed) }
  /// Raw samples that came, whether they found room in the queue or not.
  var sampleCount: Int { received - malformed - other - repeated }
  var lastMalformed: WireError? { lastError.withLock { $0 } }
  /// Whether more than half of the queue is taken.
  var isHalfFull: Bool { samples.isHalfFull }

  /// Calls `body` when the last sample wanted has come.
  func onComplete(_ body: @escaping @Sendable () -> Void) { completion.withLock { $0 = body } }

  /// Receive thread only.
  func take(_ notification: borrowing HandleValueNotification, at time: ReceiveTime) {
    guard isOpen.load(ordering: .relaxed) else { return }
    receivedCount.add(1, ordering: .relaxed)
    do throws(WireError) {
      let frame = try RingFrame(validating: notification.value)
      guard frame.opcode == RingCommand.rawStreamOpcode, !frame.isError else {
        otherCount.add(1, ordering: .relaxed)
        return
      }
      let sample = RingRawReading(time: time, sample: try RingRawSample(decoding: frame))
      guard sample.stream != nil else {
        otherCount.add(1, ordering: .relaxed)
        return
      }
      guard source.isFirst(notification.handle) else {
        repeatedCount.add(1, ordering: .relaxed)
        return
      }
      samples.push(sample)
      times.note(time)
      if sampleCount >= limit { finish() }
    } catch {
      malformedCount.add(1, ordering: .relaxed)
      lastError.withLock { $0 = error }
    }
  }

  /// Another link has come up.
  func beginLink() { source.forget() }

  /// Ends the recording: later notifications are neither recorded nor logged.
  private func finish() {
    isOpen.store(false, ordering: .relaxed)
    tap?.close()
    completion.withLock { $0 }?()
  }
}
