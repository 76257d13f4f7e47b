public import BLEStack
public import BLEWire
public import ColmiRing

/// A COLMI R02 smart ring as described in the reference `colmi-ring-protocol.md`.
///
/// The ring advertises its name (not its service), accepts one central, answers battery, clock and capability
/// commands, refuses other commands with `0x80 | opcode, EE`, and streams raw frames at a configurable rate.
/// With a history, the ring also answers requests for stored data, settings and measurements.
///
/// Like a real ring, the emulated ring sends replies and frames only while the central is subscribed. Raw
/// frames that do not fit into the link's queue are dropped and counted in `droppedByRing`, as in firmware
/// without a queue. No frame is delayed or repeated, and limits count only sent frames. Replies wait for
/// room.
public final class EmulatedRing: VirtualPeripheral {
  /// Maximum number of queued frames and fragments. Further frames and fragments are dropped.
  private static let outboxLimit = 4096

  /// Maximum number of ticks to catch up at once after a pause of the host's clock.
  static let maximumTicksAtOnce = 4096

  public let configuration: Configuration
  private let pace: RingPace
  /// Number of raw notifications sent on all links.
  public private(set) var sentRawNotifications = 0
  /// Number of replies and raw frames dropped because the link's queue was full, on all links.
  public private(set) var droppedByRing = 0
  /// Number of commands with a wrong length or checksum. The ring does not answer them.
  public private(set) var rejectedCommands = 0

  /// Whether the attributes have already moved. They move only once.
  private var isMoved = false
  private var places = RingAttributes.Places()
  private var isPoweredOff = false
  public private(set) var advertisingEnd: MonotonicTime?
  private var stream: Stream?
  private var sentOnLink = 0
  private var signal = RingSignal()
  private var errands: [RingErrand] = []
  private var memory: RingMemory?
  private var measuring: RingMeasuring?
  private var workout: RingWorkout?
  /// Queued frames and fragments, sorted by due time.
  private var outbox: [Outgoing] = []
  private var isLinkFull = false
  private var replyCount = 0

  private struct Outgoing {
    let due: MonotonicTime
    let handle: AttributeHandle
    let octets: [UInt8]
  }

  private struct Stream {
    let start: MonotonicTime
    /// The wearer's time at tick 0, in seconds.
    let bodyStart: Double
    var tick = 0
    var sent = 0
  }

  public init(_ configuration: Configuration = Configuration()) {
    precondition(configuration.notificationsPerSecond > 0)
    precondition(configuration.name.utf8.count <= Advertisement.maximumByteCount - 5)
    self.configuration = configuration
    signal = RingSignal(configuration.wearer, dropoutRate: configuration.dropoutRate)
    let parts = Double(RingSignal.Subtype.allCases.count) * configuration.body.pace
    pace = RingPace(.seconds(parts / configuration.notificationsPerSecond))
    if let history = configuration.history, let clock = configuration.clock ?? Self.neverSet {
      memory = RingMemory(history, configuration.features, clock: clock)
    }
  }

  /// Time of a ring whose clock was never set.
  private static let neverSet = try? RingDateTime(date: RingDate(year: 2024, month: 1, day: 1))

  // MARK: Advertisement and attributes

  public var advertisement: Advertisement? {
    if isPoweredOff { return nil }
    let name = [UInt8](configuration.name.utf8)
    // Flags (general discoverable, no BR/EDR), then the complete local name.
    let data: [UInt8] = [2, 0x01, 0x06, UInt8(name.count + 1), 0x09] + name
    return Advertisement(
      address: configuration.address, interval: configuration.advertisingInterval, data: data)
  }

  /// Maximum size of a received PDU. Fits the notifications of 241 bytes that the ring announces (`2F F1`,
  /// the R02 of TAH).
  public var receiveMTU: Int { 244 }

  public var services: [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    return [
      configuration.attributes.generic,
      GATTServiceDescription(
        .genericAccess,
        characteristics: [
          Characteristic(.deviceName, .read, value: [UInt8](configuration.name.utf8)),
          Characteristic(.appearance, .read, value: [0, 0]),
        ]),
    ] + ringServices + [
      GATTServiceDescription(
        .deviceInformation, handle: places.information,
        characteristics: [
          Characteristic(
            .hardwareRevision, .read, value: [UInt8]("R02_V3.0".utf8),
            handle: AttributeHandle(places.information.rawValue + 3)),
          Characteristic(.firmwareRevision, .read, value: [UInt8]("R02_3.00.06_240523".utf8)),
        ])
    ]
  }

