import BLEHost
import BLEWire
import JSONText
import Recording

/// Facts in `session.json`: device, recording, link, losses, and marks for the time axis.
struct SessionFacts {
  private let session: JSONDocument
  let ledger: Ledger

  init(_ session: JSONDocument) { (self.session, ledger) = (session, Ledger(session)) }

  /// Whether losses are recorded, possibly without losses found by the sensor's clock.
  var knowsLosses: Bool {
    session["received"] != nil && session["lost"] != nil && session["endedAtNs"] != nil
  }

  var title: String? {
    session["device"]?["name"]?.text ?? session["device"]?["address"]?.text
  }

  var begins: Int64? { session["startedAtNs"]?.nanoseconds }
  var ends: Int64? { session["endedAtNs"]?.nanoseconds }
  var packetLog: String? { session["packetLog"]?.text }

  var facts: [ReportSection.Facts] {
    [recording, link, received].filter { !$0.rows.isEmpty }
  }

  private var recording: ReportSection.Facts {
    var facts = ReportSection.Facts(title: "Recording")
    let device = session["device"]
    facts.add("Device", device?["name"]?.text)
    facts.add(
      "Address",
      device?["address"]?.text.map { address in
        address + (device?["addressType"]?.text.map { " (\($0))" } ?? "")
      })
    facts.add("Adapter", session["adapter"]?.text)
    facts.add("Mode", session["mode"]?.text)
    facts.add("Started", begins.map { UTCText($0).iso })
    facts.add("Ended", ends.map { UTCText($0).iso })
    if let begins, let ends { facts.add("Lasted", ReportText.seconds(ends &- begins)) }
    facts.add("Ended because", session["endReason"]?.text)
    facts.add("First sample", milliseconds("timeToFirstSampleMs").map { $0 + " after the start" })
    if let ticks = session["ticks"] {
      facts.add("Rate", ticks["rateHz"]?.real.map { "\(NumberText.fixed($0, 4)) Hz by the sensor's clock" })
      let residual = ticks["clock"]?["residualRmsNs"]?.real
      facts.add("Jitter", residual.map { "\(NumberText.fixed($0 / 1e6, 2)) ms RMS" })
    }
    if let thread = session["receiveThread"] { facts.add("Receive thread", Self.words(thread)) }
    return facts
  }

  private var link: ReportSection.Facts {
    var facts = ReportSection.Facts(title: "Link")
    let connection = session["connection"]
    facts.add("Asked for", connection?["asked"].map(Self.parameters))
    facts.add("In force", connection?["inForce"].map(Self.parameters))
    for refusal in connection?["refused"]?.array ?? [] {
      facts.add("Refused", "\(refusal["what"]?.text ?? "?"): \(refusal["why"]?.text ?? "?")")
    }
    facts.add("MTU", connection?["inForce"]?["mtu"]?.integer(Int.self).map { counted($0, "byte") })
    facts.add(
      "Receive buffer",
      connection?["inForce"]?["receiveBufferByteCount"]?.integer(Int.self).map { counted($0, "byte") })
    facts.add("Links", session["links"]?.integer(Int.self).map { "\($0)" })
    facts.add("Recovery", milliseconds("medianRecoveryMs").map { $0 + " (median)" })
    facts.add("ATT requests", session["attRequests"]?["total"]?.integer(Int.self).map { "\($0)" })
    facts.add("Last link's end", connection?["disconnectReason"]?["name"]?.text)
    facts.add("Packet log", packetLog)
    return facts
  }

  private var received: ReportSection.Facts {
    var facts = ReportSection.Facts(title: "Received and lost")
    func add(_ name: String, _ number: JSONDocument?) {
      facts.add(name, number?.integer(Int.self).map { "\($0)" })
    }
    add("Received", session["received"])
    if knowsLosses { facts.rows += ledger.facts }
    add("Repeated", session["repeated"])
    add("Other frames", session["otherFrames"])
    add("Without kernel timestamp", session["withoutKernelStamp"])
    add("Adapter faults", session["adapterFaults"])
    add("Ticks that never came", session["ticks"]?["clock"]?["missingTicks"])
    return facts
  }

  // MARK: Problems

