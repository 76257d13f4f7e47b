import BLEEmulation
package import BLEHost
import BLELinux
import BLEStack
package import BLEWire
import ColmiRing
package import CommandKit
import Recording

/// A measurement on one link.
package struct BenchRun: Sendable {
  let device: DeviceReach
  let address: DeviceAddress
  let characteristic: CharacteristicArgument?
  let options: BenchOptions
  let tuning: LoopTuning

  /// The stream to measure: the characteristic, the contents of its values, and the command that starts the
  /// stream.
  private struct Stream: Sendable {
    let characteristic: GATTDatabase.Characteristic
    var content = NotificationMeter.Content.opaque
    /// The characteristic to which a ring's commands are written; `nil` for other devices.
    var command: GATTDatabase.Characteristic?
  }

  /// Creates a measurement of a device's notifications.
  ///
  /// - Parameter characteristic: `nil` for the default characteristic of an emulated source, or of a ring.
  init(
    device: DeviceReach, address: DeviceAddress, characteristic: CharacteristicArgument?,
    options: BenchOptions, tuning: LoopTuning = LoopTuning()
  ) {
    self.device = device
    self.address = address
    self.characteristic = characteristic
    self.options = options
    self.tuning = tuning
  }

  /// Creates a measurement of the notifications of a ring or an emulated source.
  package init(device: DeviceReach, address: DeviceAddress, options: BenchOptions) {
    self.init(device: device, address: address, characteristic: nil, options: options)
  }

  /// Time after the end of the window until the measurement stops if the stream is silent.
  private static let patience = Duration.seconds(2)

  func notifications() async throws -> BenchReport {
    let begin = SystemClock.monotonic()
    return try await device.withLink(tuning, locating: { _ in address }) { adapter, connection in
      try await measure(adapter, connection, since: begin)
    }
  }

  /// Measures the stream on an open connection.
  ///
  /// - Parameter begin: the time before connecting.
  package func measure(
    _ adapter: any Adapter, _ connection: Connection, since begin: MonotonicTime
  ) async throws -> BenchReport {
    try await failing { () async throws(GATTError) in try await connection.exchangeMTU(options.mtu) }
    let stream = try await stream(connection)
    let meter = try NotificationMeter(stream.content, options.window)
    await connection.addWake(meter.wake)
    let before = await connection.statistics
    let start = SystemClock.monotonic()
    let subscription = try await failing { () async throws(GATTError) in
      try await connection.subscribe(stream.characteristic) { notification, time in
        meter.take(notification, at: time)
      }
    }
    if let command = stream.command {
      try await send(.rawStart, to: command, connection)
    }
    let stopper = NotificationMeter.Stopper(connection.loop)
    let requests = options.withRequests ? Task { await Self.request(connection) } : nil
    let limit = options.window.settling + options.window.duration + Self.patience
    let timer = connection.loop.after(limit) { await stopper.stop(meter) }
    let end = connection.loop.task {
      _ = await connection.ended()
      await stopper.stop(meter)
    }
    // Only one line at the start, because further output would affect the measurement.
    Console.progress("measuring for \(BenchText.number(options.duration)) s …")
    let measurement = await withTaskCancellationHandler {
      await meter.measurement()
    } onCancel: {
      connection.loop.later(stopper) { $0.stop(meter) }
    }
    if Console.isErrorTerminal { Console.progress("") }
    timer.cancel()
    end.cancel()
    requests?.cancel()
    let requestCount = await requests?.value
    let resident = ProcessFacts.residentKilobytes
    let after = await connection.statistics
    if await connection.end == nil {
      if let command = stream.command { try? await send(.rawStop, to: command, connection) }
      try? await connection.unsubscribe(subscription)
    }
    var report = BenchReport(measurement)
    report.device = address.description
    report.adapter = adapter.name
    report.mode = adapter.mode
    report.link = await connection.link
    report.mtu = await connection.mtu
    report.lostInKernel = after.kernelQueueDrops - before.kernelQueueDrops
    report.unstamped = after.withoutKernelStamp - before.withoutKernelStamp
    report.residentKilobytes = resident
    report.requests = requestCount
    report.receiveThread = ReceiveThreadReport(connection.loop)
    report.connectMilliseconds = Double(start.nanoseconds - begin.nanoseconds) / 1e6
    return report
  }

  /// Sends read and discovery requests in sequence until the task is cancelled or the link is lost.
  ///
  /// - Returns: the number of requests that were answered or rejected.
  private static func request(_ connection: Connection) async -> Int {
    let before = await connection.statistics.sent
    while !Task.isCancelled {
      do throws(GATTError) {
        let database = try await connection.discover()
        for characteristic in database.services.flatMap(\.characteristics)
        where characteristic.properties.contains(.read) {
          _ = try await connection.read(characteristic.valueHandle)
        }
      } catch { if await connection.end != nil { break } }
    }
    return await connection.statistics.sent - before
  }

  private func send(
    _ command: RingCommand, to characteristic: GATTDatabase.Characteristic, _ connection: Connection
  ) async throws {
    let frame = [UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) }
    try await failing { () async throws(GATTError) in
      if characteristic.properties.contains(.write) {
        try await connection.write(frame, to: characteristic.valueHandle)
      } else {
        try await connection.writeWithoutResponse(frame, to: characteristic.valueHandle)
      }
    }
  }

  private func stream(_ connection: Connection) async throws -> Stream {
    if let characteristic {
      return Stream(characteristic: try await characteristic.characteristic(connection, to: .listen))
    }
    let database = try await failing { () async throws(GATTError) in try await connection.discover() }
    if let source = database.characteristic(EmulatedSource.characteristic) {
      return Stream(characteristic: source, content: .source)
    }
    if let replies = database.characteristic(RingUUID.commandNotify, in: RingUUID.commandService),
      let command = database.characteristic(RingUUID.commandWrite, in: RingUUID.commandService)
    {
      return Stream(characteristic: replies, command: command)
    }
    throw Failure(
      "\(address) is neither a ring nor an emulated source; choose what to subscribe to with "
        + "--characteristic (see `ringtap gatt \(address)`)")
  }
}
