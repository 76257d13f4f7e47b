public import BLEHost
import BLELinux
import BLEStack
public import BLEWire
public import ColmiRing
package import JSONText

/// Sends requests to a connected ring and receives its answers.
///
/// Replies have no request number, and rings also send unsolicited data. Each frame is therefore dispatched
/// by its content: it is first passed to the pending request, and counted and ignored if that request does
/// not use it. A ring handles one request at a time (reference `colmi-ring-protocol.md`, 1.4), so other
/// requests wait in a queue. The actor runs on the connection's loop.
public actor RingConversation {
  public struct Counters: Hashable, Sendable, BitwiseCopyable {
    /// Number of damaged frames and messages. They were skipped.
    public fileprivate(set) var malformed = 0
    /// Number of replies without a waiting request: late replies, and replies to another command.
    public fileprivate(set) var foreign = 0
    /// Number of unsolicited frames and messages from the ring.
    public fileprivate(set) var unasked = 0
    /// Number of requests without an answer, plus number of incomplete logs.
    public fileprivate(set) var timeouts = 0
  }

  /// Data received from the ring.
  enum Arrival {
    case reply(RingReply, frame: [UInt8])
    case message(RingBigData)
  }

  /// Meaning of received data for the pending request.
  enum Turn {
    /// The data belongs to another request.
    case foreign
    /// The data repeats earlier data, so the request makes no progress.
    case known
    /// The data is a part of the answer. The timeout restarts.
    case part
    case last
  }

  enum Outgoing {
    case command(RingCommand)
    case message(RingBigData)
  }

  private enum Ending: Hashable, Sendable {
    case answered, timedOut, interrupted
    case link(BearerEnd)
  }

  private struct Pending {
    let patience: Duration
    let take: (Arrival) -> Turn
    /// Time of the latest part of the answer, or of the request before the first part.
    var latest: MonotonicTime
    let ending: OneShot<Ending>
  }

  /// Timeout for a reply, and for the next frame of a log. With a peripheral latency of 4, a ring needs 0.6 s
  /// (reference `colmi-ring-protocol.md`, 1.4).
  public static let defaultPatience = Duration.seconds(3)

  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }
  public nonisolated let patience: Duration
  private let ring: RingLink

  public private(set) var counters = Counters()
  /// Description of the latest damaged frame.
  public private(set) var lastMalformed: String?
  /// Capabilities of the ring; `nil` until its time is set, because the reply to that request reports them.
  public private(set) var capabilities: RingCapabilities?

  /// Unsolicited naps from the ring, each stored once. A ring sends its naps before the answer to a request
  /// for nights.
  public private(set) var naps: [RingBigDataAnswer] = []
  /// Maximum number of stored naps, enough for more than a week.
  private static let napLimit = 64

  private var pending: Pending?
  private let turns = Turns()
  private var reassembler = RingBigDataReassembler()
  /// Called with each measurement frame while measuring.
  private var measurementListener: ((RingMeasurementFrame, ReceiveTime) -> Void)?
  /// Called with each report of a workout.
  private var workoutListener: ((RingSportSample, ReceiveTime) -> Void)?
  /// Signalled when the duration of the measurement or the link ends.
  private var measurementEnd: OneShot<Void>?

  private init(_ ring: RingLink, patience: Duration) {
    self.ring = ring
    connection = ring.connection
    self.patience = patience
  }

  /// Discovers the ring's services and subscribes to its replies.
  ///
  /// - Throws: `unsuitable` if the device has no ring service, and errors of the connection.
  public static func begin(
    on connection: Connection, patience: Duration = defaultPatience
  ) async throws(HostError) -> RingConversation {
    do throws(HostError) { return try await start(on: connection, patience) } catch {
      // If the attributes have changed, a ring may refuse requests with handles from an earlier discovery.
      guard case .gatt(.refused) = error, await connection.usesEarlierDiscovery else { throw error }
      await connection.attributesChanged(in: .all)
      await connection.endSubscriptions()
      return try await start(on: connection, patience)
    }
  }

  private static func start(
    on connection: Connection, _ patience: Duration
  ) async throws(HostError) -> RingConversation {
    let conversation = RingConversation(try await RingLink(connection), patience: patience)
    do throws(GATTError) {
      try await conversation.listen()
      // Answers on the big data channel are as long as the MTU allows.
      try await conversation.ring.connection.validate()
    } catch { throw .gatt(error) }
    return conversation
  }

  private func listen() async throws(GATTError) {
    // The closures that receive notifications run on the loop's thread, which is this actor's executor.
    _ = try await ring.connection.subscribe(ring.attributes.replies) { [weak self] notification, time in
      let frame = copy(notification.value)
      self?.assumeIsolated { $0.received(frame: frame, at: time) }
    }
    if let bigData = ring.attributes.bigData, bigData.properties.contains(.notify) {
      _ = try await ring.connection.subscribe(bigData) { [weak self] notification, _ in
        let octets = copy(notification.value)
        self?.assumeIsolated { $0.received(bigData: octets) }
      }
    }
    let connection = connection
    connection.loop.task { [weak self] in
      await self?.linkEnded(await connection.ended())
    }
  }

  // MARK: Received data

  private func received(frame: [UInt8], at time: ReceiveTime) {
    let reply: RingReply
    do throws(WireError) {
      reply = try RingReply(decoding: RingFrame(validating: frame.span))
    } catch { return damaged("\(error)") }
    if case .measurement(let measured) = reply, let measurementListener {
      measurementListener(measured, time)
      _ = offer(.reply(reply, frame: frame))
      return
    }
    if case .sport(let sample) = reply, let workoutListener { return workoutListener(sample, time) }
    if case .notification(.sportEnded) = reply, workoutListener != nil { measurementEnd?.set(()) }
    if offer(.reply(reply, frame: frame)) { return }
    switch reply {
    case .notification, .packetSize, .raw: counters.unasked += 1
    default: counters.foreign += 1
    }
  }

  private func received(bigData octets: [UInt8]) {
    var events: [RingBigDataReassembler.Event] = []
    reassembler.receive(octets.span) { events.append($0) }
    // Each part of a message counts as progress, even if no message is complete.
    if events.isEmpty { pending?.latest = connection.loop.clock.monotonic() }
    for event in events {
      switch event {
      case .message(let message):
        if !offer(.message(message)) { unclaimed(message) }
      case .raw: counters.unasked += 1
      case .failed(let error): damaged("\(error)")
      }
    }
  }

  /// Stores an unsolicited nap, and counts any other message. Reference `colmi-ring-protocol.md`, 4.
  private func unclaimed(_ message: RingBigData) {
    guard let reply = try? RingBigDataReply(decoding: message), case .nap = reply else {
      counters.foreign += 1
      return
    }
    counters.unasked += 1
    let answer = RingBigDataAnswer(message: message, reply: reply)
    if !naps.contains(answer), naps.count < Self.napLimit { naps.append(answer) }
  }

  private func damaged(_ why: String) {
    counters.malformed += 1
    lastMalformed = why
  }

  /// Passes received data to the pending request.
  ///
  /// - Returns: whether the request used the data.
  private func offer(_ arrival: Arrival) -> Bool {
    guard let waiting = pending, waiting.ending.current == nil else { return false }
    switch waiting.take(arrival) {
    case .foreign: return false
    case .known: break
    case .part: pending?.latest = connection.loop.clock.monotonic()
    case .last: waiting.ending.set(.answered)
    }
    return true
  }

  private func linkEnded(_ end: BearerEnd) {
    pending?.ending.set(.link(end))
    measurementEnd?.set(())
  }

  // MARK: Requests

  /// Sends a request, and passes received data to `take` until the answer is complete or no part arrives for
  /// `patience`.
  ///
  /// - Throws: `interrupted` if the task is cancelled, even while it waits for other requests; otherwise
  ///   errors of the connection.
  /// - Returns: `false` if the request timed out.
  func exchange(
    _ request: Outgoing, patience: Duration? = nil, _ take: @escaping (Arrival) -> Turn
  ) async throws(RingError) -> Bool {
    if case .message = request, !ring.hasBigData { throw .noBigData }
    do { try await turns.takeUnlessCancelled() } catch { throw .interrupted }
    defer { turns.end() }
    if Task.isCancelled { throw .interrupted }
    let ending = OneShot<Ending>()
    pending = Pending(
      patience: patience ?? self.patience, take: take, latest: connection.loop.clock.monotonic(),
      ending: ending)
    defer { pending = nil }
    // Check here, after the request is visible to `linkEnded`, so that the end of the link is not missed.
    if let end = await connection.end { throw .host(.gatt(.closed(end))) }
    do throws(GATTError) {
      switch request {
      case .command(let command): try await ring.write(command)
      case .message(let message):
        reassembler.abandon { _ in }
        try await ring.write(message)
      }
    } catch { throw .host(.gatt(error)) }
    let timer = connection.loop.task { await self.watch(ending) }
    defer { timer.cancel() }
    switch await ending.value(ifCancelled: .interrupted) {
    case .answered: return true
    case .timedOut:
      counters.timeouts += 1
      return false
    case .interrupted: throw .interrupted
    case .link(let end): throw .host(.gatt(.closed(end)))
    }
  }

  /// Sends a command without waiting for a reply.
  private func send(_ command: RingCommand) async throws(RingError) {
    do throws(GATTError) { try await ring.write(command) } catch { throw .host(.gatt(error)) }
  }

  /// Ends a request if no part of its answer arrives within its timeout.
  private func watch(_ ending: OneShot<Ending>) async {
    let clock = connection.loop.clock
    while let pending, pending.ending === ending, ending.current == nil {
      let rest = clock.monotonic().duration(to: pending.latest.advanced(by: pending.patience))
      guard rest > .zero else {
        ending.set(.timedOut)
        return
      }
      guard (try? await connection.loop.wait(for: rest)) != nil else { return }
    }
  }
}