  /// Services by handle, with the gaps of captures CAP1 and CAP2 (reference, 1.2).
  private var ringServices: [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    let services = [
      GATTServiceDescription(
        RingUUID.commandService, handle: places.command,
        characteristics: [
          Characteristic(RingUUID.commandWrite, [.write, .writeWithoutResponse]),
          Characteristic(RingUUID.commandNotify, .notify),
        ]),
      GATTServiceDescription(
        RingUUID.bigDataService, handle: places.bigData,
        characteristics: [
          Characteristic(RingUUID.bigDataWrite, .writeWithoutResponse),
          Characteristic(RingUUID.bigDataNotify, .notify),
        ]),
    ]
    return places.command < places.bigData ? services : services.reversed()
  }

  public var attributesVersion: Int { isMoved ? 1 : 0 }

  private func move() {
    isMoved = true
    places = configuration.attributes.places(isMoved: true)
  }

  // MARK: Link

  public func connected(_ link: PeripheralLink, now: MonotonicTime) {
    sentOnLink = 0
    stream = nil
    forgetLink()
    memory?.begin(now: now)
    guard configuration.behaviour == .active else { return }
    // In CAP2 the ring requests the MTU, then an interval of 25–50 ms after 2.5 s, and 100–125 ms some 10 s
    // later.
    errands = [
      RingErrand(due: now.advanced(by: .milliseconds(200)), action: .requestMTU),
      RingErrand(due: now.advanced(by: .milliseconds(2500)), action: .requestParameters(20...40)),
      RingErrand(due: now.advanced(by: .milliseconds(12_500)), action: .requestParameters(80...100)),
    ]
  }

  public func disconnected(now: MonotonicTime) {
    stream = nil
    errands.removeAll()
    forgetLink()
    advertisingEnd = configuration.sleepsAfter.map { now.advanced(by: $0) }
    if configuration.attributes.moment == .betweenLinks { move() }
  }

  private func forgetLink() {
    measuring = nil
    workout = nil
    outbox.removeAll()
    isLinkFull = false
  }

  public func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {
    guard let octets = link.database.value(of: handle) else { return }
    switch handle {
    case places.commandValue:
      guard (try? RingFrame(validating: octets.span)) != nil else {
        rejectedCommands += 1
        return
      }
      execute(octets, link, now)
    case places.bigDataValue: answer(message: octets, link, now)
    default: break
    }
  }

  private func execute(_ frame: [UInt8], _ link: PeripheralLink, _ now: MonotonicTime) {
    switch (frame[0], frame[1]) {
    case (0x01, _):
      setTime(frame, now)
      // The packet size that an R02 announces, then its captured capabilities
      // (rsp-set-time-capabilities-r02).
      let all = configuration.features == .all
      let announced = ringFrame([0x2F, 0xF1])
      send(announced.span, link)
      reply(
        [
          [
            0x01, all ? 0x01 : 0x00, 0x01, 0x00, 0x22, 0, 0, 0, 0, 0x01, 0x00, 0x30, 0x01, 0x00,
            all ? 0x30 : 0x10,
          ]
        ], link, now)
    case (0x03, _): reply([[0x03, configuration.batteryPercent, 0]], link, now)
    case (0x08, 0x00): link.disconnect(.remoteUserTerminated)
    case (0x08, 0x01):
      isPoweredOff = true
      link.disconnect(HCIStatus(rawValue: 0x15))  // Remote Device Terminated Connection due to Power Off
    case (0x3C, _):
      // Byte 9, bit 7: the ring supports interval temperatures.
      let has: UInt8 = configuration.features == .all ? 0x80 : 0
      reply([[0x3C, 0x00, 0x8C, 0x27, 0x00, 0x28, 0x80, 0, 0, has]], link, now)
    case (0xA1, 0x02): stream = nil
    case (0xA1, 0x03):
      for subtype in RingSignal.Subtype.allCases {
        let frame = signal.frame(subtype, tick: stream?.tick ?? 0, seconds: 0)
        send(frame.span, link)
      }
    case (0xA1, 0x04):
      let start = pace.time(ofTick: 1, since: now)
      stream = Stream(start: start, bodyStart: configuration.body.start(at: start))
    case (0xA1, _): break
    default: remember(frame, link, now)
    }
  }

