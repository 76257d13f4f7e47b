import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// A client that sends random requests to a ring that streams, and sometimes does not wait for the response.
final class RandomClient: @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  private let scene: SimulatedScene
  private let connection: Connection
  private let link: SimulatedLink
  private var random: SimulationRandom

  init(_ scene: SimulatedScene, _ connection: Connection, _ link: SimulatedLink) {
    self.scene = scene
    self.connection = connection
    self.link = link
    random = SimulationRandom(seed: scene.world.random.next())
  }

  static func request(_ random: inout SimulationRandom) -> LinkRequest {
    var request = LinkRequest()
    let interval = UInt16(random.integer(6...40))
    request.interval = interval...interval
    request.latency = UInt16(random.pick([0, 0, 1, 4]))
    request.supervisionTimeout = UInt16(random.integer(60...600))
    request.phy = random.pick([nil, .le1M, .le2M])
    request.dataLength = random.pick([nil, 27, 100, 251])
    return request
  }

  func run() async {
    while !scene.isOver, link.endedAt == nil {
      do { try await scene.loop.wait(for: random.milliseconds(0...5000)) } catch { return }
      if link.endedAt != nil { return }
      let action = Action.random(&random)
      guard random.happens(0.2) else {
        await ask(action)
        continue
      }
      let task = Task(executorPreference: scene.loop) { await self.ask(action) }
      try? await scene.loop.wait(for: random.milliseconds(0...100))
      task.cancel()
      await task.value
    }
  }

  private func ask(_ action: Action) async {
    let world = scene.world
    let number = world.requests.begin("\(action)", on: link, at: world.now)
    let outcome: RequestLedger.Outcome
    do {
      try await perform(action)
      outcome = .value
    } catch { outcome = .init(error) }
    world.requests.end(number, outcome)
    world.trace.note("\(action) \(number): \(outcome)", at: world.now)
  }

  private enum Action: CaseIterable {
    case readName, readNothing, readValues, readSeveral, readLong
    case battery, nonsense, command, writeNothing, queuedWrite, exchangeMTU
    case discover, subscribe, change

    static func random(_ random: inout SimulationRandom) -> Action { random.pick(Action.allCases) }
  }

  /// Handles of the ring's name and its commands, and an unused one. After its services have moved, these
  /// handles belong to other attributes.
  private static let nameHandle = AttributeHandle(0x0007)
  private static let commandHandle = AttributeHandle(0x0010)
  private static let noHandle = AttributeHandle(0x0070)

  private func perform(_ action: Action) async throws {
    switch action {
    case .readName: _ = try await connection.read(Self.nameHandle)
    case .readNothing: _ = try await connection.read(Self.noHandle)
    case .readValues: _ = try await connection.readValues(of: .deviceName)
    case .readSeveral: _ = try await connection.read([Self.nameHandle, AttributeHandle(0x0009)])
    case .readLong: _ = try await connection.read(AttributeHandle(0x001D))
    case .battery: try await connection.write(Self.frame(0x03), to: Self.commandHandle)
    case .nonsense: try await connection.write(Self.frame(0x77), to: Self.commandHandle)
    case .command: try await connection.writeWithoutResponse(Self.frame(0x03), to: Self.commandHandle)
    case .writeNothing: try await connection.write([1, 2, 3], to: Self.noHandle)
    case .queuedWrite:
      try await connection.writeTogether([AttributeWrite(Self.frame(0x03), to: Self.commandHandle)])
    case .exchangeMTU: try await connection.exchangeMTU()
    case .discover: _ = try await connection.discoverDatabase()
    case .subscribe: try await subscribe()
    case .change: await scene.adapter?.change(connection, to: Self.request(&random))
    }
  }

  /// Subscribes to the ring's other characteristic, which never notifies.
  private func subscribe() async throws {
    let database = try await connection.discoverDatabase()
    guard
      let characteristic = database.services.flatMap(\.characteristics).last(where: {
        $0.properties.contains(.notify)
      })
    else { return }
    let subscription = try await connection.subscribe(characteristic) { _, _ in }
    try await scene.loop.wait(for: random.milliseconds(0...2000))
    // If this one is the ring's replies, the session may have subscribed to it, too.
    _ = subscription
  }

  /// Makes a ring frame with its checksum.
  private static func frame(_ opcode: UInt8) -> [UInt8] {
    [opcode] + [UInt8](repeating: 0, count: 14) + [opcode]
  }
}