private func copy(_ value: Span<UInt8>) -> [UInt8] {
  [UInt8](encoding: value.count) { $0.append(value) }
}

/// Requests to a ring. Section numbers refer to `colmi-ring-protocol.md`.
extension RingConversation {
  /// Sends a request that has a reply of one frame.
  ///
  /// - Throws: `refused`, `noReply`, `host`, `interrupted`.
  public func ask(_ request: RingRequest) async throws(RingError) -> RingReply {
    let command = request.command
    var answer: RingReply?
    let isAnswered = try await exchange(.command(command)) { arrival in
      guard case .reply(let reply, let frame) = arrival, Self.answers(reply, frame, command) else {
        return .foreign
      }
      answer = reply
      return .last
    }
    guard isAnswered, let answer else { throw unanswered(command) }
    return try Self.accepted(answer)
  }

  /// Sends a request that some firmware versions acknowledge and others execute silently.
  ///
  /// - Throws: `refused`, `host`, `interrupted`.
  public func tell(_ request: RingRequest) async throws(RingError) {
    let command = request.command
    var answer: RingReply?
    _ = try await exchange(.command(command), patience: .milliseconds(700)) { arrival in
      guard case .reply(let reply, let frame) = arrival, Self.answers(reply, frame, command) else {
        return .foreign
      }
      answer = reply
      return .last
    }
    if let answer { _ = try Self.accepted(answer) }
  }

