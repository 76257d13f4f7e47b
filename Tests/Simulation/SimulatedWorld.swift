import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// The state of a run that is kept across scenes: loop, virtual air, controller, rings, and the ledgers.
final class SimulatedWorld: @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  /// Time limit for the end of a link; above the longest supervision timeout that is requested.
  static let linkEndPatience = Duration.seconds(12)
  /// Growth of memory, from the first tenth of a run to its end, that does not count as a leak. The allocator
  /// itself causes it.
  static let memoryTolerance = 512 * 1024

  let simulation: Simulation
  let loop: EventLoop
  let rings: [EmulatedRing]
  let radio: SimulatedRadio
  let trace = Trace()
  let frames = FrameLedger()
  let requests = RequestLedger()
  var random: SimulationRandom
  var report = Simulation.Report()
  /// Objects that must be released when their scene ends.
  private var mortals: [Mortal] = []

  private struct Mortal {
    weak var object: AnyObject?
    let name: String
  }

  init(_ simulation: Simulation, on loop: EventLoop) throws {
    self.simulation = simulation
    self.loop = loop
    var random = SimulationRandom(seed: simulation.seed)
    rings = (1...random.pick([1, 1, 2, 3])).map { EmulatedRing(Self.ring($0, &random)) }
    let controller = VirtualController(
      .init(
        commandSet: random.pick([.legacy, .extended]), aclByteCount: random.pick([27, 64, 251]),
        aclPacketCount: UInt8(random.integer(1...8))),
      peripherals: rings, air: .init(pace: .air, seed: random.next()))
    radio = try SimulatedRadio(controller, frames, trace, on: loop)
    self.random = random
    let frames = frames
    controller.air.whenFrameLost = { frames.lostInEmulation($0, $1) }
  }

  func close() { radio.close() }

  private static func ring(_ number: Int, _ random: inout SimulationRandom) -> EmulatedRing.Configuration {
    var ring = EmulatedRing.Configuration()
    ring.address = DeviceAddress(bits: 0x70CB_0D00_0000 + UInt64(number), type: .public)
    ring.name = "R02_000\(number)"
    ring.notificationsPerSecond = random.pick([12, 60, 150, 300])
    ring.malformedEvery = random.pick([nil, nil, 7, 100])
    ring.advertisingInterval = random.milliseconds(20...1000)
    ring.behaviour = random.pick([.active, .quiet])
    ring.attributes.kind = random.pick(RingAttributes.Kind.allCases)
    // A ring that claims never to change must not.
    if ring.attributes.kind != .lasting {
      ring.attributes.move = random.pick(RingAttributes.Move.allCases)
      ring.attributes.moment = random.pick(
        [.never, .never, .betweenLinks, .afterNotifications(random.integer(1...500))])
    }
    ring.replyFaults.delay = random.happens(0.2) ? random.milliseconds(1...500) : .zero
    ring.replyFaults.wrongChecksumEvery = random.pick([nil, nil, 3])
    ring.replyFaults.foreignReplies = random.happens(0.2)
    return ring
  }

  var now: MonotonicTime { loop.clock.monotonic() }
  var eventCount: Int { radio.controller.air.eventCount }
  var sent: Int { rings.reduce(0) { $0 + $1.sentRawNotifications } }

  // MARK: The run

  func run(_ progress: (Int) -> Void) async throws -> Simulation.Report {
    while eventCount < simulation.events {
      report.scenes += 1
      let kind = FaultKind.random(&random)
      try await SimulatedScene(self, number: report.scenes, kind: kind).run()
      try await endScene(kind)
      let isEarly = eventCount < simulation.events / 10 || report.scenes < 3
      if isEarly { report.memory.early = Simulation.allocated }
      progress(eventCount)
    }
    report.memory.end = Simulation.allocated
    try check(
      report.memory.end - report.memory.early < Self.memoryTolerance,
      "memory has grown from \(report.memory.early) to \(report.memory.end) octets")
    return finalReport
  }

  /// Checks that everything that a scene opened was closed and released, and that each frame is accounted
  /// for.
  private func endScene(_ kind: FaultKind) async throws {
    try await loop.wait(for: Self.linkEndPatience)
    if radio.controller.air.linkCount > 0, kind != .air {
      // The host was never notified of the link, or considered it ended. The next host also begins with a
      // reset.
      report.orphans += 1
      let reset: [UInt8] = [0x01, 0x03, 0x0C, 0x00]
      radio.send(reset.span)
      try await loop.wait(for: Self.linkEndPatience)
    }
    try checkAlways()
    try check(requests.pendingCount == 0, "\(requests.pendingCount) requests are left")
    try check(requests.begun == requests.ended, "\(requests.begun) requests, \(requests.ended) ends")
    try check(
      radio.controller.air.linkCount == 0, "\(radio.controller.air.linkCount) links are left in the air")
    try check(radio.client == nil, "the transport is left open")
    let load = loop.load
    try check(load.sources == 1 && load.sleepers == 0, "the loop has \(load)")
    let left = mortals.filter { $0.object != nil }.map(\.name)
    try check(left.isEmpty, "left are: \(left.joined(separator: ", "))")
    mortals = []
    try check(
      frames.isBalanced(sent: sent),
      "\(sent) frames sent, \(frames.duplicated) doubled; \(frames.received) received, lost: \(frames.lost)")
    try check(
      frames.sampleCount == frames.received, "\(frames.sampleCount) samples of \(frames.received) frames")
  }

  func watch(_ object: some AnyObject, _ name: String) { mortals.append(Mortal(object: object, name: name)) }

  private var finalReport: Simulation.Report {
    report.events = eventCount
    report.virtualSeconds = Int(now.nanoseconds / 1_000_000_000)
    report.requestCount = requests.begun
    for (outcome, count) in requests.outcomes { report.requests[outcome.rawValue] = count }
    report.sent = sent
    report.received = frames.received
    report.duplicated = frames.duplicated
    for (place, count) in frames.lost { report.lost[place.rawValue] = count }
    report.checksum = trace.checksum
    return report
  }

  // MARK: Faults and findings

  func inject(_ fault: RandomFault, _ plan: FaultPlan) {
    report.faults[fault.name, default: 0] += 1
    trace.note(fault.name, at: now)
    switch fault {
    case .air(let fault): radio.inject(fault)
    case .controller(let fault): radio.inject(fault)
    case .packet(let fault): plan.add(fault)
    }
  }

  /// Ends all faults.
  func heal(_ plan: FaultPlan) {
    trace.note("heal", at: now)
    radio.inject(.packetErrorRate(0))
    radio.inject(.burst(packets: 0))
    for ring in rings { radio.inject(.inRange(ring.configuration.address)) }
    radio.controller.clearFaults()
    plan.clear()
  }

  func check(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    if !condition { throw finding(what()) }
  }

  func finding(_ what: String) -> Simulation.Finding {
    Simulation.Finding(
      seed: simulation.seed, event: eventCount, milliseconds: now.nanoseconds / 1_000_000, what: what,
      trace: trace.lines)
  }

  /// Checks the invariants.
  func checkAlways() throws {
    if let fault = frames.fault ?? requests.fault { throw finding(fault) }
    if let overdue = requests.overdue(now: now) { throw finding(overdue) }
  }

  /// Waits for a condition within a time limit, and checks the invariants meanwhile.
  func wait(within limit: Duration, for isThere: () -> Bool) async throws -> Bool {
    let end = now.advanced(by: limit)
    while !isThere() {
      guard now < end else { return false }
      try await loop.wait(for: .milliseconds(100))
      try checkAlways()
    }
    return true
  }
}
