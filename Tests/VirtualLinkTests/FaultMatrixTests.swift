import BLECore
import BLEEmulation
import BLEHost
import BLESensors
import BLEStack
import BLESystem
import BLEWire
import RingTap
import Synchronization
import TestPeer
import Testing

/// What goes wrong between host and controller, at each step of a session: every case ends in the error that stands
/// here or goes on, within its time, and leaves nothing behind.
///
/// The cases run side by side: some of them last as long as an ATT transaction may, which is 30 s.
@Suite(.serialized, .timeLimit(.minutes(3))) struct FaultMatrixTests {
  enum Step: String, CaseIterable, Sendable {
    case scan, connect, mtu, discovery, subscribe, stream, disconnect

    /// The packet of the controller that this step waits for.
    var awaited: PacketFault.Selector {
      switch self {
      case .scan: .answer(.leSetScanEnable)
      case .connect: .leEvent(.enhancedConnectionComplete)
      case .mtu: .att(.exchangeMTUResponse)
      case .discovery: .att(.readByGroupTypeResponse)
      case .subscribe: .att(.writeResponse)
      case .stream: .att(.handleValueNotification)
      case .disconnect: .event(.disconnectionComplete)
      }
    }

    /// What the host sends to get it.
    var asked: PacketFault.Selector {
      switch self {
      case .scan: .command(.leSetScanEnable)
      case .connect: .command(.leCreateConnection)
      case .mtu: .att(.exchangeMTURequest)
      case .discovery: .att(.readByGroupTypeRequest)
      case .subscribe: .att(.writeRequest)
      // The command that starts the stream is a Write Request too, the second one.
      case .stream: .att(.writeRequest)
      case .disconnect: .command(.disconnect)
      }
    }

    /// What makes that packet another one: the opcode in Command Complete, the subevent, the status, the ATT opcode.
    var essentialOctet: Int {
      switch self {
      case .scan: 4
      case .connect, .disconnect: 3
      default: 9
      }
    }

    /// Where a second answer shows, if it does.
    var next: Step {
      switch self {
      case .mtu: .discovery
      case .subscribe: .stream
      default: self
      }
    }

    /// A response that nobody waits for ends the bearer, as with BlueZ (src/shared/att.c, handle_rsp). Of the
    /// controller's events the first counts.
    var answeredTwice: HostError? {
      switch self {
      case .mtu, .discovery, .subscribe:
        guard case .att(let opcode) = awaited else { return nil }
        return .gatt(
          .closed(
            .protocolViolation(WireError(.att, offset: 0, .unexpectedOpcode(opcode.rawValue)))))
      default: return nil
      }
    }

    /// The error of an answer that never comes. Commands: 2 s; a connect: its time, then that of the cancel, which is
    /// refused because the link is up; ATT: 30 s (Core 5.4, Vol 3, Part F, 3.3.3).
    var unanswered: HostError? {
      switch self {
      case .scan: .controller("virtual", .commandTimedOut(.leSetScanEnable))
      case .connect: .commandRefused(.leCreateConnectionCancel, .commandDisallowed)
      case .mtu: .gatt(.timedOut(.exchangeMTURequest))
      case .discovery: .gatt(.timedOut(.readByGroupTypeRequest))
      case .subscribe, .stream: .gatt(.timedOut(.writeRequest))
      // A link that does not end is left to the reset of whoever takes the controller next.
      case .disconnect: nil
      }
    }
  }

  struct Case: Sendable, CustomStringConvertible {
    let step: Step
    let fault: PacketFault
    /// `nil`: it goes on as if nothing had been.
    let error: HostError?
    /// Notifications of the 90 that the ring sends which reach the subscriber.
    var notifications = 90

    var description: String { "\(step.rawValue): \(fault.action) \(fault.direction)" }
  }

  /// What each fault of an awaited packet leads to.
  private static func cases(_ step: Step) -> [Case] {
    func fault(
      _ action: PacketFault.Action, _ error: HostError?, skip: Int = 0, notifications: Int = 90
    ) -> Case {
      Case(
        step: step, fault: PacketFault(action, step.awaited, from: .controllerToHost, skip: skip),
        error: error, notifications: notifications)
    }
    // The controller is gone in mid-step: commands say so, a bearer says that its link is lost.
    let lost: HostError =
      switch step {
      case .scan, .connect: .controller("virtual", .transportLost)
      default: .gatt(.closed(.linkLost(.unknown)))
      }
    // Of the stream nobody waits for a single packet: one more or less is all that happens.
    if step == .stream {
      return [
        fault(.drop, nil, skip: 10, notifications: 89), fault(.duplicate, nil, skip: 10, notifications: 91),
        fault(.delay(.milliseconds(200)), nil, skip: 10), fault(.reorder, nil, skip: 10),
        fault(.corrupt(octet: 9), nil, skip: 10, notifications: 89),
        fault(.truncate(to: 12), nil, skip: 10, notifications: 89), fault(.end, lost, skip: 10),
        Case(
          step: step, fault: PacketFault(.drop, step.asked, from: .hostToController, skip: 1),
          error: step.unanswered),
      ]
    }
    let isLast = step == .disconnect
    return [
      fault(.drop, step.unanswered), fault(.duplicate, step.answeredTwice),
      fault(.delay(.milliseconds(200)), nil),
      fault(.reorder, nil), fault(.corrupt(octet: step.essentialOctet), step.unanswered),
      fault(.truncate(to: 5), step.unanswered), fault(.end, isLast ? nil : lost),
      Case(
        step: step, fault: PacketFault(.drop, step.asked, from: .hostToController),
        error: step == .connect
          ? .controller("virtual", .commandTimedOut(.leCreateConnection)) : step.unanswered),
    ]
  }

  @Test func everyFaultAtEveryStepEndsAsItMust() async throws {
    let cases = Step.allCases.flatMap(Self.cases)
    let before = try openDescriptors()
    let outcomes = await withTaskGroup(of: (Case, Result<Outcome, any Error>).self) { group in
      for item in cases {
        group.addTask {
          do { return (item, .success(try await Self.run(item))) } catch { return (item, .failure(error)) }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes.count == cases.count)
    for (item, outcome) in outcomes {
      let outcome = try outcome.get()
      #expect(outcome.error == item.error, "\(item)")
      #expect(outcome.hits == 1, "\(item): the fault did not happen")
      if outcome.error == nil { #expect(outcome.notifications == item.notifications, "\(item)") }
      let isDouble = item.fault.action == .duplicate
      if outcome.error != nil { #expect(outcome.step == (isDouble ? item.step.next : item.step), "\(item)") }
    }
    // The loops' threads close theirs a little later; so may those of a test that ran before.
    let patience = ContinuousClock.now.advanced(by: .seconds(10))
    while try openDescriptors() > before, ContinuousClock.now < patience { await Task.yield() }
    #expect(try openDescriptors() <= before)
  }

  struct Outcome: Sendable {
    var step = Step.scan
    var error: HostError?
    var notifications = 0
    var hits = 0
  }

  /// A session with one fault.
  private static func run(_ item: Case) async throws -> Outcome {
    var ring = quietRing()
    ring.notificationLimit = 90
    let plan = FaultPlan()
    let link = try await VirtualLink.open([ring]) { FaultyTransport($0, plan) }
    plan.add(item.fault)
    var outcome = Outcome()
    do throws(HostError) {
      _ = try await RingFinder.find(on: link.adapter, within: .seconds(5))
      outcome.step = .connect
      let connection = try await link.adapter.connect(
        to: ring.address, asking: LinkRequest(), timeout: .seconds(1), tap: nil)
      do throws(GATTError) {
        outcome.notifications = try await session(connection, item.notifications, &outcome.step)
      } catch { throw .gatt(error) }
      outcome.step = .disconnect
      await connection.close()
    } catch { outcome.error = error }
    await link.close()
    outcome.hits = plan.hits
    return outcome
  }

  /// - Returns: values that came until a read that was sent after the last of them was answered.
  private static func session(
    _ connection: Connection, _ expected: Int, _ step: inout Step
  ) async throws(GATTError) -> Int {
    let client = GATTClient(connection)
    step = .mtu
    try await client.exchangeMTU()
    step = .discovery
    let database = try await client.discover()
    step = .subscribe
    guard
      let replies = database.characteristic(RingUUID.commandNotify, in: RingUUID.commandService),
      let command = database.characteristic(RingUUID.commandWrite, in: RingUUID.commandService)
    else { return 0 }
    let progress = Counter()
    let values = Values()
    _ = try await client.subscribe(replies) { _, _ in
      values.add()
      progress.add()
    }
    step = .stream
    let watcher = Task {
      _ = await connection.ended()
      for _ in 0..<expected { progress.add() }
    }
    let start = [UInt8](encoding: RingFrame.byteCount) { RingCommand.rawStart.encode(into: &$0) }
    try await client.write(start, to: command.valueHandle)
    await progress.reaches(expected)
    watcher.cancel()
    _ = try await client.read(AttributeHandle(0x0007))
    return values.count
  }
}

/// Counts values on the receive thread.
private final class Values: Sendable {
  private let number = Atomic<Int>(0)
  var count: Int { number.load(ordering: .relaxed) }
  func add() { number.add(1, ordering: .relaxed) }
}
