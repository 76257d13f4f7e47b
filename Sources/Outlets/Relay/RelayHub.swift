package import BLELinux
package import BLEPeripheral
import BLESensors
package import BLEStack
package import BLEWire
package import Recording
package import SensorSessions
import Synchronization

/// Distributes the values of a sensor to the centrals of a local peripheral.
///
/// Each central has a short queue and its own task. If a central is slow, its oldest values are dropped and
/// counted. A slow central delays neither the sensor nor other centrals. The actor runs on the event loop of
/// the advertising adapter.
package actor RelayHub {
  /// Events of a relay.
  package enum Event: Sendable {
    /// The peripheral is advertising and accepts centrals.
    case ready(RelayedService)
    case value(RelayedValue)
    /// An event of a central, with the attributes to which the handles in the event refer.
    case central(GATTServerEvent, [GATTServerDatabase.Attribute])
    /// The link to the sensor was lost or restored.
    case gap(SessionGap, GapChange)
  }

  package static let queueLimit = Limit(
    16, "values that wait for one central of a relay", by: .air, whenFull: "the oldest is dropped",
    counted: "`dropped` of `relay`")
  /// Maximum number of queued events.
  private static let eventLimit = 1024

  package nonisolated let loop: EventLoop
  package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  /// Events for a single consumer, ended by `finish`. The oldest events are dropped if the consumer is slow.
  package nonisolated let events: AsyncStream<Event>
  private nonisolated let emitter: AsyncStream<Event>.Continuation
  /// Values added by other threads.
  private nonisolated let arriving = Mutex<[Arrival]>([])
  /// Whether timestamps come from a log. If so, the delay of a value starts with its arrival at the hub.
  private let isReplay: Bool

  private struct Arrival: Sendable {
    var value: RelayedValue
    var at: MonotonicTime
    /// Age of the value by its kernel timestamp, in nanoseconds.
    var age: Int64
  }

  /// A central and its queue.
  private final class Outbox {
    let central: Central
    var wanted: Set<AttributeHandle> = []
    var waiting: [(handle: AttributeHandle, arrival: Arrival)] = []
    let news = Waiters()
    var isOver = false

    init(_ central: Central) { self.central = central }
  }

  private var outboxes: [Outbox] = []
  private var server: GATTServer?
  private var handles: [BluetoothUUID: AttributeHandle] = [:]
  /// The latest features, for centrals that connect later.
  private var features: CyclingSpeedFeatures?
  /// Number of values that the sensor sent.
  package private(set) var values = 0
  /// Number of values dropped because a central was too slow, for all centrals together.
  package private(set) var dropped = 0
  package private(set) var delays = RelayDelays()

  package init(on loop: EventLoop, isReplay: Bool = false) {
    self.loop = loop
    self.isReplay = isReplay
    (events, emitter) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.eventLimit))
  }

  // MARK: From the sensor

  /// Adds a value. Does not block; may be called from any thread.
  package nonisolated func offer(_ value: RelayedValue) {
    let age = isReplay ? 0 : max(0, (loop.clock.now() - value.knownAt).nanoseconds)
    let arrival = Arrival(value: value, at: loop.clock.monotonic(), age: age)
    let isFirst = arriving.withLock { arriving in
      arriving.append(arrival)
      return arriving.count == 1
    }
    if isFirst { loop.later(self) { $0.drain() } }
  }

  /// Adds an event. May be called from any thread.
  package nonisolated func tell(_ event: Event) { emitter.yield(event) }

  private func drain() {
    let arrived = arriving.withLock { arriving in
      defer { arriving = [] }
      return arriving
    }
    for arrival in arrived { take(arrival) }
  }

  private func take(_ arrival: Arrival) {
    values += 1
    emitter.yield(.value(arrival.value))
    note(arrival.value.measurement)
    guard let handle = handles[arrival.value.measurement.characteristic] else { return }
    for outbox in outboxes where outbox.wanted.contains(handle) {
      if outbox.waiting.count == Self.queueLimit.count {
        outbox.waiting.removeFirst()
        dropped += 1
      }
      outbox.waiting.append((handle, arrival))
      outbox.news.wakeAll()
    }
  }

  /// Updates the values that centrals can read.
  private func note(_ measurement: RelayedValue.Measurement) {
    switch measurement {
    case .battery(let level): set(level.octets, of: .batteryLevel)
    case .cycling(let speed):
      var seen = features ?? CyclingSpeedFeatures([])
      if speed.wheel != nil { seen.insert(.wheel) }
      if speed.crank != nil { seen.insert(.crank) }
      guard seen != features else { return }
      features = seen
      set(seen.octets, of: .cscFeature)
    case .heartRate, .temperature, .intermediate: break
    }
  }

  private func set(_ value: [UInt8], of characteristic: BluetoothUUID) {
    guard let handle = handles[characteristic], let server else { return }
    server.assumeIsolated { $0.setValue(value, of: handle) }
  }

  // MARK: To the centrals

  /// Serves the centrals of a server until the server is closed or the task is cancelled.
  package func serve(_ server: GATTServer) async {
    self.server = server
    let attributes = await server.attributes
    for attribute in attributes where attribute.role == .value {
      handles[attribute.type] = handles[attribute.type] ?? attribute.handle
    }
    if let features { set(features.octets, of: .cscFeature) }
    for await event in server.events {
      follow(event, server)
      emitter.yield(.central(event, attributes))
    }
    for outbox in outboxes { end(outbox) }
    outboxes = []
    (self.server, handles) = (nil, [:])
  }

  /// Ends `events`.
  package nonisolated func finish() { emitter.finish() }

  private func follow(_ event: GATTServerEvent, _ server: GATTServer) {
    switch event {
    case .connected(let central):
      outboxes.append(Outbox(central))
      loop.later(self) { await $0.empty(outboxOf: central, by: server) }
    case .disconnected(let central, _):
      for outbox in outboxes where outbox.central == central { end(outbox) }
      outboxes.removeAll { $0.central == central }
    case .subscribed(let central, let handle, let pushes):
      guard let outbox = outboxes.first(where: { $0.central == central }) else { return }
      if pushes.isEmpty { outbox.wanted.remove(handle) } else { outbox.wanted.insert(handle) }
    case .written: break
    }
  }

  private func end(_ outbox: Outbox) {
    outbox.isOver = true
    outbox.news.wakeAll()
  }

  /// Sends a central's queued values until the central disconnects.
  private func empty(outboxOf central: Central, by server: GATTServer) async {
    guard let outbox = outboxes.first(where: { $0.central == central }) else { return }
    while true {
      await outbox.news.wait { outbox.isOver || !outbox.waiting.isEmpty }
      guard !outbox.isOver else { return }
      let (handle, arrival) = outbox.waiting.removeFirst()
      let measurement = arrival.value.measurement
      do throws(GATTServerError) {
        switch measurement.push {
        case .notification: try await server.notify(measurement.octets, of: handle, to: central)
        case .indication: try await server.indicate(measurement.octets, of: handle, to: central)
        }
        let way = (loop.clock.monotonic() - arrival.at).nanoseconds
        delays.add(arrival.value, transport: arrival.age + way)
      } catch {
        // An event reports that the central has disconnected or unsubscribed.
      }
    }
  }
}