  private func setTime(_ frame: [UInt8], _ now: MonotonicTime) {
    guard case .request(.setTime(let time, _))? = Self.request(frame) else { return }
    memory?.set(time, now: now)
  }

  private static func request(_ frame: [UInt8]) -> RingSentFrame? {
    guard let frame = try? RingFrame(validating: frame.span) else { return nil }
    return try? RingSentFrame(decoding: frame)
  }

  /// Answers requests that only a ring with a history supports.
  private func remember(_ frame: [UInt8], _ link: PeripheralLink, _ now: MonotonicTime) {
    guard memory != nil else { return refuse(frame, link, now) }
    switch Self.request(frame) {
    case .dangerous(.factoryReset)?:
      memory = configuration.history.flatMap { history in
        Self.neverSet.map { RingMemory(history, configuration.features, clock: $0, storedDayCount: 0) }
      }
      link.disconnect(.remoteUserTerminated)
    case .request(.measure(let kind, let action))?: measure(kind, action, frame, link, now)
    case .request(.stopMeasuring(let kind, let value))?:
      measuring = nil
      reply([[0x6A, kind.rawValue, value]], link, now)
    case .request(.sport(let action, let sport))?:
      workout = RingWorkout.after(action, sport, workout, now: now)
      reply([[0x77]], link, now)
    case .request(let request)?:
      guard let answer = memory?.answer(request, now: now) else { return refuse(frame, link, now) }
      reply(answer, link, now)
    default: refuse(frame, link, now)
    }
  }

  private func refuse(_ frame: [UInt8], _ link: PeripheralLink, _ now: MonotonicTime) {
    reply([[frame[0] | 0x80, 0xEE]], link, now)
  }

  private func measure(
    _ kind: RingMeasurement, _ action: RingMeasurementAction, _ frame: [UInt8], _ link: PeripheralLink,
    _ now: MonotonicTime
  ) {
    switch action {
    case .start0, .start, .start25:
      guard let new = RingMeasuring(kind, configuration.features, now: now) else {
        return refuse(frame, link, now)
      }
      measuring = new
    case .resume: measuring?.keepAlive(now: now)
    default: measuring = nil
    }
  }

  private func answer(message octets: [UInt8], _ link: PeripheralLink, _ now: MonotonicTime) {
    guard let message = try? RingBigData(parsing: octets.span), message.isChecksumValid,
      let request = RingBigDataRequest(message), let answer = memory?.answer(request, now: now)
    else { return }
    replyCount += 1
    let whole = configuration.replyFaults.damaged(
      [UInt8](encoding: answer.byteCount) { answer.encode(into: &$0) }, number: replyCount)
    let cut = configuration.replyFaults.logFrameLimit == nil ? whole.count : whole.count / 2
    let size = link.mtu - 3
    for start in stride(from: 0, to: cut, by: size) {
      enqueue(Array(whole[start..<min(start + size, cut)]), places.bigDataReply, now)
    }
    drain(link, now)
  }

  // MARK: Replies

  /// Sends an answer.
  ///
  /// - Parameter starts: the frames of the answer without padding and checksum.
  private func reply(_ starts: [[UInt8]], _ link: PeripheralLink, _ now: MonotonicTime) {
    for frame in configuration.replyFaults.spoiled(starts.map(ringFrame)) {
      replyCount += 1
      enqueue(configuration.replyFaults.damaged(frame, number: replyCount), places.reply, now)
    }
    drain(link, now)
  }

  private func enqueue(_ octets: [UInt8], _ handle: AttributeHandle, _ now: MonotonicTime) {
    guard outbox.count < Self.outboxLimit else {
      droppedByRing += 1
      return
    }
    outbox.append(
      Outgoing(due: now.advanced(by: configuration.replyFaults.delay), handle: handle, octets: octets))
  }