  /// Switches off, restarts or erases the ring. Ask the user first. The ring sends no reply.
  public func order(_ request: RingDangerousRequest) async throws(RingError) {
    try await send(request.command)
  }

  private static func answers(_ reply: RingReply, _ frame: [UInt8], _ command: RingCommand) -> Bool {
    let opcode = command.octet(0)
    if case .refused(let refused, _) = reply { return refused == opcode }
    guard frame[0] == opcode else { return false }
    guard let place = actionPlace(opcode) else { return true }
    // The reply to a read may lack the action. For example, an RT11CR's reply to 0x0A is all zeros.
    let isWrite = command.octet(place) == RingSettingAction.write.rawValue
    return (frame[place] == RingSettingAction.write.rawValue) == isWrite
  }

  /// Returns the index of the byte that distinguishes reading a setting from writing it; `nil` if the opcode
  /// is not a setting.
  private static func actionPlace(_ opcode: UInt8) -> Int? {
    switch opcode {
    case RingOpcode.preferences, RingOpcode.heartRateLogSettings: 1
    case RingAutomaticSensor.temperature.rawValue, RingSetting.display.rawValue: 2
    default:
      RingAutomaticSensor(rawValue: opcode) != nil || RingSetting(rawValue: opcode) != nil ? 1 : nil
    }
  }