  var problems: [ReportProblem] {
    var problems: [ReportProblem] = []
    if ends == nil {
      problems.append(
        ReportProblem(
          .warning,
          "The recording has no end in session.json: it was interrupted or is still running. The report "
            + "shows the data so far."
        ))
    }
    problems += ledger.problems(lastMalformed: session["lastMalformed"]?.text)
    if let text = PayloadKnowledge(session).text {
      problems.append(ReportProblem(.warning, ReportText.sentence(text)))
    }
    if case .object(let streams)? = session["streams"] {
      for (name, stream) in streams.sorted(by: { $0.key < $1.key }) {
        guard let restarts: Int = stream["restarts"]?.integer(), restarts > 0 else { continue }
        problems.append(Self.problem(restarts: restarts, of: name))
      }
    }
    if let count: Int = session["gapCount"]?.integer(), count > 0 {
      problems.append(
        ReportProblem(.warning, "The link was lost \(counted(count, "time")); see the shaded times.")
      )
    }
    if let count: Int = session["withoutKernelStamp"]?.integer(), count > 0 {
      problems.append(
        ReportProblem(
          .warning,
          "\(counted(count, "sample has", "samples have")) no kernel timestamp, but ringtap's, which is later."
        ))
    }
    if let count: Int = session["adapterFaults"]?.integer(), count > 0 {
      problems.append(
        ReportProblem(
          .warning,
          "\(counted(count, "packet")) of the controller could not be used: notifications may be missing."))
    }
    if let count: Int = session["clockStepCount"]?.integer(), count > 0 {
      problems.append(
        ReportProblem(
          .warning,
          count == 1
            ? "The wall clock was set during the recording: see `clockSteps` in session.json."
            : "The wall clock was set \(counted(count, "time")) during the recording: see `clockSteps` in "
              + "session.json."))
    }
    if let step = session["clockStepMs"]?.real {
      problems.append(
        ReportProblem(
          .warning,
          "The wall clock was set by \(NumberText.fixed(step, 3)) ms during the recording: times before and "
            + "after differ by this."
        ))
    }
    return problems
  }

  /// Returns a warning about restarts of a sensor's counts.
  ///
  /// - Parameter table: name of the table, such as `cycling`.
  static func problem(restarts: Int, of table: String) -> ReportProblem {
    ReportProblem(
      .warning,
      "\(ReportText.title(table)): the sensor's counts restarted or went back "
        + "\(counted(restarts, "time")); there is no rate there.")
  }

  // MARK: Time axis

  /// Number of gaps beyond the limit of the recorded list.
  var unlistedGaps: Int {
    max(0, (session["gapCount"]?.integer() ?? 0) - (session["gaps"]?.array?.count ?? 0))
  }

  /// Marks of the periods without a link, with the cause of each loss.
  var marks: [ReportSection.Mark] {
    (session["gaps"]?.array ?? []).compactMap { gap in
      guard let lost: Int64 = gap["lostAtNs"]?.nanoseconds else { return nil }
      let from: Int64 = gap["lastSampleAtNs"]?.nanoseconds ?? lost
      let to: Int64 = gap["firstSampleAtNs"]?.nanoseconds ?? gap["connectedAtNs"]?.nanoseconds ?? ends ?? lost
      let cause = gap["cause"]?.text ?? "?"
      var text = cause.hasPrefix("the link was lost") ? cause : "link lost: \(cause)"
      if let reason = gap["reason"]?["name"]?.text { text += " (\(reason))" }
      if let attempts: Int = gap["attempts"]?.integer() {
        text += "; \(counted(attempts, "attempt")) to connect"
      }
      return ReportSection.Mark(from: min(from, to), to: max(from, to), kind: .gap, text: text)
    }
  }

  /// Changes of the connection parameters.
  var changes: [(time: Int64, text: String, intervalMilliseconds: Double?)] {
    (session["connection"]?["changes"]?.array ?? []).compactMap { change in
      guard let time: Int64 = change["timeNs"]?.nanoseconds else { return nil }
      return (time, Self.parameters(change), change["intervalMs"]?.real)
    }
  }

  // MARK: Texts