  private func drain(_ link: PeripheralLink, _ now: MonotonicTime) {
    while !isLinkFull, let next = outbox.first, next.due <= now {
      if link.push(of: next.handle, value: next.octets.span) == .full {
        isLinkFull = true
      } else {
        outbox.removeFirst()
      }
    }
  }

  public func roomAvailable(_ link: PeripheralLink, now: MonotonicTime) {
    isLinkFull = false
    drain(link, now)
  }

  private func send(_ frame: Span<UInt8>, _ link: PeripheralLink) {
    if link.push(of: places.reply, value: frame) == .full { droppedByRing += 1 }
  }

  // MARK: Time

  private func due(_ stream: Stream) -> MonotonicTime { pace.time(ofTick: stream.tick, since: stream.start) }

  public var deadline: MonotonicTime? {
    let reply = isLinkFull ? nil : outbox.first?.due
    let own = MonotonicTime.earliest(stream.map(due), errands.first?.due)
    return MonotonicTime.earliest(
      own, MonotonicTime.earliest(reply, MonotonicTime.earliest(measuring?.due, workout?.due)))
  }

  public func expired(_ link: PeripheralLink, now: MonotonicTime) {
    while let errand = errands.first, errand.due <= now {
      errands.removeFirst()
      switch errand.action {
      case .requestMTU: link.requestMTU()
      case .requestParameters(let interval):
        link.requestParameters(interval: interval, latency: 4, supervisionTimeout: 500)
      }
    }
    drain(link, now)
    while let frame = measuring?.next(now: now) { send(frame.span, link) }
    if measuring?.isOver ?? false { measuring = nil }
    while let frame = workout?.next(now: now) { send(frame.span, link) }
    var ticks = 0
    while let stream, due(stream) <= now, ticks < Self.maximumTicksAtOnce {
      sendTick(link)
      ticks += 1
    }
  }

  private func sendTick(_ link: PeripheralLink) {
    guard let tick = stream?.tick, let bodyStart = stream?.bodyStart else { return }
    stream?.tick += 1
    let seconds = bodyStart + pace.seconds * Double(tick)
    for subtype in RingSignal.Subtype.allCases {
      guard let sent = stream?.sent, sent < configuration.notificationLimit ?? .max else {
        stream = nil
        return
      }
      let frame = signal.frame(subtype, tick: tick, seconds: seconds)
      let outcome = push(frame, number: sent + 1, link)
      if outcome == .full { droppedByRing += 1 }
      guard outcome == .queued else { continue }
      stream?.sent += 1
      sentRawNotifications += 1
      sentOnLink += 1
      if sentOnLink == configuration.disconnectAfter {
        stream = nil
        link.disconnect(.connectionTimeout)
        return
      }
      if !isMoved, configuration.attributes.moment == .afterNotifications(sentOnLink) {
        // The firmware restarts.
        stream = nil
        move()
        link.change(to: services)
        return
      }
    }
  }

  /// Sends a raw frame.
  ///
  /// - Parameter number: number of the frame in its stream, from 1.
  private func push(
    _ frame: RingSignal.Frame, number: Int, _ link: PeripheralLink
  ) -> PeripheralLink.PushOutcome {
    let handle = configuration.attributes.streamChannel == .bigData ? places.bigDataReply : places.reply
    guard let every = configuration.malformedEvery, number.isMultiple(of: every) else {
      return link.push(of: handle, value: frame.span)
    }
    if (number / every).isMultiple(of: 2) {
      return link.push(of: handle, value: frame.span.extracting(first: RingFrame.byteCount / 2))
    }
    var broken = frame
    broken[RingFrame.byteCount - 1] ^= 0xFF
    return link.push(of: handle, value: broken.span)
  }
}

// MARK: - Configuration