  private static func accepted(_ reply: RingReply) throws(RingError) -> RingReply {
    if case .refused(let opcode, let code) = reply { throw .refused(opcode: opcode, code: code) }
    return reply
  }

  private func unanswered(_ command: RingCommand) -> RingError {
    noReply(to: "command 0x" + String(command.octet(0), radix: 16))
  }

  private func noReply(to what: String) -> RingError {
    .noReply(to: what, seconds: Double(patience.components.seconds))
  }

  // MARK: Time and capabilities

  /// Sets the ring's clock, and stores the capabilities in the reply.
  public func setTime(_ time: RingDateTime) async throws(RingError) -> RingTimeReply {
    guard case .time(let reply) = try await ask(.setTime(time, language: .english)) else {
      throw .senseless("no reply to setting the time")
    }
    var all = reply.capabilities
    if case .deviceSupport(let support)? = try await optional(.deviceSupport) { all.formUnion(support) }
    capabilities = all
    return reply
  }

  /// Returns the answer; `nil` if the ring does not support the request or does not reply.
  public func optional(_ request: RingRequest) async throws(RingError) -> RingReply? {
    do throws(RingError) { return try await ask(request) } catch {
      switch error {
      case .refused, .noReply: return nil
      default: throw error
      }
    }
  }

  /// Checks that the ring has a capability.
  ///
  /// - Throws: `lacking` if the ring reported its capabilities and `capability` is not among them.
  public func require(_ capability: RingCapabilities, _ name: String) throws(RingError) {
    if let capabilities, capabilities.isDisjoint(with: capability) { throw .lacking(name) }
  }

  // MARK: Logs

  /// Returns a day's log of heart rates.
  ///
  /// - Parameter date: day on the ring's clock; may be today.
  /// - Returns: `nil` if the ring has no such log; an incomplete log if frames were lost or the log stopped
  ///   early.
  public func heartRateLog(of date: RingDate) async throws(RingError) -> RingDayLog? {
    try await dayLog(.heartRate, .heartRateLog(timestamp: date.timestamp), .timestamp(date.timestamp))
  }

  public func stressLog(daysAgo: UInt8) async throws(RingError) -> RingDayLog? {
    try require(.stress, "stress log")
    return try await dayLog(.stress, .stressLog(daysAgo: daysAgo), .daysAgo(daysAgo))
  }

  public func heartRateVariabilityLog(daysAgo: UInt8) async throws(RingError) -> RingDayLog? {
    try require(.heartRateVariability, "heart rate variability")
    return try await dayLog(
      .heartRateVariability, .heartRateVariabilityLog(daysAgo: daysAgo), .daysAgo(daysAgo))
  }

