import BLEHost
import BLEWire
import Testing

@testable import BLEReplay

/// A recorded conversation, replayed to a host that sends the same packets, and to one that does not. Packets
/// by hand, from Core 5.4, Vol 4, Part E, 7 and Vol 3, Part F, 3.4.
@Suite struct ReplayScriptTests {
  private static let reset: [UInt8] = [0x01, 0x03, 0x0C, 0x00]
  private static let resetAnswer: [UInt8] = [0x04, 0x0E, 0x04, 0x01, 0x03, 0x0C, 0x00]
  private static let version: [UInt8] = [0x01, 0x01, 0x10, 0x00]
  private static let versionAnswer: [UInt8] = [
    0x04, 0x0E, 0x0C, 0x01, 0x01, 0x10, 0x00, 13, 0, 0, 13, 0, 0, 0, 0,
  ]
  /// Read Request of 0x0003, its response, Write Requests of 0x0010, their response, a notification of
  /// 0x0012.
  private static let read = data([0x0A, 0x03, 0x00])
  private static let readAnswer = answer([0x0B, 0x41])
  private static let write = data([0x12, 0x10, 0x00, 0xA1])
  private static let otherWrite = data([0x12, 0x10, 0x00, 0xA2])
  private static let writeAnswer = answer([0x13])
  private static let notification = answer([0x1B, 0x12, 0x00, 0x07])

  private static func data(_ pdu: [UInt8], _ flags: UInt8 = 0x00) -> [UInt8] {
    [0x02, 0x40, flags, UInt8(pdu.count + 4), 0, UInt8(pdu.count), 0, 4, 0] + pdu
  }
  private static func answer(_ pdu: [UInt8]) -> [UInt8] { data(pdu, 0x20) }

  private func script(
    _ packets: [(HCIDirection, [UInt8])], isSubscribed: Bool = true
  ) -> ReplayScript {
    var script = ReplayScript(
      packets.enumerated().map {
        ReplayPacket(
          index: $0.offset + 1, time: ReceiveTime(nanoseconds: Int64($0.offset)), $0.element.0, $0.element.1)
      })
    if isSubscribed { script.ceaseToAwaitSubscription() }
    return script
  }

  private func delivered(_ script: inout ReplayScript) -> [[UInt8]] {
    var all: [[UInt8]] = []
    while let next = script.next {
      all.append(next.octets)
      script.deliver()
    }
    return all
  }

  @Test func playsAnAnswerWhenItsQuestionWasSent() {
    var script = script([
      (.hostToController, Self.reset), (.controllerToHost, Self.resetAnswer),
      (.hostToController, Self.version), (.controllerToHost, Self.versionAnswer),
    ])
    #expect(script.next == nil)
    #expect(script.awaited?.index == 1)
    #expect(script.take(Self.reset) == .none)
    #expect(delivered(&script) == [Self.resetAnswer])
    #expect(script.take(Self.version) == .none)
    #expect(delivered(&script) == [Self.versionAnswer])
    #expect(script.isAtEnd)
    #expect(script.findings.reproduced == 2 && script.findings.played == 4)
    #expect(script.findings.differenceCount == 0)
  }

  /// Packets before one of the host's are replayed before it; later ones wait for it, whichever side is
  /// first.
  @Test func waitsForAllThatWasSentBefore() {
    var script = script([
      (.controllerToHost, Self.notification), (.hostToController, Self.write),
      (.hostToController, Self.reset), (.controllerToHost, Self.writeAnswer),
      (.controllerToHost, Self.resetAnswer),
    ])
    #expect(delivered(&script) == [Self.notification])
    #expect(script.take(Self.reset) == .none)
    #expect(delivered(&script) == [])
    #expect(script.take(Self.write) == .none)
    #expect(delivered(&script) == [Self.writeAnswer, Self.resetAnswer])
    #expect(script.findings.reproduced == 2 && script.findings.differenceCount == 0)
  }

  @Test func takesAnotherValueForTheSameAttribute() throws {
    var script = script([(.hostToController, Self.write), (.controllerToHost, Self.writeAnswer)])
    #expect(script.take(Self.otherWrite) == .none)
    #expect(delivered(&script) == [Self.writeAnswer])
    let difference = try #require(script.findings.examples.first)
    #expect(difference.kind == .different && difference.index == 1)
    #expect(difference.recorded == Self.write && difference.ours == Self.otherWrite)
  }

  /// A client that omits a request continues with the next: the omitted request's response is not sent
  /// either.
  @Test func leavesOutWhatOursDoesNotAsk() {
    var script = script([
      (.hostToController, Self.read), (.controllerToHost, Self.readAnswer),
      (.hostToController, Self.write), (.controllerToHost, Self.writeAnswer),
    ])
    #expect(script.take(Self.write) == .none)
    #expect(delivered(&script) == [Self.writeAnswer])
    #expect(script.findings.counts == [.missing: 1])
  }

