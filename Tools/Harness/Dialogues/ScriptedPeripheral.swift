package import BLEEmulation
import BLELinux
package import BLEStack
package import BLEWire
import Synchronization

/// A device that plays dialogues and records their outcomes. The end of a link ends the dialogue, unless the
/// dialogue itself ended the link.
package final class ScriptedPeripheral: VirtualPeripheral {
  package static let defaultAddress = DeviceAddress(bits: 0x70CB_0D00_5C01, type: .public)

  private let address: DeviceAddress
  private let session: DialogueSession
  private var isLinked = false

  /// Creates a device.
  ///
  /// - Parameters:
  ///   - session: may be shared by consecutive peripherals.
  ///   - address: the advertised address.
  package init(_ session: DialogueSession, address: DeviceAddress = defaultAddress) {
    self.session = session
    self.address = address
  }

  /// Connectable while dialogues remain.
  package var advertisement: Advertisement? {
    guard !session.isOver else { return nil }
    let name = Array("script".utf8)
    return Advertisement(
      address: address, interval: .milliseconds(20),
      data: [0x02, 0x01, 0x06, UInt8(name.count + 1), 0x09] + name)
  }

  /// Empty, because the dialogue answers everything.
  package var services: [GATTServiceDescription] { [] }

  package func connected(_ link: PeripheralLink, now: MonotonicTime) {
    isLinked = true
    link.answerATT { [session, unowned link] pdu in
      Self.say(session.receive(pdu), link)
      return []
    }
    Self.say(session.begin(), link)
  }

  private static func say(_ answers: [DialoguePlayer.Said], _ link: PeripheralLink) {
    for said in answers {
      if said.layer == .leave {
        link.disconnect(HCIStatus(rawValue: 0x13))
      } else {
        link.sendATT(said.octets.span)
      }
    }
  }

  package func disconnected(now: MonotonicTime) {
    if session.isAway { isLinked = false } else { end() }
  }

  /// Call once for each link, after it has ended.
  package func end() {
    if isLinked { session.end() }
    isLinked = false
  }
}

/// Dialogues that are played one after another.
package final class DialogueSession: Sendable {
  /// The outcome of a dialogue.
  package struct Outcome: Hashable, Sendable {
    package let name: String
    package let test: String
    /// `nil` if the client performed all required steps.
    package let mismatch: DialoguePlayer.Mismatch?
  }

  private struct State: Sendable {
    var waiting: [ATTDialogue]
    var player: DialoguePlayer?
    var outcomes: [Outcome] = []

    var isOver: Bool { waiting.isEmpty && player == nil }

    mutating func open() {
      if player == nil { player = waiting.popLast().map { DialoguePlayer($0) } }
    }
  }

  private let state: Mutex<State>
  private let finished = OneShot<Void>()
  private let ended: @Sendable (Outcome) -> Void

  /// Creates a session.
  ///
  /// - Parameters:
  ///   - dialogues: played one after another.
  ///   - ended: called on the thread of the peripheral; must not block.
  package init(_ dialogues: [ATTDialogue], ended: @escaping @Sendable (Outcome) -> Void = { _ in }) {
    state = Mutex(State(waiting: dialogues.reversed()))
    self.ended = ended
    if dialogues.isEmpty { finished.set(()) }
  }

  package var outcomes: [Outcome] { state.withLock(\.outcomes) }

  /// Maximum number of links that a remaining dialogue uses.
  package var linkLimit: Int {
    state.withLock { state in
      state.waiting.reduce(state.player?.dialogue.linkCount ?? 1) { max($0, $1.linkCount) }
    }
  }

  /// Whether all dialogues have been played.
  package var isOver: Bool { state.withLock(\.isOver) }

  /// Waits until all dialogues have been played.
  package func over() async { await finished.value() }

  /// The host's role in the current or next dialogue; `nil` if any device can play it.
  package var role: ATTDialogue.Role? { dialogue?.role }

  /// The current or next dialogue.
  var dialogue: ATTDialogue? { state.withLock { $0.player?.dialogue ?? $0.waiting.last } }

  /// Whether the client has performed this dialogue's required steps, or has already differed from them.
  package var isSettled: Bool {
    state.withLock { state in
      state.player.map { $0.isComplete || $0.mismatch != nil } ?? state.waiting.isEmpty
    }
  }

  func begin() -> [DialoguePlayer.Said] {
    state.withLock { state in
      state.open()
      return state.player?.begin() ?? []
    }
  }

  func receive(
    _ pdu: Span<UInt8>, _ layer: ATTDialogue.Layer = .attribute, on link: UInt16 = ATTDialogue.firstLink
  ) -> [DialoguePlayer.Said] {
    state.withLock { state in
      if layer != .attribute { state.open() }
      return state.player?.receive(pdu, layer, on: link) ?? []
    }
  }

  /// Ends the current or next dialogue without waiting for its links to end.
  package func finish() {
    state.withLock { $0.open() }
    end()
  }

  /// Whether the device has ended the link and the dialogue continues on the next one.
  var isAway: Bool { state.withLock { $0.player?.isAway ?? false } }

  func end() {
    let outcome: Outcome? = state.withLock { state in
      guard var player = state.player.take() else { return nil }
      player.end()
      let outcome = Outcome(
        name: player.dialogue.name, test: player.dialogue.test, mismatch: player.mismatch)
      state.outcomes.append(outcome)
      return outcome
    }
    guard let outcome else { return }
    ended(outcome)
    if isOver { finished.set(()) }
  }
}
