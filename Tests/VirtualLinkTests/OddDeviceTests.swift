import BLEEmulation
import BLEHost
import BLELinux
import BLESensors
import BLEStack
import BLEWire
import SensorSessions
import TestKit
import TestPeer
import Testing

/// Devices that break rules, as reported, over a virtual link: their values are received nevertheless, and
/// the oddities are reported. `OddDialogueTests` has the devices that a dialogue can play; these need a
/// program.
@Suite(.timeLimit(.minutes(1))) struct OddDeviceTests {
  private struct Outcome: Sendable {
    var rates: [UInt16] = []
    var facts = SensorFacts()
    var failure: HostError?
    var links = 0
    var gaps: [SessionGap] = []
    var remarks: [String] = []
    var strays = 0
    /// Opcodes of requests, and writes, as the device received them.
    var opcodes: [UInt8] = []
    var written: [String] = []
  }

  /// Streams until `count` values have arrived or the session ends.
  private func stream(
    _ count: Int = 20, patience: Duration = .seconds(20),
    _ change: @Sendable (inout DeviceSession.Plan) -> Void = { _ in },
    _ make: @escaping @Sendable () -> OddDevice
  ) async throws -> Outcome {
    let link = try await VirtualLink.open { [make()] }
    var plan = DeviceSession.Plan(OddDevice.address)
    plan.patience = patience
    change(&plan)
    let session = DeviceSession(plan, on: link.adapter)
    let profile = SensorProfile<HeartRateSession>(.none)
    let running = Task { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    var outcome = Outcome()
    for await sample in profile.samples {
      outcome.rates.append(sample.measurement.beatsPerMinute)
      if outcome.rates.count == count { break }
    }
    if outcome.rates.count == count { outcome.facts = await profile.learned() }
    running.cancel()
    outcome.failure = await running.value
    outcome.links = await session.linkCount
    outcome.gaps = await session.gaps
    outcome.remarks = await session.remarks.map { "\($0)" }
    outcome.strays = await session.statistics.strayResponses
    (outcome.opcodes, outcome.written) = await link.emulation.inspect { controller in
      let device = controller.peripherals.compactMap { $0 as? OddDevice }.first
      return (device?.opcodes ?? [], device?.written.map { "\($0.handle):\(hexOf($0.value))" } ?? [])
    }
    await link.close()
    return outcome
  }

  private func check(_ outcome: Outcome, links: Int = 1, _ location: SourceLocation = #_sourceLocation) {
    #expect(outcome.failure == nil, sourceLocation: location)
    #expect(outcome.rates.count == 20, sourceLocation: location)
    #expect(outcome.links == links, sourceLocation: location)
  }

  @Test func plain() async throws {
    let outcome = try await stream { OddDevice() }
    check(outcome)
    #expect(outcome.remarks.isEmpty && outcome.strays == 0)
    #expect(outcome.facts.manufacturer == "Odd" && outcome.facts.firmwareRevision == "1.0")
    #expect(outcome.facts.battery?.percent == 80)
  }

  // MARK: Responses without a request

  /// Everything is answered twice at once.
  final class TwiceAll: OddDevice {
    override func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] { [pdu, pdu] }
    override func notFound(_ request: [UInt8]) -> [[UInt8]] {
      super.notFound(request) + super.notFound(request)
    }
  }

  /// The previous response is sent once more when the next request arrives.
  final class LateAll: OddDevice {
    override func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] {
      late.append(pdu)
      return [pdu]
    }
    override func notFound(_ request: [UInt8]) -> [[UInt8]] {
      late += super.notFound(request)
      return super.notFound(request)
    }
  }

  @Test(arguments: [{ TwiceAll() }, { LateAll() }] as [@Sendable () -> OddDevice])
  func ignoresResponsesThatBelongToNothing(_ make: @escaping @Sendable () -> OddDevice) async throws {
    let outcome = try await stream { make() }
    check(outcome)
    #expect(outcome.strays > 0)
    #expect(outcome.facts.manufacturer == "Odd" && outcome.facts.firmwareRevision == "1.0")
    #expect(outcome.facts.battery?.percent == 80)
    #expect(outcome.facts.bodyLocation == .chest)
  }

  /// The subscription itself ends the link: the device sends all the same.
  final class EndsAtSubscription: OddDevice {
    override func connected() { startMeasuring() }
    override func write(_ handle: UInt16, _ value: [UInt8]) -> [[UInt8]]? {
      end()
      return []
    }
  }

  @Test func listensWithoutASubscriptionThatEndedALink() async throws {
    let outcome = try await stream { EndsAtSubscription() }
    check(outcome, links: 2)
    // At the end it is told to stop.
    #expect(outcome.written == ["7:0100", "7:0000"])
  }

  // MARK: Links that do not last

  /// Links that do not last: the pauses grow, though each brings a value.
  final class ShortLinks: OddDevice {
    override func expired(_ link: PeripheralLink, now: MonotonicTime) {
      super.expired(link, now: now)
      if !written.isEmpty, linkCount < 5, written.count == linkCount { end() }
    }
  }

  @Test func pausesGrowWhileLinksDoNotLast() async throws {
    let outcome = try await stream { ShortLinks() }
    check(outcome, links: 5)
    #expect(outcome.gaps.map(\.pause) == [.zero, .milliseconds(250), .milliseconds(500), .seconds(1)])
    #expect(outcome.gaps.map(\.shortLinks) == [1, 2, 3, 4])
  }

  // MARK: Subscriptions

  /// Refuses the subscription, and sends.
  final class Refuses: OddDevice {
    let code: UInt8
    let sends: Bool
    init(_ code: UInt8, sends: Bool) {
      (self.code, self.sends) = (code, sends)
      super.init()
    }
    override func write(_ handle: UInt16, _ value: [UInt8]) -> [[UInt8]]? {
      if sends { startMeasuring() }
      return [Self.error(0x12, handle, code)]
    }
  }

  @Test(arguments: [0x05, 0x0E] as [UInt8])
  func listensToADeviceThatRefusesAndSends(_ code: UInt8) async throws {
    let outcome = try await stream { Refuses(code, sends: true) }
    check(outcome)
    #expect(outcome.remarks.first?.contains("come all the same") == true)
  }

  @Test func tellsTheRefusalOfADeviceThatSendsNothing() async throws {
    let outcome = try await stream { Refuses(0x03, sends: false) }
    guard case .gatt(.refused(let refusal)) = outcome.failure else {
      Issue.record("\(String(describing: outcome.failure))")
      return
    }
    #expect(refusal.code == .writeNotPermitted)
  }

  /// It refuses notifications, but not indications; values are sent as notifications anyway.
  final class IndicatesOnly: OddDevice {
    override func buildHeartRate() { service(0x180D, [(0x2A37, 0x30, [], [0x2902])]) }
    override func write(_ handle: UInt16, _ value: [UInt8]) -> [[UInt8]]? {
      value == [2, 0] ? nil : [Self.error(0x12, handle, 0x80)]
    }
  }

  @Test func triesTheOtherWay() async throws {
    let outcome = try await stream { IndicatesOnly() }
    check(outcome)
    #expect(outcome.written.map { $0.suffix(4) } == ["0100", "0200", "0000"])
  }

  /// The characteristic does not have the property: this is reported.
  final class CannotNotify: OddDevice {
    override func buildHeartRate() { service(0x180D, [(0x2A37, 0x02, [], [0x2902])]) }
  }

  @Test func tellsWhatCannotNotify() async throws {
    let outcome = try await stream { CannotNotify() }
    #expect(outcome.failure.map { "\($0)" }?.contains("does not support notify or indicate") == true)
  }

  /// Find Information returns the handles in the wrong order.
  final class WrongOrder: OddDevice {
    override func buildHeartRate() { service(0x180D, [(0x2A37, 0x10, [], [0x2901, 0x2902])]) }
    override func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] {
      guard request[0] == 0x04, pdu.count == 10 else { return [pdu] }
      return [pdu[..<2] + pdu[6...] + pdu[2..<6]].map { Array($0) }
    }
  }

  @Test func takesDescriptorsInAnyOrder() async throws {
    let outcome = try await stream { WrongOrder() }
    check(outcome)
    #expect(outcome.written.first == "8:0100")
  }

  // MARK: Several of one UUID

  /// A server that names one service in a response.
  final class OneAtATime: OddDevice {
    override func buildHeartRate() {
      service(0x180D, [(0x2A38, 0x02, [1], [])])
      super.buildHeartRate()
    }
    override func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] {
      [request[0] == 0x06 ? Array(pdu.prefix(5)) : pdu]
    }
  }

  @Test func takesTheOneThatMeasures() async throws {
    check(try await stream { OneAtATime() })
  }

  /// Both can notify; the first never does.
  final class SilentFirst: OddDevice {
    override func buildHeartRate() {
      service(0x180D, [(0x2A37, 0x10, [], [0x2902])])
      super.buildHeartRate()
    }
  }

  @Test func takesTheFirstThatSends() async throws {
    let outcome = try await stream { SilentFirst() }
    check(outcome)
    #expect(
      outcome.remarks == [
        "2 characteristics 2a37 can send values, at handles 0x6, 0xa; using the first that sends"
      ])
  }

  // MARK: The controller

  /// raspberrypi/linux#3330: reset, then connected again.
  @Test func aHardwareErrorIsAGap() async throws {
    let link = try await VirtualLink.open { [OddDevice()] }
    var plan = DeviceSession.Plan(OddDevice.address)
    plan.patience = .seconds(20)
    let session = DeviceSession(plan, on: link.adapter)
    let profile = SensorProfile<HeartRateSession>(.none)
    let running = Task { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    var count = 0
    for await _ in profile.samples {
      count += 1
      if count == 10 || count == 20 { await link.emulation.inject(.hardwareError(0x03)) }
      if count == 40 { break }
    }
    running.cancel()
    #expect(await running.value == nil)
    let gaps = await session.gaps
    #expect(gaps.count == 2)
    #expect(gaps.allSatisfy { $0.end == .linkLost(.controllerReset) && $0.reason?.rawValue == 0x03 })
    await link.close()
  }

  /// Retries are limited: a controller that fails repeatedly is given up.
  @Test func aControllerThatFailsAgainAndAgainIsGivenUp() async throws {
    let link = try await VirtualLink.open { [OddDevice()] }
    let lost = Counter()
    await link.adapter.onLost { lost.add() }
    for number in 1...5 {
      await link.emulation.inject(.hardwareError(0x03))
      let adapter = link.adapter
      try await eventually("reset \(number)") { await adapter.restartCount == number }
      try await adapter.command(ReadLocalSupportedCommands())
    }
    await link.emulation.inject(.hardwareError(0x03))
    await lost.reaches(1)
    await link.close()
  }

  /// During a scan, and during a connect: both continue.
  @Test func scansAndConnectsGoOnAfterAReset() async throws {
    let link = try await VirtualLink.open { [OddDevice()] }
    let reports = Counter()
    try await link.adapter.startScan(.passive, timing: .continuous, duplicates: .reportAll) {
      _, _ in reports.add()
    }
    await reports.reaches(1)
    await link.emulation.inject(.hardwareError(0x03))
    let adapter = link.adapter
    try await eventually("the reset") { await adapter.restartCount == 1 }
    let before = reports.value
    await reports.reaches(before + 3)
    try await adapter.stopScan()

    await link.emulation.inject(.hardwareError(0x03))
    let connection = try await adapter.connect(
      to: OddDevice.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    #expect(try await connection.read(AttributeHandle(3)) == Array("Odd".utf8))
    await link.close()
  }
}