  /// Error Response with Unlikely Error for a value that was never read; the log's next packet is reported.
  @Test func refusesARequestThatTheLogDoesNotHave() throws {
    var script = script([(.hostToController, Self.write), (.controllerToHost, Self.writeAnswer)])
    expectAnswer(script.take(Self.read), [0x01, 0x0A, 0x03, 0x00, 0x0E])
    let difference = try #require(script.findings.examples.first)
    #expect(difference.kind == .unexpected && difference.ours == Self.read)
    #expect(difference.why?.contains("packet 1: Write Request of 0x0010") == true)
    #expect(script.findings.differenceCount == 1)
    #expect(script.take(Self.write) == .none)
    #expect(delivered(&script) == [Self.writeAnswer])
  }

  private func expectAnswer(
    _ outcome: ReplayScript.Outcome, _ pdu: [UInt8], at location: SourceLocation = #_sourceLocation
  ) {
    guard case .answer(let answer) = outcome else {
      Issue.record("\(outcome)", sourceLocation: location)
      return
    }
    #expect(answer.octets == Self.answer(pdu), sourceLocation: location)
    #expect(answer.direction == .controllerToHost, sourceLocation: location)
  }

  /// A request that is repeated more often than in the log gets the same response again.
  @Test func answersARepeatedRequestAgain() {
    var script = script([
      (.hostToController, Self.read), (.controllerToHost, Self.readAnswer),
      (.hostToController, Self.write), (.controllerToHost, Self.writeAnswer),
    ])
    _ = script.take(Self.read)
    _ = delivered(&script)
    let outcome = script.take(Self.read)
    guard case .answer(let answer) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(answer.index == 2)
  }

  /// A missing response is reported when the request is sent, and the request is refused.
  @Test func refusesAQuestionWithoutAnswer() {
    var script = script([
      (.hostToController, Self.read), (.hostToController, Self.write), (.controllerToHost, Self.writeAnswer),
    ])
    expectAnswer(script.take(Self.read), [0x01, 0x0A, 0x03, 0x00, 0x0E])
    #expect(script.findings.counts == [.unanswered: 1])
    #expect(script.findings.examples.first?.index == 1)
    #expect(script.take(Self.write) == .none)
    #expect(delivered(&script) == [Self.writeAnswer])
  }

  // MARK: Another client

  /// A control point at 0x0010 that responds with indications: the response to procedure 1 is not used for
  /// procedure 2, but for procedure 2 with another parameter.
  @Test func asksAControlPointForOneProcedure() {
    let (indication, confirmation) = (Self.answer([0x1D, 0x10, 0x00, 0xF0, 0x02]), Self.data([0x1E]))
    var script = script([
      (.hostToController, Self.data([0x12, 0x10, 0x00, 0x02, 0x05])), (.controllerToHost, Self.writeAnswer),
      (.controllerToHost, indication), (.hostToController, confirmation),
      (.controllerToHost, Self.notification),
    ])
    expectAnswer(script.take(Self.data([0x12, 0x10, 0x00, 0x01])), [0x01, 0x12, 0x10, 0x00, 0x0E])
    #expect(script.findings.counts == [.unexpected: 1])
    #expect(script.take(Self.data([0x12, 0x10, 0x00, 0x02, 0x06])) == .none)
    #expect(delivered(&script) == [Self.writeAnswer, indication])
    #expect(script.take(confirmation) == .none)
    #expect(delivered(&script) == [Self.notification])
  }

  /// A value that the recorded host wrote with response and ours without, and vice versa. Earlier writes to
  /// the same attribute are then no longer expected, although their values partly agree.
  @Test func takesAWriteWithOrWithoutResponse() {
    let (battery, time) = ([0x10, 0x00, 0x03] as [UInt8], [0x10, 0x00, 0x01] as [UInt8])
    var script = script([
      (.hostToController, Self.data([0x12] + time)), (.controllerToHost, Self.writeAnswer),
      (.hostToController, Self.data([0x12] + battery)), (.controllerToHost, Self.writeAnswer),
      (.controllerToHost, Self.notification), (.hostToController, Self.data([0x52] + time)),
      (.controllerToHost, Self.notification),
    ])
    #expect(script.take(Self.data([0x52] + battery)) == .none)
    #expect(delivered(&script) == [Self.notification])
    #expect(script.findings.counts == [.missing: 1, .different: 1])
    expectAnswer(script.take(Self.data([0x12] + time)), [0x13])
    #expect(delivered(&script) == [Self.notification])
    #expect(script.isAtEnd)
  }

