import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Simulation
import Synchronization
import TestKit
import TestPeer
import Testing

/// Faults between host and controller at each step of a session. Each case ends within its time, with the
/// expected error or without one, and leaves nothing behind.
///
/// The cases run in parallel, because some last as long as an ATT transaction timeout, 30 s.
@Suite(.serialized, .timeLimit(.minutes(3))) struct FaultMatrixTests {
  typealias Step = SessionStep

  struct Case: Sendable, CustomStringConvertible {
    let step: Step
    let fault: PacketFault
    /// `nil` if the session continues as if there were no fault.
    let error: HostError?
    /// How many of the 90 notifications that the ring sends reach the subscriber.
    var notifications = 90

    var description: String { "\(step.rawValue): \(fault.action) \(fault.direction)" }
  }

  /// Result of each fault in an awaited packet.
  private static func cases(_ step: Step) -> [Case] {
    func fault(
      _ action: PacketFault.Action, _ error: HostError?, skip: Int = 0, notifications: Int = 90
    ) -> Case {
      Case(
        step: step, fault: PacketFault(action, step.awaited, from: .controllerToHost, skip: skip),
        error: error, notifications: notifications)
    }
    // The controller is lost during the step: commands report that, a bearer reports a lost link.
    let lost: HostError =
      switch step {
      case .scan, .connect: .controller("virtual", .transportLost)
      default: .gatt(.closed(.linkLost(.unknown)))
      }
    // No single packet of the stream is awaited: one more or less has no other effect.
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
      fault(.drop, step.unanswered), fault(.duplicate, nil),
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
    let outcomes = await withTaskGroup(
      of: (Case, Result<(outcome: SessionOutcome, hits: Int), any Error>).self
    ) { group in
      for item in cases {
        group.addTask {
          do { return (item, .success(try await Self.run(item))) } catch { return (item, .failure(error)) }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes.count == cases.count)
    for (item, outcome) in outcomes {
      let (outcome, hits) = try outcome.get()
      #expect(outcome.error == item.error, "\(item)")
      #expect(hits == 1, "\(item): the fault did not happen")
      if outcome.error == nil { #expect(outcome.notifications == item.notifications, "\(item)") }
      if outcome.error != nil { #expect(outcome.step == item.step, "\(item)") }
    }
    // The loops' threads close their descriptors a little later; so may those of an earlier test.
    try await eventually("all that was opened is closed") { try openDescriptors() <= before }
  }

  private static func run(_ item: Case) async throws -> (outcome: SessionOutcome, hits: Int) {
    let plan = FaultPlan()
    let outcome = try await FaultSession(wrap: { FaultyTransport($0, plan) }).run(item.notifications) {
      step, _ in
      if step == .scan { plan.add(item.fault) }
    }
    return (outcome, plan.hits)
  }
}

extension SessionStep {
  /// The controller's packet that this step waits for.
  fileprivate var awaited: PacketFault.Selector {
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

  /// The host's packet that requests it.
  fileprivate var asked: PacketFault.Selector {
    switch self {
    case .scan: .command(.leSetScanEnable)
    case .connect: .command(.leCreateConnection)
    case .mtu: .att(.exchangeMTURequest)
    case .discovery: .att(.readByGroupTypeRequest)
    case .subscribe: .att(.writeRequest)
    // The command that starts the stream is also a Write Request, the second one.
    case .stream: .att(.writeRequest)
    case .disconnect: .command(.disconnect)
    }
  }

  /// The byte that identifies that packet: the opcode in Command Complete, the subevent, the status, the ATT
  /// opcode.
  fileprivate var essentialOctet: Int {
    switch self {
    case .scan: 4
    case .connect, .disconnect: 3
    default: 9
    }
  }

  /// Error if the response never arrives. Commands: 2 s. A connect: its timeout, then that of the cancel,
  /// which is refused because the link is up. ATT: 30 s (Core 5.4, Vol 3, Part F, 3.3.3).
  fileprivate var unanswered: HostError? {
    switch self {
    case .scan: .controller("virtual", .commandTimedOut(.leSetScanEnable))
    case .connect: .commandRefused(.leCreateConnectionCancel, .commandDisallowed)
    case .mtu: .gatt(.timedOut(.exchangeMTURequest))
    case .discovery: .gatt(.timedOut(.readByGroupTypeRequest))
    case .subscribe, .stream: .gatt(.timedOut(.writeRequest))
    // A link that does not end is cleared by the reset when the controller is opened next.
    case .disconnect: nil
    }
  }
}
