import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// The lifetime of one adapter: sessions with all rings, concurrent requests, and faults.
final class SimulatedScene: @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  /// Longer than the sum of request timeouts, connects of all rings and the longest pause of a session.
  private static let recoveryPatience = Duration.seconds(300)
  private static let endPatience = Duration.seconds(100)

  let world: SimulatedWorld
  let kind: FaultKind
  private let number: Int
  private let plan: FaultPlan
  private var runs: [SimulatedSession] = []
  private(set) var adapter: HostAdapter?
  private(set) var isOver = false
  private(set) var isAdapterLost = false
  /// Number of this scene's running tasks.
  var taskCount = 0

  init(_ world: SimulatedWorld, number: Int, kind: FaultKind) {
    self.world = world
    self.number = number
    self.kind = kind
    let frames = world.frames
    plan = FaultPlan { action, packet, direction in
      if direction == .controllerToHost { frames.hit(action, packet) }
    }
  }

  var loop: EventLoop { world.loop }

  // MARK: The scene

  func run() async throws {
    world.trace.note("scene \(number), \(kind)", at: world.now)
    world.heal(plan)
    let adapter = try await open()
    self.adapter = adapter
    await observe(adapter)
    runs = world.rings.map { SimulatedSession(self, $0, on: adapter) }
    for run in runs { run.start() }
    guard try await allStream() else { throw world.finding("no stream at the start of scene \(number)") }
    spawn { await self.scanNowAndThen(adapter) }
    try await disturb()
    try await recover()
    try await end(adapter)
  }

  private func open() async throws -> HostAdapter {
    let transport = FaultyTransport(SimulatedTransport(world.radio), plan, clock: loop.clock)
    do {
      let adapter = try await HostAdapter.open(
        LedgerTransport(transport, world.frames), name: "simulated", on: loop)
      world.watch(adapter, "an adapter")
      await adapter.onLost {
        self.world.trace.note("LOST", at: self.world.now)
        self.isAdapterLost = true
      }
      return adapter
    } catch { throw world.finding("the adapter does not start: \(error)") }
  }

  private func observe(_ adapter: HostAdapter) async {
    let links = LinkTable()
    world.frames.isUp = { links.isUp($0) }
    let observer = LinkObserver { [weak self] connection, link in
      guard let self else { return }
      self.world.watch(connection, "a connection")
      self.world.report.links += 1
      links.add(link)
      for _ in 0..<self.world.random.integer(0...3) {
        let client = RandomClient(self, connection, link)
        self.spawn { await client.run() }
      }
    }
    await adapter.add(observer)
  }

  func spawn(_ body: @escaping @Sendable () async -> Void) {
    taskCount += 1
    Task(executorPreference: loop) {
      await body()
      self.taskCount -= 1
    }
  }

  /// Injects faults at intervals.
  private func disturb() async throws {
    let rings = world.rings.map(\.configuration.address)
    for _ in 0..<world.random.integer(5...60) {
      try await loop.wait(for: world.random.milliseconds(1...4000))
      try world.checkAlways()
      for run in runs { try run.tick() }
      if isAdapterLost || world.eventCount >= world.simulation.events { return }
      if world.random.happens(0.8) {
        world.inject(.random(kind, rings: rings, &world.random), plan)
      } else if let run = runs.randomRun(&world.random) {
        run.stall(for: world.random.milliseconds(1...400_000))
      }
    }
  }

  /// Ends all faults. After that each session must stream again.
  private func recover() async throws {
    world.heal(plan)
    if isAdapterLost {
      try world.check(kind != .air, "the adapter is lost, and only the air was disturbed")
      world.report.resets += 1
      return
    }
    if try await allStream() || isAdapterLost { return }
    // Packets lost between controller and host may leave them in inconsistent states until the next reset.
    try world.check(kind != .air, "no stream again, and only the air was disturbed: \(runs.map(\.state))")
    world.report.resets += 1
  }

  /// Waits until each ring has delivered a sample that it sent after this call.
  private func allStream() async throws -> Bool {
    for run in runs { run.expectSample() }
    return try await world.wait(within: Self.recoveryPatience) {
      isAdapterLost || runs.allSatisfy(\.hasNewSample)
    } && !isAdapterLost
  }

  private func end(_ adapter: HostAdapter) async throws {
    isOver = true
    for run in runs { run.cancel() }
    let isEnded = try await world.wait(within: Self.endPatience) { taskCount == 0 }
    if !isEnded {
      for run in runs { await world.trace.note(run.sessionState, at: world.now) }
    }
    try world.check(isEnded, "\(taskCount) tasks go on: \(runs.map(\.state)), \(world.requests.pendingTexts)")
    for run in runs { try run.finish() }
    spawn { await adapter.close() }
    let isClosed = try await world.wait(within: .seconds(10)) { taskCount == 0 }
    try world.check(isClosed, "the adapter does not close")
    let load = await adapter.load
    try world.check(load == 0, "the adapter is left with \(load) commands, carriers, turns or links")
    runs = []
    self.adapter = nil
  }

  // MARK: Beside the sessions

  private func scanNowAndThen(_ adapter: HostAdapter) async {
    while !isOver, !isAdapterLost {
      do {
        try await loop.wait(for: world.random.milliseconds(100...60_000))
        if isOver { return }
        let request = world.requests.begin("a scan", on: nil, at: world.now)
        do {
          try await adapter.startScan(
            world.random.pick([.active, .passive]), timing: .continuous, duplicates: .reportAll
          ) { _, _ in }
          world.requests.end(request, .value)
        } catch { world.requests.end(request, .init(error)) }
        try await loop.wait(for: world.random.milliseconds(10...3000))
        let stop = world.requests.begin("the end of a scan", on: nil, at: world.now)
        do {
          try await adapter.stopScan()
          world.requests.end(stop, .value)
        } catch { world.requests.end(stop, .init(error)) }
      } catch { return }
    }
  }
}

/// Handles of the links that are up according to their connections.
final class LinkTable: @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.
  private var links: [SimulatedLink] = []

  func add(_ link: SimulatedLink) {
    links.removeAll { $0.endedAt != nil }
    links.append(link)
  }

  func isUp(_ handle: ConnectionHandle) -> Bool {
    links.contains { $0.handle == handle && $0.endedAt == nil }
  }
}

extension [SimulatedSession] {
  fileprivate func randomRun(_ random: inout SimulationRandom) -> SimulatedSession? {
    isEmpty ? nil : random.pick(self)
  }
}
