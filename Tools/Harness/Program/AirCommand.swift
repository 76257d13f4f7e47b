import ArgumentParser
import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CommandKit
import JSONText
import Synchronization

/// `harness air`: measures the throughput of the emulated air in real time with a host in this
/// process.
///
/// The result validates the emulation against the specification's arithmetic; it says nothing about a radio.
struct AirCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "air",
    abstract: "Measure the emulated air in real time against what the specification allows.")

  @Option(help: "Bytes per value.", in: NumberRange(4...244, "octets"))
  var payload = 244

  @Option(help: "The PHY: 1 is LE 1M, 2 is LE 2M.", in: NumberRange(1...2))
  var phy = 2

  @Option(help: "Bytes per data packet, 27 or 251.", in: NumberRange(27...251, "octets"))
  var dataLength = 251

  @Option(
    help: "Milliseconds between connection events; a multiple of 1.25.",
    in: NumberRange(7.5...4000, "ms"))
  var interval = 400.0

  @Option(
    help: "Duration of the measurement in seconds.", in: NumberRange(above: 0, upTo: 3600, "seconds"))
  var duration = 3.0

  @Flag(help: "Print one JSON object.")
  var json = false

  func validate() throws {
    guard [27, 251].contains(dataLength) else { throw ValidationError("--data-length must be 27 or 251") }
  }

  func run() async throws {
    let count = try await failing { () async throws in try await measure() }
    let rate = Double(count) / duration
    let (allowed, share) = (self.allowed, rate / self.allowed)
    let kilobytes = rate * Double(payload) / 1000
    guard json else {
      return try Console.print(
        """
        \(Self.text(rate)) notifications/s of \(payload) bytes, \(Self.text(kilobytes)) kB/s, in \(duration) s; \
        the air allows \(Self.text(allowed)): \(Self.text(share * 100)) %
        """)
    }
    try Console.json { line in
      line.member("notificationsPerSecond", rate)
      line.member("kilobytesPerSecond", kilobytes)
      line.member("allowedPerSecond", allowed)
    }
  }

  private static func text(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }

  private var allowed: Double {
    LinkCapacity(isLE2M: phy == 2, dataLength: dataLength, interval: interval)
      .notificationsPerSecond(payload: payload)
  }

  // MARK: The link

  private func measure() async throws -> Int {
    var configuration = EmulatedSource.Configuration()
    configuration.payloadByteCount = payload
    let loop = try EventLoop.start()
    defer { loop.stop() }
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(
      VirtualController(peripherals: [EmulatedSource(configuration)], air: .init(pace: .air)),
      to: pair.takeController(), .datagrams)
    let adapter = try await HostAdapter.open(
      try loop.transport(over: pair.takeHost(), .datagrams), name: "virtual:source", on: loop)
    var request = LinkRequest()
    let units = UInt16(interval / 1.25)
    request.interval = units...units
    request.supervisionTimeout = 3200
    request.phy = phy == 2 ? .le2M : .le1M
    // The source sends 251 bytes as soon as the host requests a data length other than the default.
    request.dataLength = dataLength > 27 ? 251 : nil
    let connection = try await adapter.connect(
      to: configuration.address, asking: request, timeout: .seconds(20), tap: nil)
    let count = try await count(connection)
    await connection.close()
    await adapter.close()
    await emulation.detach()
    return count
  }

  /// Returns the number of notifications during the measurement, by kernel timestamps. The measurement starts
  /// after the queue has filled and the link has settled.
  private func count(_ connection: Connection) async throws -> Int {
    try await connection.exchangeMTU(247)
    let database = try await connection.discover()
    guard let characteristic = database.characteristic(EmulatedSource.characteristic) else {
      throw Failure("the emulated source has no characteristic")
    }
    let settling = max(2.0, interval * 12 / 1000)
    let window = Window(settling: settling, duration: duration)
    let subscription = try await connection.subscribe(characteristic) { _, time in window.take(time) }
    await window.ended()
    try await connection.unsubscribe(subscription)
    return window.count
  }

  /// Counts notifications on the receive thread.
  private final class Window: Sendable {
    private struct State {
      var first: Int64?
      var count = 0
    }

    private let state = Mutex(State())
    private let over = OneShot<Void>()
    private let settling: Int64
    private let duration: Int64

    init(settling: Double, duration: Double) {
      self.settling = Int64(settling * 1e9)
      self.duration = Int64(duration * 1e9)
    }

    var count: Int { state.withLock(\.count) }

    func take(_ time: ReceiveTime) {
      let isOver = state.withLock { state in
        let first = state.first ?? time.nanoseconds
        state.first = first
        let elapsed = time.nanoseconds - first - settling
        if elapsed >= duration { return true }
        if elapsed >= 0 { state.count += 1 }
        return false
      }
      if isOver { over.set(()) }
    }

    func ended() async { await over.value() }
  }
}