  /// Requests a log of slots and returns it.
  func dayLog(
    _ kind: RingLogKind, _ request: RingRequest, _ day: RingDayLog.Day
  ) async throws(RingError) -> RingDayLog? {
    var progress = LogProgress<RingDayLog>()
    var assembler = RingDayLogAssembler(kind, day: day)
    // Whether frames of a late log of another day are arriving. They differ only in the echo in the second
    // frame.
    var isOther = false
    let isAnswered = try await exchange(.command(request.command)) { arrival in
      guard case .reply(_, let octets) = arrival, let frame = try? RingFrame(validating: octets.span) else {
        return .foreign
      }
      if isOther, octets[0] == kind.rawValue, octets[1] != 0 { return .foreign }
      isOther = false
      let step = assembler.receive(frame)
      if case .rejected(.otherDay) = step {
        isOther = true
        assembler = RingDayLogAssembler(kind, day: day)
        return .foreign
      }
      // After the last frame, no more frames arrive, even if earlier frames were lost.
      return progress.take(step, isAtEnd: assembler.hasLastFrame)
    }
    if let refusal = progress.refusal { throw .refused(opcode: kind.rawValue, code: refusal) }
    if progress.log == nil, let partial = assembler.finish() { return partial }
    guard isAnswered else { throw unanswered(request.command) }
    return progress.log
  }

  /// Returns a day's activity.
  public func activityLog(daysAgo: UInt8) async throws(RingError) -> RingActivityLog? {
    var progress = LogProgress<RingActivityLog>()
    var assembler = RingActivityLogAssembler()
    let command = RingRequest.activityLog(daysAgo: daysAgo).command
    let isAnswered = try await exchange(.command(command)) { arrival in
      guard case .reply(_, let octets) = arrival, let frame = try? RingFrame(validating: octets.span) else {
        return .foreign
      }
      return progress.take(assembler.receive(frame), isAtEnd: assembler.hasLastRecord)
    }
    if let refusal = progress.refusal { throw .refused(opcode: command.octet(0), code: refusal) }
    if progress.log == nil, let partial = assembler.finish() { return partial }
    guard isAnswered else { throw unanswered(command) }
    return progress.log
  }

  /// Result of a log's assembler so far.
  private struct LogProgress<Log: Sendable> {
    var log: Log?
    var refusal: UInt8?

    mutating func take(_ step: RingLogStep<Log>, isAtEnd: Bool) -> Turn {
      switch step {
      case .incomplete: return isAtEnd ? .last : .part
      case .complete(let log):
        self.log = log
        return .last
      case .noData: return .last
      case .refused(let code):
        refusal = code
        return .last
      case .repeated, .rejected: return .known
      case .foreign: return .foreign
      }
    }
  }

  // MARK: Big data

  /// Sends a request on the big data channel. Messages with a wrong checksum are counted and skipped.
  ///
  /// - Throws: `noBigData`, `noReply`, `senseless`, `host`, `interrupted`.
  public func ask(_ request: RingBigDataRequest) async throws(RingError) -> RingBigDataAnswer {
    let message = request.message
    let id = message.id == RingBigDataID.lastSync ? RingBigDataID.lastSyncReply : message.id
    var answer: RingBigData?
    let isAnswered = try await exchange(.message(message)) { arrival in
      guard case .message(let message) = arrival, message.id == id else { return .foreign }
      answer = message
      return .last
    }
    guard isAnswered, let answer else { throw noReply(to: "big data 0x" + String(id, radix: 16)) }
    do throws(WireError) {
      return RingBigDataAnswer(message: answer, reply: try RingBigDataReply(decoding: answer))
    } catch { throw .senseless("\(error)") }
  }

  /// Tries each form of a request until the ring answers. Firmware versions support different forms.
  private func ask(anyOf requests: [RingBigDataRequest]) async throws(RingError) -> RingBigDataAnswer {
    var latest = RingError.noBigData
    for request in requests {
      do throws(RingError) { return try await ask(request) } catch {
        guard case .noReply = error else { throw error }
        latest = error
      }
    }
    throw latest
  }

  /// Returns all nights that the ring stores. Last night is requested separately, because the ring omits it
  /// from the list of all nights.
  public func nights() async throws(RingError) -> [RingBigDataAnswer] {
    let days: [RingBigDataRequest] = [.sleepLog(.day(daysAgo: 0xFF)), .sleepLog(.all), .sleepLog(.plain)]
    let past = try await ask(anyOf: days)
    do throws(RingError) { return [past, try await ask(.sleepLog(.day(daysAgo: 0)))] } catch {
      guard case .noReply = error else { throw error }
      return [past]
    }
  }

