import BLEHost
import BLELinux
import BLEWire
import CommandKit
import RingTap

/// Opens a radio of a daemon. Between attempts, recovers an adapter that does not respond, and switches on an
/// adapter that came back powered down.
///
/// An exclusively used adapter is recovered before it is opened, because recovery is impossible while it is
/// open.
struct RadioOpener {
  /// Pause after a failed recovery. The pause doubles each time.
  private static let pauses = Duration.seconds(60)...Duration.seconds(600)

  private let choice: RadioChoice
  /// The reason why the radio is not open.
  private(set) var problem: String?
  private var told = ""
  /// Whether the adapter was missing or has not been searched for yet, so that it may be switched on.
  private var wasAway = true
  private var pause = pauses.lowerBound
  private var notBefore: MonotonicTime?

  init(_ choice: RadioChoice) { self.choice = choice }

  /// Records that the radio was lost.
  mutating func noteLoss() { wasAway = true }

  /// Opens the radio.
  ///
  /// - Returns: `nil` if it cannot be opened now; `problem` then has the reason.
  mutating func next() async -> Radio? {
    do { return opened(try await choice.open()) } catch {
      let cause = (error as? Failure)?.cause
      if let cause, let radio = await help(cause) { return opened(radio) }
      tell((error as? Failure)?.message ?? "\(error)")
      return nil
    }
  }

  private mutating func opened(_ radio: Radio) -> Radio {
    (problem, told, wasAway, notBefore, pause) = (nil, "", false, nil, Self.pauses.lowerBound)
    return radio
  }

  private mutating func tell(_ text: String) {
    problem = text
    if text != told, !Task.isCancelled { Console.note("\(text); retrying every 5 s") }
    told = text
  }

  private mutating func help(_ cause: HostError) async -> Radio? {
    switch cause {
    case .noAdapter: wasAway = true
    case .adapterDown: return await switchOn()
    case _ where cause.isOfSilentController: return await recover()
    default: break
    }
    return nil
  }

  /// The adapter named in the file; `nil` if the file names no adapter, or the adapter is missing.
  private var named: AdapterInfo? {
    guard let name = choice.adapter.flatMap({ AdapterName($0) }), let all = try? KernelAdapter.all() else {
      return nil
    }
    return try? name.find(among: all)
  }

  /// Switches the adapter on once, after it was absent or at the start. An adapter that the user switches off
  /// later stays off.
  private mutating func switchOn() async -> Radio? {
    guard wasAway, let info = named else { return nil }
    wasAway = false
    do throws(HostError) { try await AdapterRecovery.switchOn(info) } catch {
      Console.note("\(info.name) is switched off and cannot be switched on: \(error)")
      return nil
    }
    Console.note("\(info.name) was switched off; switched it on")
    return try? await choice.open()
  }

  private mutating func recover() async -> Radio? {
    guard choice.mode == .exclusive, choice.transport == nil, let info = named ?? Self.alone else {
      return nil
    }
    let now = SystemClock.monotonic()
    if let notBefore, now < notBefore { return nil }
    let isRepeated = notBefore != nil
    if !isRepeated { Console.note("\(info.name) (\(info.address)) does not answer commands; recovering it") }
    var radio: Radio?
    let recovery = AdapterRecovery(of: info, for: .exclusive)
    _ = await recovery.climb(from: .powerCycle) { attempt in
      if !isRepeated || attempt.outcome == .answers { Console.note("\(info.name): \(attempt)") }
    } _: { [choice] in
      radio = try? await choice.open()
      return radio != nil
    }
    if radio == nil, !Task.isCancelled {
      if !isRepeated {
        Console.note(
          "\(info.name) could not be recovered: unplug it and plug it in again, or restart the machine; "
            + "trying again in \(pause.components.seconds) s, and less often later")
      }
      notBefore = SystemClock.monotonic().advanced(by: pause)
      pause = min(pause * 2, Self.pauses.upperBound)
    }
    return radio
  }

  /// The only adapter; `nil` if there are none or several.
  private static var alone: AdapterInfo? {
    guard let all = try? KernelAdapter.all(), all.count == 1 else { return nil }
    return all.first
  }
}