  private func milliseconds(_ key: String) -> String? {
    session[key]?.real.map { "\(NumberText.fixed($0, 1)) ms" }
  }

  private static func parameters(_ document: JSONDocument) -> String {
    let known = [
      ("intervalMs", "interval ", " ms"), ("minimumIntervalMs", "interval from ", " ms"),
      ("maximumIntervalMs", "to ", " ms"), ("latency", "latency ", ""),
      ("supervisionTimeoutMs", "timeout ", " ms"), ("phy", "PHY ", ""), ("transmitPhy", "PHY sent ", ""),
      ("receivePhy", "PHY received ", ""), ("dataLength", "data length ", " bytes"),
      ("transmitDataLength", "data length sent ", " bytes"),
      ("receiveDataLength", "data length received ", " bytes"),
    ]
    let parts = known.compactMap { key, before, after in
      document[key].map { before + word($0) + after }
    }
    let security = LinkSecurity(document).map { [$0.text] } ?? []
    return (parts + security).joined(separator: ", ")
  }

  private static func words(_ document: JSONDocument) -> String {
    guard case .object(let members) = document else { return word(document) }
    return members.sorted { $0.key < $1.key }.map { "\($0.key) \(word($0.value))" }.joined(separator: ", ")
  }

  private static func word(_ document: JSONDocument) -> String {
    switch document {
    case .number(let text): String(text.hasSuffix(".0") ? text.dropLast(2) : text[...])
    case .text(let text): text
    case .flag(let flag): flag ? "yes" : "no"
    case .null, .array, .object: ""
    }
  }
}

extension Ledger {
  /// Number of losses in each queue, and in other places with losses.
  var facts: [(name: String, value: String)] {
    let queues: [SessionReport.Loss.Place] = [.kernelQueue, .sampleQueue, .packetLog, .disk]
    return SessionReport.Loss.Place.allCases.filter { queues.contains($0) || loss[$0] > 0 }.map {
      ($0 == .malformed ? "Malformed" : "Lost: \($0.title)", "\(loss[$0])")
    }
  }

  /// Returns the problems for the losses, with advice for the user.
  func problems(lastMalformed: String?) -> [ReportProblem] {
    SessionReport.Loss.Place.allCases.filter { loss[$0] > 0 }.map { place in
      guard place == .malformed else {
        return ReportProblem(
          .error, "Lost: \(place.title): \(loss[place]). \(place.remedy)", isLoss: true)
      }
      let last = lastMalformed.map { ", the last: \($0)" } ?? ""
      return ReportProblem(
        .warning, "\(counted(loss.malformed, "notification was", "notifications were")) malformed\(last).",
        isLoss: true)
    }
  }

  /// Losses that affect the tables.
  var losses: [ReportSection.Loss] {
    SessionReport.Loss.Place.allCases.compactMap { place in
      place.unit.map { ReportSection.Loss(count: loss[place], unit: $0) }
    }
  }
}

extension SessionReport.Loss.Place {
  fileprivate var title: String {
    switch self {
    case .kernelQueue: "kernel queue"
    case .sampleQueue: "sample queue"
    case .packetLog: "packet log queue"
    case .disk: "disk"
    case .cut: "cut by the log's writer"
    case .missing: "missing by the sensor's clock"
    case .late: "too late to be sorted in"
    case .unplaced: "fit no table"
    case .malformed: "malformed"
    }
  }

  fileprivate var remedy: String {
    switch self {
    case .kernelQueue: "The program was too slow for the kernel; try --realtime."
    case .sampleQueue: "The disk was too slow for the writer."
    case .packetLog: "Packets are missing in the log, not samples in the tables."
    case .disk: "The disk refused them: is it full?"
    case .cut: "The log contains only their first bytes."
    case .missing: "The sensor measured them, but they never came."
    case .late: "Later ones had already arrived."
    case .unplaced: "They belong to another stream at the same time, or their scale is unknown."
    case .malformed: "They were not recorded."
    }
  }

  /// Unit of the lost items; `nil` if the losses do not affect the tables.
  fileprivate var unit: ReportSection.Loss.Unit? {
    switch self {
    case .packetLog: nil
    case .missing: .sample
    case .disk: .row
    default: .notification
    }
  }
}
