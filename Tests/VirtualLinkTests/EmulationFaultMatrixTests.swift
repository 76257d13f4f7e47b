import BLEEmulation
import BLEHost
import BLEStack
import BLEWire
import TestKit
import Testing

/// Faults of the controller and of the air, starting at each step of a session, with the expected error, or
/// none.
@Suite(.serialized, .timeLimit(.minutes(3))) struct EmulationFaultMatrixTests {
  private enum Fault: Sendable {
    case controller(ControllerFault)
    case air(AirFault)
  }

  private struct Case: Sendable, CustomStringConvertible {
    let step: SessionStep
    let fault: Fault
    /// `nil` if the session continues and all 90 notifications arrive.
    let error: HostError?

    var description: String { "\(step.rawValue): \(fault)" }
  }

  private static let ring = quietRing().address

  private static func lost(_ loss: LinkLoss) -> HostError { .gatt(.closed(.linkLost(loss))) }

  /// - Parameter link: error while a link is up.
  private static func cases(
    _ fault: Fault, scan: HostError?, connect: HostError?, link: HostError?
  ) -> [Case] {
    SessionStep.allCases.map { step in
      switch step {
      case .scan: Case(step: step, fault: fault, error: scan)
      case .connect: Case(step: step, fault: fault, error: connect)
      case .disconnect: Case(step: step, fault: fault, error: nil)
      default: Case(step: step, fault: fault, error: link)
      }
    }
  }

  private static func unanswered(_ opcode: HCIOpcode) -> HostError {
    .controller("virtual", .commandTimedOut(opcode))
  }

  /// The controller refuses commands of a step with Connection Limit Exceeded.
  private static var refusals: [Case] {
    let status = HCIStatus(rawValue: 0x09)
    let commands: [(SessionStep, HCIOpcode)] = [
      (.scan, .leSetScanParameters), (.scan, .leSetScanEnable), (.connect, .leCreateConnection),
    ]
    return commands.map { step, opcode in
      Case(
        step: step, fault: .controller(.refuse(opcode, status, times: 1)),
        error: .commandRefused(opcode, status))
    } + [Case(step: .disconnect, fault: .controller(.refuse(.disconnect, status, times: nil)), error: nil)]
  }

  private static var silence: [Case] {
    let requests: [SessionStep: ATTOpcode] = [
      .mtu: .exchangeMTURequest, .discovery: .readByTypeRequest, .subscribe: .writeRequest,
      .stream: .writeRequest,
    ]
    return cases(
      .controller(.silence), scan: unanswered(.leSetScanParameters), connect: unanswered(.leCreateConnection),
      link: nil
    ).map { item in
      guard let request = requests[item.step] else { return item }
      return Case(step: item.step, fault: item.fault, error: .gatt(.timedOut(request)))
    }
  }

  private static var controllerCases: [Case] {
    let code: UInt8 = 0x42
    return refusals + silence
      + cases(.controller(.hardwareError(code)), scan: nil, connect: nil, link: lost(.controllerReset))
      + cases(
        .controller(.wrongOpcode(times: 1)), scan: unanswered(.leSetScanParameters),
        connect: unanswered(.leCreateConnection), link: nil)
      + cases(.controller(.staleHandle(times: 5)), scan: nil, connect: nil, link: nil)
      + cases(.controller(.duplicateEvents(times: 5)), scan: nil, connect: nil, link: nil)
      + cases(.controller(.delayAnswers(.milliseconds(300), times: nil)), scan: nil, connect: nil, link: nil)
      // Eight packets may be in flight: the discovery needs more, the later steps do not.
      + cases(.controller(.withholdCompletedPackets), scan: nil, connect: nil, link: nil)
      .filter { $0.step == .subscribe || $0.step == .stream || $0.step == .disconnect }
  }

  private static var airCases: [Case] {
    let isUp: Set<SessionStep> = [.mtu, .discovery, .subscribe, .stream]
    func endings(_ reason: HCIStatus, _ loss: LinkLoss) -> [Case] {
      cases(.air(.disconnect(ring, reason)), scan: nil, connect: nil, link: lost(loss))
        .filter { isUp.contains($0.step) }
    }
    return endings(.remoteUserTerminated, .closedByPeer)
      + endings(HCIStatus(rawValue: 0x15), .closedByPeer)
      + cases(
        .air(.outOfRange(ring)), scan: .notFound("ring", seconds: 2), connect: .noAnswer(ring, seconds: 1),
        link: lost(.silence))
      + cases(.air(.packetErrorRate(0.2)), scan: nil, connect: nil, link: nil)
      + cases(.air(.burst(packets: 5)), scan: nil, connect: nil, link: nil)
  }

  @Test func everyFaultOfTheControllerFromEachStepOn() async throws { try await check(Self.controllerCases) }

  @Test func everyFaultOfTheAirFromEachStepOn() async throws { try await check(Self.airCases, pace: .air) }

  private func check(_ cases: [Case], pace: VirtualAir.Pace = .immediate) async throws {
    let before = try openDescriptors()
    let outcomes = await withTaskGroup(of: (Case, Result<SessionOutcome, any Error>).self) { group in
      for item in cases {
        group.addTask {
          do {
            return (
              item,
              .success(
                try await FaultSession(pace: pace).run(90) { step, emulation in
                  guard step == item.step else { return }
                  switch item.fault {
                  case .controller(let fault): await emulation.inject(fault)
                  case .air(let fault): await emulation.inject(fault)
                  }
                })
            )
          } catch { return (item, .failure(error)) }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes.count == cases.count)
    for (item, outcome) in outcomes {
      let outcome = try outcome.get()
      #expect(outcome.error == item.error, "\(item)")
      if outcome.error == nil { #expect(outcome.notifications == 90, "\(item)") }
      if outcome.error != nil { #expect(outcome.step == item.step, "\(item)") }
    }
    try await eventually("all that was opened is closed") { try openDescriptors() <= before }
  }
}