  public func oxygen() async throws(RingError) -> RingBigDataAnswer {
    try require(.bloodOxygen, "blood oxygen")
    return try await ask(anyOf: [.spO2(.all), .spO2(.plain)])
  }

  /// Returns the heart rates of a day that were measured on demand.
  public func manualHeartRates(daysAgo: UInt8) async throws(RingError) -> RingBigDataAnswer {
    try await ask(.manualHeartRate(daysAgo: daysAgo))
  }

  public func temperature(days: UInt8) async throws(RingError) -> RingBigDataAnswer {
    try require([.temperature, .intervalTemperature], "temperature")
    return try await ask(.temperature(days: days))
  }

  /// Returns a day's temperatures at the ring's own interval, requested packet by packet.
  ///
  /// - Returns: an incomplete log if a packet is missing or contradicts earlier packets; `nil` if the ring
  ///   has no data for the day.
  /// - Throws: `lacking` if the ring's capabilities do not include it, `noReply` if the ring does not answer
  ///   the first request.
  public func intervalTemperature(
    daysAgo: UInt8
  ) async throws(RingError) -> RingIntervalTemperatureLog? {
    if let support = try await support(), !support.contains(.intervalTemperature) {
      throw .lacking("interval temperature")
    }
    var assembler = RingIntervalTemperatureAssembler(daysAgo: daysAgo)
    while let packet = assembler.nextPacket {
      let answer: RingBigDataAnswer
      do throws(RingError) {
        answer = try await ask(.intervalTemperature(daysAgo: daysAgo, packet: packet))
      } catch {
        guard case .noReply = error, let partial = assembler.finish() else { throw error }
        return partial
      }
      guard case .intervalTemperature(let received) = answer.reply else {
        throw .senseless("it is not a temperature packet")
      }
      // A log of zero packets means that the ring has no data.
      if received.packetCount == 0 { return nil }
      switch assembler.receive(received) {
      case .complete(let log): return log
      case .incomplete: break
      case .repeated, .rejected, .foreign, .noData, .refused:
        guard let partial = assembler.finish() else {
          throw .senseless("packet \(packet) of the day's temperatures is another's")
        }
        return partial
      }
    }
    return assembler.finish()
  }

  /// Returns the capabilities that the ring reports even if its clock was not set: whether it requires a
  /// bond, and whether it stores interval temperatures. `nil` if the ring does not report them.
  private func support() async throws(RingError) -> RingCapabilities? {
    if let capabilities { return capabilities }
    guard case .deviceSupport(let support)? = try await optional(.deviceSupport) else { return nil }
    return support
  }
}

/// Decoded message of the big data channel.
public struct RingBigDataAnswer: Hashable, Sendable {
  public let message: RingBigData
  public let reply: RingBigDataReply
}

/// Measurements on demand. Section 3, 0x69 and 0x6A, of `colmi-ring-protocol.md`.
extension RingConversation {
  /// Interval between keep-alive requests. Otherwise, a measurement ends after about a minute.
  private static let keepAliveInterval = Duration.seconds(20)

  /// Measures for a duration or until the task is cancelled, and stops the measurement in every case.
  ///
  /// - Parameters:
  ///   - measurement: quantity to measure.
  ///   - duration: duration of the measurement; `nil` to measure until the task is cancelled.
  ///   - body: called with each frame on the loop's thread; it must not block.
  /// - Throws: `lacking`, `refused` or `noReply` if the measurement does not start, and `host` if the link
  ///   ends.
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
    // Send the stop even if the task is cancelled.
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

