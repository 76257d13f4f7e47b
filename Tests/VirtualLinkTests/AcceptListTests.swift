import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import TestKit
import Testing

/// Several pending connects on one controller, which makes one attempt at a time.
@Suite(.timeLimit(.minutes(2))) struct AcceptListTests {
  /// Result of a connect, and its duration in virtual milliseconds.
  private struct Outcome: Sendable {
    var error: HostError?
    var milliseconds: Int

    var isConnected: Bool { error == nil }
  }

  private static func peer(_ number: UInt64) -> DeviceAddress {
    DeviceAddress(bits: 0x70CB_0D00_0000 + number, type: .public)
  }

  private let link: VirtualLink

  /// Rings 1, 2 and 3, in virtual time.
  private static func open(listCapacity: Int = 16) async throws -> VirtualLink {
    try await VirtualLink.open(
      (1...3).map { quietRing(number: $0) }, .init(acceptListCapacity: listCapacity), pace: .air,
      clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)))
  }

  init() async throws { link = try await Self.open() }

  private static func connect(_ number: UInt64, seconds: Int, on link: VirtualLink) async -> Outcome {
    let clock = link.loop.clock
    let began = clock.monotonic()
    var error: HostError?
    do throws(HostError) {
      _ = try await link.adapter.connect(
        to: peer(number), asking: LinkRequest(), timeout: .seconds(seconds), tap: nil)
    } catch let refusal { error = refusal }
    return Outcome(error: error, milliseconds: Int(began.duration(to: clock.monotonic()) / .milliseconds(1)))
  }

  private func onLoop<Result: Sendable>(
    _ link: VirtualLink, _ body: @escaping @Sendable (VirtualLink) async throws -> Result
  ) async throws -> Result {
    let result = try await withTaskExecutorPreference(link.loop.preference) { try await body(link) }
    #expect(await link.adapter.load == 0)
    await link.close()
    return result
  }

  @Test func holdsNobodyUpForWhoIsNotThere() async throws {
    let (absent, late, present) = try await onLoop(link) { link in
      await link.emulation.inject(.outOfRange(Self.peer(1)))
      async let absent = Self.connect(9, seconds: 20, on: link)
      async let late = Self.connect(1, seconds: 20, on: link)
      try await link.loop.wait(for: .milliseconds(1_500))
      async let second = Self.connect(2, seconds: 20, on: link)
      async let third = Self.connect(3, seconds: 20, on: link)
      let present = await [second, third]
      try await link.loop.wait(for: .seconds(5))
      await link.emulation.inject(.inRange(Self.peer(1)))
      let outcomes = await (absent, late, present)
      await link.adapter.close()
      return outcomes
    }
    #expect(present.allSatisfy { $0.isConnected && $0.milliseconds < 200 })
    #expect(late.isConnected && (6_400..<6_800).contains(late.milliseconds))
    #expect(absent.error == .noAnswer(Self.peer(9), seconds: 20))
    #expect((20_000..<20_100).contains(absent.milliseconds))
  }

  @Test func givesEachUpAtItsOwnTime() async throws {
    let outcomes = try await onLoop(link) { link in
      async let first = Self.connect(7, seconds: 2, on: link)
      async let second = Self.connect(8, seconds: 5, on: link)
      async let third = Self.connect(9, seconds: 2, on: link)
      return await [first, second, third]
    }
    #expect(
      outcomes.map(\.error)
        == [2, 5, 2].enumerated().map { .noAnswer(Self.peer(UInt64($0) + 7), seconds: $1) })
    #expect(zip(outcomes, [2_000, 5_000, 2_000]).allSatisfy { ($1..<$1 + 100).contains($0.milliseconds) })
  }

  /// Cancelling one connect does not cancel the attempt for the others.
  @Test func goesOnForTheOthersWhereOneIsCancelled() async throws {
    let (cancelled, late) = try await onLoop(link) { link in
      await link.emulation.inject(.outOfRange(Self.peer(1)))
      async let late = Self.connect(1, seconds: 20, on: link)
      let task = Task(executorPreference: link.loop) { await Self.connect(9, seconds: 20, on: link) }
      try await link.loop.wait(for: .seconds(1))
      task.cancel()
      let cancelled = await task.value
      await link.emulation.inject(.inRange(Self.peer(1)))
      let outcomes = await (cancelled, late)
      await link.adapter.close()
      return outcomes
    }
    #expect(cancelled.error == .noAnswer(Self.peer(9), seconds: 20))
    #expect((1_000..<1_100).contains(cancelled.milliseconds))
    #expect(late.isConnected && late.milliseconds < 1_300)
  }

  /// Three devices are absent, and the controller's list holds two.
  @Test func takesTurnsInAListThatIsTooShort() async throws {
    let link = try await Self.open(listCapacity: 2)
    let outcomes = try await onLoop(link) { link in
      await link.emulation.inject(.outOfRange(Self.peer(2)))
      async let absent = [
        Self.connect(7, seconds: 20, on: link), Self.connect(8, seconds: 20, on: link),
        Self.connect(9, seconds: 20, on: link),
      ]
      async let late = Self.connect(2, seconds: 20, on: link)
      try await link.loop.wait(for: .seconds(3))
      await link.emulation.inject(.inRange(Self.peer(2)))
      let outcomes = await (absent, late)
      await link.adapter.close()
      return outcomes
    }
    #expect(outcomes.0.map(\.error) == [7, 8, 9].map { .noAnswer(Self.peer($0), seconds: 20) })
    #expect(outcomes.1.isConnected && (3_000..<7_300).contains(outcomes.1.milliseconds))
  }

  /// A controller that finds no device by its list: each device still gets a directed attempt in turn.
  @Test func reachesByNameWhomTheListOverlooks() async throws {
    let (absent, present) = try await onLoop(link) { link in
      await link.emulation.inject(.overlookAcceptList)
      async let absent = Self.connect(9, seconds: 5, on: link)
      async let present = [Self.connect(1, seconds: 5, on: link), Self.connect(2, seconds: 5, on: link)]
      let outcomes = await (absent, present)
      await link.adapter.close()
      return outcomes
    }
    #expect(present.allSatisfy { $0.isConnected && $0.milliseconds < 1_500 })
    #expect(absent.error == .noAnswer(Self.peer(9), seconds: 5))
  }

  /// The controller confirms a cancel but continues the attempt. A connect queued behind an absent device
  /// gets its turn when that one's timeout has passed, plus two seconds for the controller. If the absent
  /// device is then found, no connect is waiting for it.
  @Test func takesTurnsWhereTheControllerGoesOn() async throws {
    let (absent, behind) = try await onLoop(link) { link in
      await link.emulation.inject(.outOfRange(Self.peer(1)))
      await link.emulation.inject(.goOnWithConnects)
      async let absent = Self.connect(1, seconds: 4, on: link)
      try await link.loop.wait(for: .seconds(1))
      async let behind = Self.connect(2, seconds: 8, on: link)
      let outcomes = await (absent, behind)
      await link.emulation.inject(.inRange(Self.peer(1)))
      try await link.loop.wait(for: .seconds(3))
      await link.adapter.close()
      return outcomes
    }
    #expect(absent.error == .noAnswer(Self.peer(1), seconds: 4))
    #expect((6_000..<6_100).contains(absent.milliseconds))
    #expect(behind.isConnected && behind.milliseconds < 5_300)
  }

  /// The controller does not respond to the cancel: every connect fails, and none waits without limit.
  @Test func failsWhereTheControllerDoesNotGiveUp() async throws {
    let outcomes = try await onLoop(link) { link in
      await link.emulation.inject(
        .refuse(.leCreateConnectionCancel, .commandDisallowed, times: 1))
      async let first = Self.connect(8, seconds: 2, on: link)
      async let second = Self.connect(9, seconds: 2, on: link)
      return await [first, second]
    }
    #expect(outcomes.contains { $0.error == .commandRefused(.leCreateConnectionCancel, .commandDisallowed) })
  }
}