extension EmulatedRing {
  /// Properties and faults of a ring.
  public struct Configuration: Hashable, Sendable {
    public var name = "R02_A1B2"
    public var address = DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public)
    /// Advertising interval. Real rings use 1000 ms; the default is shorter to save time.
    public var advertisingInterval = Duration.milliseconds(100)
    /// Raw notifications per second, all three subtypes together. Each tick sends one notification of each
    /// subtype. The stock firmware sends 3, the "faster" patch 12. For tests, 300 is faster than any ring.
    public var notificationsPerSecond = 3.0
    /// Number of raw notifications after which a stream stops by itself; `nil` for no limit.
    public var notificationLimit: Int?
    /// Number of raw notifications on a link after which the link is lost (Connection Timeout); `nil` for
    /// never.
    public var disconnectAfter: Int?
    /// Time for which the ring advertises after a link; `nil` to advertise until a central connects.
    public var sleepsAfter: Duration?
    /// Probability that an optical frame has no reading, 0 … 1. Does not apply to the first ticks, which send
    /// captured frames.
    public var dropoutRate = 0.0
    /// Wearer whose light and movement the ring streams. The first ticks send captured frames instead.
    public var wearer = Wearer.even
    public var body = BodyTime()
    /// Number of raw notifications from one that is damaged to the next; `nil` for none. Wrong checksums and
    /// truncation alternate.
    public var malformedEvery: Int?
    public var batteryPercent: UInt8 = 64
    /// Whether the ring requests an MTU exchange and slower connection parameters by itself, like the
    /// captured RT11CR.
    public var behaviour = Behaviour.active
    /// Stored data; `nil` for a ring that refuses such requests.
    public var history: RingHistory?
    public var features = Features.captured
    /// Initial time of the clock at the first connection, until the host sets the clock.
    public var clock: RingDateTime?
    public var replyFaults = RingReplyFaults()
    public var attributes = RingAttributes()

    public enum Features: Hashable, Sendable {
      /// Features of the captured R02: neither temperature nor heart rate variability.
      case captured
      case all
    }

    public enum Behaviour: Hashable, Sendable {
      case active
      /// Sends only replies, and no requests.
      case quiet
    }

    public init() {}
  }
}

/// Faults in an emulated ring's replies.
public struct RingReplyFaults: Hashable, Sendable {
  /// Number of frames or messages from one with a wrong checksum to the next; `nil` for none.
  public var wrongChecksumEvery: Int?
  /// Delay of all replies.
  public var delay = Duration.zero
  /// Whether each answer is preceded by the reply to a command that was not sent.
  public var foreignReplies = false
  /// Number of frames after which a log stops, in the middle of a message.
  public var logFrameLimit: Int?
  /// Whether each frame of a log is followed by an unsolicited notification.
  public var unaskedFrames = false
  /// Whether each frame of a log is sent twice.
  public var repeatedFrames = false

  public init() {}

  /// Returns the frames of an answer after the faults are applied.
  fileprivate func spoiled(_ answer: [[UInt8]]) -> [[UInt8]] {
    let isLog = answer.count > 1
    var frames = isLog ? Array(answer.prefix(logFrameLimit ?? answer.count)) : answer
    if isLog, repeatedFrames { frames = frames.flatMap { [$0, $0] } }
    if isLog, unaskedFrames {
      // The frame `evt-live-activity-3055` of the test vectors.
      let told = ringFrame([0x73, 0x12, 0x00, 0x0B, 0xEF, 0x02, 0x22, 0x09, 0x00, 0x07, 0xCF])
      frames = frames.flatMap { [$0, told] }
    }
    // The reply to the command that sets a phone name. A real ring sends this reply only after that command.
    return foreignReplies ? [ringFrame([0x04])] + frames : frames
  }

  /// Damages a frame or message if a fault is due.
  ///
  /// - Parameter number: number of the frame or message among all replies, from 1.
  func damaged(_ octets: [UInt8], number: Int) -> [UInt8] {
    guard let every = wrongChecksumEvery, number.isMultiple(of: every) else { return octets }
    var octets = octets
    octets[octets.count - 1] ^= 0xFF
    return octets
  }
}

// MARK: - Parts

/// An action that a ring performs by itself after connecting.
struct RingErrand {
  enum Action {
    case requestMTU
    case requestParameters(ClosedRange<UInt16>)
  }

  let due: MonotonicTime
  let action: Action
}

/// Interval between the ticks of a stream. A `Duration` that is decomposed once instead of for each frame.
struct RingPace {
  /// The interval in seconds, for calculations of the wearer's time.
  let seconds: Double
  private let nanoseconds: Int64
  /// The part of the interval below a nanosecond, in attoseconds.
  private let attoseconds: Int64

  init(_ interval: Duration) {
    let parts = interval.components
    seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
    nanoseconds = parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000
    attoseconds = parts.attoseconds % 1_000_000_000
  }

