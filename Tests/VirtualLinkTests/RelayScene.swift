import BLEDissector
import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLESensors
import BLEStack
import BLEWire
import Foundation
import PeripheralKit
import Recording
import Relay
import SensorSessions
import Synchronization
import Testing

/// A relay in virtual time, and centrals of our own stack that receive its values.
final class RelayScene: Sendable {
  /// A value that a central received.
  struct Heard: Sendable {
    let seconds: Double
    let octets: [UInt8]

    private var measurement: HeartRateMeasurement? { try? HeartRateMeasurement(decoding: octets.span) }
    var contact: HeartRateMeasurement.SensorContact? { measurement?.contact }
    var beatsPerMinute: UInt16 { measurement?.beatsPerMinute ?? 0 }
  }

  private struct State: Sendable {
    var heard: [[Heard]]
    /// For each central, the number of values that the relay sent before it had subscribed.
    var unheard: [Int]
    var values = 0
    var count = 0
    var features: [UInt8]?
    var early = 0
    var late = 0
  }

  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)

  private let duration: Duration
  private let characteristic: BluetoothUUID
  private let intervals: [UInt16]
  private let keeps: Bool
  private let state: Mutex<State>
  /// Whether to end the relay by cancelling its task, after ten values.
  let isCancelled = Atomic(false)
  /// Whether the adapter had no links and no advertising at the end.
  let isQuiet = Atomic(false)

  /// - Parameters:
  ///   - intervals: connection interval of each central, in units of 1.25 ms.
  ///   - keeps: whether values are stored, or only counted.
  init(
    for duration: Duration, _ characteristic: BluetoothUUID = .heartRateMeasurement,
    intervals: [UInt16] = [24],
    keeps: Bool = true
  ) {
    (self.duration, self.characteristic, self.intervals, self.keeps) = (
      duration, characteristic, intervals, keeps
    )
    state = Mutex(
      State(heard: intervals.map { _ in [] }, unheard: intervals.map { _ in 0 }))
  }

  func heard(_ central: Int = 0) -> [Heard] { state.withLock { $0.heard[central] } }
  func unheard(_ central: Int) -> Int { state.withLock { $0.unheard[central] } }
  var unheard: Int { unheard(0) }
  var count: Int { state.withLock(\.count) }
  var features: [UInt8]? { state.withLock(\.features) }
  /// Resident memory in bytes after an hour and at the end.
  var memory: (Int, Int) { state.withLock { ($0.early, $0.late) } }

  /// - Parameter interval: connection interval to the sensor, in units of 1.25 ms.
  func run<Source: RelaySource>(
    _ kind: SensorKind<Source.Sample>, _ source: Source, _ address: DeviceAddress, interval: UInt16? = nil,
    _ peripherals: @Sendable () -> [any VirtualPeripheral]
  ) async throws -> RelayOutcome {
    let device = try await VirtualDevice.open(
      centrals: intervals.count, pace: .air, clock: .virtual(from: Self.start), peripherals: peripherals)
    let outcome = try await withTaskExecutorPreference(device.loop.preference) {
      var plan = DeviceSession.Plan(address)
      plan.patience = .seconds(60)
      if let interval {
        (plan.request.interval, plan.request.supervisionTimeout) = (interval...interval, 3_200)
      }
      var relay = Relay(kind, source, plan, on: device.host, advertisedBy: device.host, as: "Relay")
      relay.duration = duration
      let running = relay
      let isReady = OneShot<Void>()
      let task = Task(executorPreference: device.loop.preference) {
        try await running.run { event in
          switch event {
          case .ready: isReady.set(())
          case .value: self.state.withLock { $0.values += 1 }
          case .central(.subscribed(let central, _, let pushes), _) where !pushes.isEmpty:
            self.state.withLock { state in state.unheard[central.number - 1] = state.values }
          default: break
          }
        }
      }
      await isReady.value()
      for central in intervals.indices { try await listen(central, device) }
      if isCancelled.load(ordering: .relaxed) {
        while heard().count < 10 { try await device.loop.wait(for: .milliseconds(100)) }
        task.cancel()
      }
      if !keeps {
        try await device.loop.wait(for: .seconds(3600))
        state.withLock { $0.early = Self.residentByteCount }
      }
      let outcome = try await task.value
      state.withLock { $0.late = Self.residentByteCount }
      // The controller has not reported the ends of the links yet.
      let limit = device.loop.clock.monotonic().advanced(by: .seconds(2))
      while await device.host.load > 0, device.loop.clock.monotonic() < limit {
        try await device.loop.wait(for: .milliseconds(10))
      }
      let (load, isAdvertising) = (await device.host.load, await device.host.isAdvertising)
      isQuiet.store(load == 0 && !isAdvertising, ordering: .relaxed)
      return outcome
    }
    await device.close()
    return outcome
  }

  private func listen(_ central: Int, _ device: VirtualDevice) async throws {
    let connection = try await device.connect(
      central, interval: intervals[central], supervisionTimeout: 3_200)
    let found = try await connection.discover().services.flatMap(\.characteristics)
    let wanted = try #require(found.first { $0.uuid == characteristic })
    if let feature = found.first(where: { $0.uuid == .cscFeature }) {
      let octets = try await connection.read(feature.valueHandle)
      state.withLock { $0.features = octets }
    }
    _ = try await connection.subscribe(wanted) { [self] notification, time in
      let octets = [UInt8](encoding: notification.value.count) { $0.append(notification.value) }
      let heard = Heard(seconds: (time - Self.start).seconds, octets: octets)
      state.withLock { state in
        state.count += 1
        if keeps { state.heard[central].append(heard) }
      }
    }
  }

  private static var residentByteCount: Int {
    let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
    return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 4096
  }

  func text(_ outcome: RelayOutcome) -> String {
    func figure(_ histogram: LogLinearHistogram) -> String {
      let parts = [500, 990].map { Double(histogram.percentile(perMille: $0) ?? 0) / 1e6 }
      return "\(parts[0]) / \(parts[1]) ms"
    }
    let delays = outcome.delays
    return "\(outcome.values) values, \(outcome.silences) silences, p50 / p99: estimator "
      + "\(figure(delays.estimator)), transport \(figure(delays.transport)), total \(figure(delays.total))"
  }
}
