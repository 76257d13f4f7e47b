import BLEHost
import BLELinux
import BLEStack
public import BLEWire
public import ColmiRing

/// Measurements on demand. Section 3, 0x69 and 0x6A.
extension RingConversation {
  /// Interval between keep-alives. Without them, a measurement ends after about a minute.
  static let keepAliveInterval = Duration.seconds(20)

  /// Measures for a duration or until the task is cancelled. The measurement is stopped in every case.
  ///
  /// - Parameters:
  ///   - measurement: the quantity to measure.
  ///   - duration: `nil` to measure until cancelled.
  ///   - body: called with each frame, on the loop's thread: it must not block.
  /// - Throws: `lacking`, `refused` or `noReply` if it does not start, and `host` if the link ends meanwhile.
  public func measure(
    _ measurement: RingMeasurement, for duration: Duration?,
    _ body: @escaping @Sendable (RingMeasurementFrame, ReceiveTime) -> Void
  ) async throws(RingError) {
    try requireSensor(of: measurement)
    var lastValue: UInt8 = 0
    measurementListener = { frame, time in
      guard frame.measurement == measurement else { return }
      if frame.value != 0 { lastValue = frame.value }
      body(frame, time)
    }
    var failure: RingError?
    do throws(RingError) {
      try await start(measurement)
      await lasting(measurement, duration)
    } catch { failure = error }
    measurementListener = nil
    let value = lastValue
    let isOpen = await connection.end == nil
    // The ring must receive the stop even if the task is cancelled.
    if isOpen {
      await connection.loop.uninterrupted { await self.stop(measurement, value) }
    }
    if let failure { throw failure }
    if let end = await connection.end { throw .host(.gatt(.closed(end))) }
  }

  private func requireSensor(of measurement: RingMeasurement) throws(RingError) {
    switch measurement {
    case .spO2: try require(.bloodOxygen, "blood oxygen")
    case .stress: try require(.stress, "stress")
    case .heartRateVariability: try require(.heartRateVariability, "heart rate variability")
    default: break
    }
  }

  private func start(_ measurement: RingMeasurement) async throws(RingError) {
    // Use the same actions as the vendor's app.
    let action: RingMeasurementAction = measurement == .heartRate ? .start0 : .start25
    let command = RingRequest.measure(measurement, action).command
    var refusal: UInt8?
    let isAnswered = try await exchange(.command(command)) { arrival in
      switch arrival {
      case .reply(.measurement(let frame), _) where frame.measurement == measurement: return .last
      case .reply(.refused(RingOpcode.measure, let code), _):
        refusal = code
        return .last
      default: return .foreign
      }
    }
    if let refusal { throw .refused(opcode: RingOpcode.measure, code: refusal) }
    guard isAnswered else {
      throw .noReply(to: "measurement \(measurement.rawValue)", seconds: Double(patience.components.seconds))
    }
  }

  /// Returns when the duration has elapsed, the task is cancelled or the link has ended.
  private func lasting(_ measurement: RingMeasurement, _ duration: Duration?) async {
    let loop = connection.loop
    let keepAlive = loop.task { [weak self] in
      while (try? await loop.wait(for: Self.keepAliveInterval)) != nil {
        try? await self?.send(RingRequest.measure(measurement, .resume).command)
      }
    }
    defer { keepAlive.cancel() }
    let over = OneShot<Void>()
    measurementEnd = over
    defer { measurementEnd = nil }
    // Check this now that `linkEnded` can see the measurement, so that the end of the link is not missed.
    guard await connection.end == nil else { return }
    let timer = duration.map { loop.after($0) { over.set(()) } }
    await over.value(ifCancelled: ())
    timer?.cancel()
  }

  private func stop(_ measurement: RingMeasurement, _ lastValue: UInt8) async {
    let command = RingRequest.stopMeasuring(measurement, lastValue: lastValue).command
    _ = try? await exchange(.command(command)) { arrival in
      switch arrival {
      case .reply(.measurementStopped(measurement, _), _), .reply(.refused(RingOpcode.stopMeasuring, _), _):
        .last
      // The last frames may arrive before the reply.
      case .reply(.measurement, _): .known
      default: .foreign
      }
    }
  }
}
