import BLELinux
import BLEStack
import BLEWire
public import ColmiRing

/// Requests to a ring. Sections are those of reference `colmi-ring-protocol.md`.
extension RingConversation {
  /// Sends a request that is answered with one frame.
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

  /// Sends a request that some firmwares acknowledge and others execute silently.
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

  /// Switches off, restarts or erases the ring; ask the user first. There is no reply.
  public func order(_ request: RingDangerousRequest) async throws(RingError) {
    try await send(request.command)
  }

  private static func answers(_ reply: RingReply, _ frame: [UInt8], _ command: RingCommand) -> Bool {
    let opcode = command.octet(0)
    if case .refused(let refused, _) = reply { return refused == opcode }
    guard frame[0] == opcode else { return false }
    guard let place = actionPlace(opcode) else { return true }
    // The reply to a read may lack the action: an RT11CR's reply to 0x0A is all zero.
    let isWrite = command.octet(place) == RingSettingAction.write.rawValue
    return (frame[place] == RingSettingAction.write.rawValue) == isWrite
  }

  /// Index of the byte that distinguishes reading a setting from writing it.
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

  /// Sets the ring's clock. The reply includes the ring's capabilities, which are stored.
  public func setTime(_ time: RingDateTime) async throws(RingError) -> RingTimeReply {
    guard case .time(let reply) = try await ask(.setTime(time, language: .english)) else {
      throw .senseless("no reply to setting the time")
    }
    var all = reply.capabilities
    if case .deviceSupport(let support)? = try await optional(.deviceSupport) { all.formUnion(support) }
    capabilities = all
    return reply
  }

  /// Returns the answer, or `nil` if the ring does not support the request or does not reply.
  public func optional(_ request: RingRequest) async throws(RingError) -> RingReply? {
    do throws(RingError) { return try await ask(request) } catch {
      switch error {
      case .refused, .noReply: return nil
      default: throw error
      }
    }
  }

  /// - Throws: `lacking` if the ring reported its capabilities and `capability` is not among them.
  public func require(_ capability: RingCapabilities, _ name: String) throws(RingError) {
    if let capabilities, capabilities.isDisjoint(with: capability) { throw .lacking(name) }
  }

  // MARK: Logs

  /// Returns a day of heart rates, stress or heart rate variability.
  ///
  /// - Parameter date: by the ring's clock; may be today.
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

  /// Sends the request for a log of slots, and returns the log.
  func dayLog(
    _ kind: RingLogKind, _ request: RingRequest, _ day: RingDayLog.Day
  ) async throws(RingError) -> RingDayLog? {
    var progress = LogProgress<RingDayLog>()
    var assembler = RingDayLogAssembler(kind, day: day)
    // Whether a late log of another day is arriving. Its frames look the same, except for the echo in the
    // second frame.
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
      // After the last frame, no more will arrive, even if earlier ones were lost.
      return progress.take(step, isAtEnd: assembler.hasLastFrame)
    }
    if let refusal = progress.refusal { throw .refused(opcode: kind.rawValue, code: refusal) }
    if progress.log == nil, let partial = assembler.finish() { return partial }
    guard isAnswered else { throw unanswered(request.command) }
    return progress.log
  }

  /// Returns the steps of a day.
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

  /// Sends a request on the big data channel. A message with a wrong checksum is counted and skipped.
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

  /// Tries each form of a request until the ring answers one, because firmwares differ.
  func ask(anyOf requests: [RingBigDataRequest]) async throws(RingError) -> RingBigDataAnswer {
    var latest = RingError.noBigData
    for request in requests {
      do throws(RingError) { return try await ask(request) } catch {
        guard case .noReply = error else { throw error }
        latest = error
      }
    }
    throw latest
  }

  /// Returns all nights that the ring stores. Today's night is requested separately, because the ring omits
  /// it from the others.
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

  /// Heart rates that were measured on demand.
  public func manualHeartRates(daysAgo: UInt8) async throws(RingError) -> RingBigDataAnswer {
    try await ask(.manualHeartRate(daysAgo: daysAgo))
  }

  public func temperature(days: UInt8) async throws(RingError) -> RingBigDataAnswer {
    try require([.temperature, .intervalTemperature], "temperature")
    return try await ask(.temperature(days: days))
  }

  /// Returns a day's temperatures at the ring's own interval, requested packet by packet.
  ///
  /// - Returns: an incomplete log if a packet is missing or contradicts earlier ones; `nil` if the ring has
  ///   no data for the day.
  /// - Throws: `lacking` if the ring's capabilities exclude it, `noReply` if it does not answer the first
  ///   request.
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

  /// Capabilities that the ring reports even if its clock was not set: whether it requires a bond, and has
  /// interval temperature. `nil` if it does not report them.
  private func support() async throws(RingError) -> RingCapabilities? {
    if let capabilities { return capabilities }
    guard case .deviceSupport(let support)? = try await optional(.deviceSupport) else { return nil }
    return support
  }
}

/// A decoded message of the big data channel.
public struct RingBigDataAnswer: Hashable, Sendable {
  public let message: RingBigData
  public let reply: RingBigDataReply
}