  /// Waits until the duration has elapsed, the task is cancelled or the link has ended.
  private func lasting(_ measurement: RingMeasurement, _ duration: Duration?) async {
    let loop = connection.loop
    let keepAlive = loop.task { [weak self] in
      while (try? await loop.wait(for: Self.keepAliveInterval)) != nil {
        try? await self?.send(RingRequest.measure(measurement, .resume).command)
      }
    }
    defer { keepAlive.cancel() }
    await lasting(duration)
  }

  /// Waits until the duration has elapsed, the task is cancelled, `measurementEnd` is set or the link has
  /// ended.
  private func lasting(_ duration: Duration?) async {
    let over = OneShot<Void>()
    measurementEnd = over
    defer { measurementEnd = nil }
    // Check here, after `measurementEnd` is visible to `linkEnded`, so that the end of the link is not
    // missed.
    guard await connection.end == nil else { return }
    let timer = duration.map { duration in connection.loop.after(duration) { over.set(()) } }
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

/// Workouts, during which a ring reports heart rate, steps and distance about once a second. Reference,
/// section 3, 0x77 and 0x78. Published by one project, and not confirmed by a capture.
extension RingConversation {
  /// Starts, pauses, resumes or ends a workout.
  ///
  /// - Throws: `refused` or `noReply` if the ring does not support workouts, and errors of the connection.
  public func workout(_ action: RingSportAction, _ sport: RingSport) async throws(RingError) {
    var refusal: UInt8?
    let isAnswered = try await exchange(.command(RingRequest.sport(action, sport).command)) { arrival in
      switch arrival {
      case .reply(.sportAcknowledged, _): return .last
      case .reply(.refused(RingOpcode.sport, let code), _):
        refusal = code
        return .last
      default: return .foreign
      }
    }
    if let refusal { throw .refused(opcode: RingOpcode.sport, code: refusal) }
    guard isAnswered else {
      throw .noReply(to: "a workout", seconds: Double(patience.components.seconds))
    }
  }

  /// Calls `body` on the event loop with each report of the current workout, in order. Returns when the
  /// duration has elapsed, the task is cancelled, or the ring reports the end of the workout.
  ///
  /// - Parameters:
  ///   - duration: maximum duration; `nil` for no limit.
  ///   - body: receives each report with its kernel timestamp.
  /// - Throws: the error that ended the link.
  public func watchWorkout(
    for duration: Duration?, _ body: @escaping @Sendable (RingSportSample, ReceiveTime) -> Void
  ) async throws(RingError) {
    workoutListener = body
    await lasting(duration)
    workoutListener = nil
    if let end = await connection.end { throw .host(.gatt(.closed(end))) }
  }
}

/// Queries that combine several answers.
extension RingConversation {
  /// Returns the hardware and firmware revisions from the Device Information service; `nil` for a missing
  /// revision.
  public func revisions() async throws(RingError) -> (hardware: String?, firmware: String?) {
    do throws(GATTError) {
      let database = GATTDatabase(services: try await connection.discoverServices(.deviceInformation))
      var texts: [String?] = []
      for uuid in [BluetoothUUID.hardwareRevision, .firmwareRevision] {
        if let characteristic = database.characteristic(uuid, in: .deviceInformation, with: .read) {
          let octets = try await ring.connection.read(characteristic.valueHandle)
          texts.append(String(decoding: octets.prefix { $0 != 0 }, as: UTF8.self))
        } else {
          texts.append(nil)
        }
      }
      return (texts[0], texts[1])
    } catch { throw .host(.gatt(error)) }
  }

  /// Checks the ring's clock by comparing the newest entries of today's logs with the expected time.
  ///
  /// The heart-rate log is not used, because its slots after the current time may be stale.
  public func judgeClock(
    _ now: RingDateTime, localOffsetMinutes: Int
  ) async throws(RingError) -> RingClockCheck.Finding {
    var entries: [(time: RingDateTime, slotMinutes: Int)] = []
    if let entry = try await newestStep() { entries.append((entry, 60)) }
    if let entry = try await newestStress(now.date) { entries.append(entry) }
    let findings = entries.map { entry in
      RingClockCheck(now: now, utcOffsetMinutes: localOffsetMinutes, slotMinutes: entry.slotMinutes)
        .judge(entry.time, .newest)
    }
    return findings.first { $0 != .undecided && $0 != .inStep } ?? findings.first { $0 == .inStep }
      ?? .undecided
  }

  private func newestStep() async throws(RingError) -> RingDateTime? {
    guard
      let log = try await unlessLacking({ () async throws(RingError) in try await activityLog(daysAgo: 0) }),
      let record = log.records.max(by: { $0.slot < $1.slot }), case .valid(let date) = record.date,
      let minute = record.startMinute
    else { return nil }
    return try? RingDateTime(date: date, hour: minute / 60, minute: minute % 60)
  }

  /// Returns the newest entry of today's stress log, if the ring's clock shows the date `date`.
  private func newestStress(_ date: RingDate) async throws(RingError) -> (
    time: RingDateTime, slotMinutes: Int
  )? {
    guard
      let log = try await unlessLacking({ () async throws(RingError) in try await stressLog(daysAgo: 0) }),
      let slot = log.entries.last?.slot
    else { return nil }
    let minute = slot * log.intervalMinutes
    guard let time = try? RingDateTime(date: date, hour: minute / 60, minute: minute % 60) else { return nil }
    return (time, log.intervalMinutes)
  }

  /// Runs `body`. Returns `nil` if the ring refuses or does not answer its request.
  private func unlessLacking<Value: Sendable>(
    _ body: () async throws(RingError) -> Value?
  ) async throws(RingError) -> Value? {
    do throws(RingError) { return try await body() } catch {
      switch error {
      case .refused, .noReply, .lacking: return nil
      default: throw error
      }
    }
  }
}

/// Answer of a ring. It is written as one JSON object per line, with the keys of `ringtap ring decode`.
package enum RingAnswer: FieldSource, Sendable {
  case reply(RingReply)
  case dayLog(RingDayLog)
  case activityLog(RingActivityLog)
  case bigData(RingBigDataAnswer)
  case intervalTemperature(RingIntervalTemperatureLog)
  /// The ring has no log for the day.
  case noData(RingLogKind)

  package func append(to line: inout JSONLine) {
    line.objectLine { $0.members(of: self) }
  }

  package func describe(into fields: inout FieldList) {
    switch self {
    case .reply(let reply): fields.members(of: reply)
    case .dayLog(let log): fields.members(of: log)
    case .activityLog(let log): fields.members(of: log)
    case .intervalTemperature(let log): fields.members(of: log)
    case .bigData(let answer): fields.members(of: answer.reply, answer.message)
    case .noData(let kind): fields.members(of: RingReply.noData(kind))
    }
  }
}

/// Error of a request to a ring.
public enum RingError: Error, Hashable, Sendable {
  case host(HostError)
  /// The ring does not support the command. The only observed code is 0xEE.
  case refused(opcode: UInt8, code: UInt8)
  /// No reply arrived within the timeout.
  case noReply(to: String, seconds: Double)
  /// The ring's capabilities do not include the feature.
  case lacking(String)
  /// The device has no big data channel.
  case noBigData
  /// The content of a reply is invalid.
  case senseless(String)
  /// The task was cancelled.
  case interrupted
}

extension RingError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .host(let error): "\(error)"
    case .refused(let opcode, let code):
      "the ring does not support command 0x\(String(opcode, radix: 16)) (code 0x\(String(code, radix: 16))); "
        + "its firmware lacks it"
    case .noReply(let what, let seconds):
      "the ring did not answer within \(seconds) s (\(what)); bring it near and try again; some firmware "
        + "does not answer unsupported requests"
    case .lacking(let what): "the ring reports that it has no \(what)"
    case .noBigData: "the ring has no big data channel, which is needed to read this"
    case .senseless(let what): "the ring's reply is invalid: \(what)"
    case .interrupted: "interrupted"
    }
  }
}