  func time(ofTick tick: Int, since start: MonotonicTime) -> MonotonicTime {
    let number = Int64(tick)
    return start.advanced(nanoseconds: number * nanoseconds + number * attoseconds / 1_000_000_000)
  }
}

/// A measurement on request: two frames per second, without a value while the sensor warms up. Reference,
/// section 3, 0x69.
struct RingMeasuring {
  /// Interval between frames. CAP1 has 2.03 frames per second.
  static let interval = Duration.milliseconds(500)
  /// Time without a command from the host after which the measurement ends. This time is from a single
  /// source; other sources observed no end.
  private static let patience = Duration.seconds(60)
  /// Number of frames without a value at the start. A real ring needs 26 s; this ring needs less, to save
  /// time.
  private static let warmUpFrameCount = 4

  let kind: RingMeasurement
  private let base: UInt8
  private var number = 0
  private let start: MonotonicTime
  private var end: MonotonicTime

  /// Starts a measurement. Returns `nil` for a measurement that this ring does not support.
  init?(_ kind: RingMeasurement, _ features: EmulatedRing.Configuration.Features, now: MonotonicTime) {
    switch kind {
    case .heartRate: base = 78
    case .spO2: base = 97
    case .stress: base = 38
    case .heartRateVariability where features == .all: base = 42
    default: return nil
    }
    self.kind = kind
    start = now.advanced(by: Self.interval)
    end = now.advanced(by: Self.patience)
  }

  var due: MonotonicTime { start.advanced(by: Self.interval * number) }
  /// Whether the measurement has ended because the host sent no command in time.
  var isOver: Bool { due > end }

  fileprivate mutating func keepAlive(now: MonotonicTime) { end = now.advanced(by: Self.patience) }

  /// Returns the frame that is due, if any.
  mutating func next(now: MonotonicTime) -> [UInt8]? {
    guard due <= now, !isOver else { return nil }
    defer { number += 1 }
    guard number >= Self.warmUpFrameCount else { return ringFrame([0x69, kind.rawValue]) }
    let value = base + UInt8(number % 3)
    let pulse: UInt16 = kind == .spO2 ? 0 : 760 + UInt16(number % 5) * 10
    return ringFrame(
      [0x69, kind.rawValue, 0, value, kind == .spO2 ? 1 : 0, 0, UInt8(pulse & 0xFF), UInt8(pulse >> 8)])
  }
}

/// A workout: a report each second with heart rate, steps and distance. Reference, section 3, 0x77 and 0x78.
struct RingWorkout {
  static let interval = Duration.seconds(1)
  private static let stepsPerReport: UInt32 = 2

  private let sport: RingSport
  private var seconds: UInt16 = 0
  /// Time at which the next report is due; `nil` while the workout is paused.
  private(set) var due: MonotonicTime?

  /// Returns the state of the workout after a request of the host, or `nil` if there is no workout.
  static func after(
    _ action: RingSportAction, _ sport: RingSport, _ current: RingWorkout?, now: MonotonicTime
  ) -> RingWorkout? {
    switch action {
    case .start: return RingWorkout(sport: sport, due: now.advanced(by: interval))
    case .pause, .resume:
      var workout = current
      workout?.due = action == .pause ? nil : now.advanced(by: interval)
      return workout
    case .end: return nil
    }
  }

  private init(sport: RingSport, due: MonotonicTime) { (self.sport, self.due) = (sport, due) }

  /// Returns the report that is due, if any.
  mutating func next(now: MonotonicTime) -> [UInt8]? {
    guard let due, due <= now else { return nil }
    self.due = due.advanced(by: Self.interval)
    seconds &+= 1
    let steps = UInt32(seconds) * Self.stepsPerReport
    let metres = UInt32(seconds) * 3 / 2
    var frame = [0x78, sport.rawValue, 1, UInt8(seconds >> 8), UInt8(seconds & 0xFF)]
    frame.append(92 + UInt8(seconds % 5))
    for counter in [0, steps, metres] {
      for shift in [16, 8, 0] as [UInt32] { frame.append(UInt8(truncatingIfNeeded: counter >> shift)) }
    }
    return ringFrame(frame)
  }
}