  /// The log begins in the middle of notifications: they wait until our host subscribes, or until no
  /// subscription is expected.
  @Test func keepsValuesUntilSomebodySubscribes() {
    let packets: [(HCIDirection, [UInt8])] = [
      (.controllerToHost, Self.notification), (.controllerToHost, Self.notification),
    ]
    var subscribed = script(packets, isSubscribed: false)
    #expect(subscribed.awaitsSubscription && subscribed.next == nil && subscribed.awaited == nil)
    // A read has no effect, nor does an unsubscription.
    _ = subscribed.take(Self.read)
    _ = subscribed.take(Self.data([0x12, 0x13, 0x00, 0x00, 0x00]))
    #expect(subscribed.next == nil)
    _ = subscribed.take(Self.data([0x12, 0x13, 0x00, 0x01, 0x00]))
    #expect(delivered(&subscribed) == [Self.notification, Self.notification])

    var idle = script(packets, isSubscribed: false)
    idle.ceaseToAwaitSubscription()
    #expect(delivered(&idle) == [Self.notification, Self.notification])
    // The recorded host subscribes first: there is nothing to wait for.
    let subscription = Self.data([0x12, 0x13, 0x00, 0x01, 0x00])
    #expect(!script([(.hostToController, subscription)] + packets, isSubscribed: false).awaitsSubscription)
  }

  /// A response without its request would close the channel: it waits for a request.
  @Test func keepsAnAnswerThatNobodyAskedFor() {
    var script = script([
      (.controllerToHost, Self.notification), (.controllerToHost, Self.readAnswer),
      (.hostToController, Self.write), (.controllerToHost, Self.writeAnswer),
    ])
    #expect(delivered(&script) == [Self.notification])
    let outcome = script.take(Self.read)
    guard case .answer(let answer) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(answer.octets == Self.readAnswer)
    #expect(script.take(Self.write) == .none)
    #expect(delivered(&script) == [Self.writeAnswer])
    #expect(script.findings.counts == [.unasked: 1, .unexpected: 1])
  }

  @Test func goesOnWithoutWhatNeverComes() {
    var script = script([
      (.hostToController, Self.read), (.controllerToHost, Self.readAnswer),
      (.controllerToHost, Self.notification),
    ])
    script.skip()
    #expect(delivered(&script) == [Self.notification])
    #expect(script.isAtEnd && script.findings.counts == [.missing: 1])
  }

  /// Ten notifications and a write after the eighth: there more than a tenth is left, after the ninth exactly
  /// a tenth.
  @Test func knowsWhatIsLeftOfTheValues() {
    let values: [(HCIDirection, [UInt8])] = (0..<10).map { _ in (.controllerToHost, Self.notification) }
    var script = script(values[..<8] + [(.hostToController, Self.write)] + values[8...])
    #expect(!script.isNearEnd)
    #expect(delivered(&script).count == 8)
    #expect(script.awaited != nil && !script.isNearEnd)
    script.skip()
    script.deliver()
    #expect(script.isNearEnd)
  }

  @Test func saysThatTheLogHasEnded() {
    var script = script([])
    #expect(script.isAtEnd)
    guard case .unanswered(let why) = script.take(Self.write) else { return }
    #expect(why.contains("the log ends before Write Request of 0x0010"))
    #expect(script.findings.differenceCount == 0 && script.findings.afterEnd == 1)
  }
}

/// In virtual time: nothing is measured.
@Suite struct ReplayPaceTests {
  private let start = MonotonicTime(nanoseconds: 1_000)

  /// Recorded at 5 s, 5.25 s and 15 s.
  @Test(arguments: [(1, [0, 250_000_000, 10_000_000_000]), (10, [0, 25_000_000, 1_000_000_000])])
  func keepsTheScaledTimes(_ factor: Int, _ expected: [Int64]) {
    var pace = ReplayPace(.times(factor))
    let due = [5_000_000_000, 5_250_000_000, 15_000_000_000].map {
      pace.due(ReceiveTime(nanoseconds: $0), now: start)
    }
    #expect(due == expected.map { MonotonicTime(nanoseconds: 1_000 + $0) })
  }

  /// The result does not change while time passes, so that a loop that sleeps until then finds it due.
  @Test func standsStill() {
    var pace = ReplayPace(.times(1))
    _ = pace.due(ReceiveTime(nanoseconds: 0), now: start)
    let first = pace.due(ReceiveTime(nanoseconds: 70), now: MonotonicTime(nanoseconds: 1_020))
    #expect(first == MonotonicTime(nanoseconds: 1_070))
    #expect(pace.due(ReceiveTime(nanoseconds: 70), now: MonotonicTime(nanoseconds: 9_999)) == first)
  }

  /// At maximum speed, and if a clock was set back or a log contains nonsense.
  @Test func neverWaitsForThePast() {
    var fast = ReplayPace(.max)
    #expect(fast.due(ReceiveTime(nanoseconds: .max), now: start) < start)
    var pace = ReplayPace(.times(1))
    _ = pace.due(ReceiveTime(nanoseconds: 500), now: start)
    #expect(pace.due(ReceiveTime(nanoseconds: 400), now: start) < start)
    #expect(pace.due(ReceiveTime(nanoseconds: .min), now: start) <= start)
  }
}
