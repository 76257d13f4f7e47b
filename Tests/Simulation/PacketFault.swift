package import BLEWire
import Synchronization

/// A fault in packets between host and controller.
package struct PacketFault: Hashable, Sendable {
  package enum Action: Hashable, Sendable {
    case drop
    case duplicate
    /// Holds this packet, and all packets that follow it, for this time.
    case delay(Duration)
    /// Lets the next packet overtake this one. If no packet follows, this one is sent after 100 ms.
    case reorder
    /// Inverts the byte at this offset, counted from the H4 type byte; in a shorter packet, the last byte.
    case corrupt(octet: Int)
    /// Truncates the packet to this number of bytes.
    case truncate(to: Int)
    /// Ends the transport instead of passing the packet on.
    case end
  }

  /// Selects packets.
  package enum Selector: Hashable, Sendable {
    case any
    case command(HCIOpcode)
    /// Command Complete or Command Status of this command.
    case answer(HCIOpcode)
    case event(HCIEventCode)
    case leEvent(LESubevent)
    case acl
    /// An ATT PDU that is complete in its packet, or starts there.
    case att(ATTOpcode)
  }

  package var direction: HCIDirection
  package var selector: Selector
  package var action: Action
  /// Number of matching packets that pass before the first fault.
  package var skip: Int
  /// Number of packets to affect; `nil` for all further ones.
  package var count: Int?

  package init(
    _ action: Action, _ selector: Selector = .any, from direction: HCIDirection, skip: Int = 0,
    count: Int? = 1
  ) {
    self.action = action
    self.selector = selector
    self.direction = direction
    self.skip = skip
    self.count = count
  }
}

extension PacketFault.Selector {
  /// - Parameter packet: with its H4 type byte.
  func matches(_ packet: Span<UInt8>) -> Bool {
    guard packet.count > 3 else { return self == .any }
    let type = HCIPacketType(rawValue: packet[0])
    switch (self, HCIPacketRole(packet)) {
    case (.any, _): return true
    case (.command(let opcode), let role): return role == .command(opcode)
    case (.answer(let opcode), let role): return role == .answer(opcode)
    case (.event(let code), _): return type == .event && packet[1] == code.rawValue
    case (.leEvent(let subevent), _):
      return type == .event && packet[1] == HCIEventCode.leMeta.rawValue && packet[3] == subevent.rawValue
    case (.acl, _): return type == .acl
    case (.att(let opcode), .att(_, let found)): return opcode == found
    case (.att, _): return false
    }
  }
}

/// Faults to apply, and the number applied so far. May be changed on any thread.
package final class FaultPlan: Sendable {
  private struct State: Sendable {
    var faults: [PacketFault] = []
    var hits = 0
  }

  private let state = Mutex(State())
  /// Called with each affected packet before the fault is applied, and with `end` for each packet that is
  /// still held when the transport ends.
  private let observer: (@Sendable (PacketFault.Action, Span<UInt8>, HCIDirection) -> Void)?

  /// - Parameter observer: called with each affected packet.
  package init(observer: @escaping @Sendable (PacketFault.Action, Span<UInt8>, HCIDirection) -> Void) {
    self.observer = observer
  }

  func tell(_ action: PacketFault.Action, _ packet: Span<UInt8>, from direction: HCIDirection) {
    observer?(action, packet, direction)
  }

  package init(_ faults: [PacketFault] = []) {
    observer = nil
    state.withLock { $0.faults = faults }
  }

  package func add(_ fault: PacketFault) { state.withLock { $0.faults.append(fault) } }

  package func clear() { state.withLock { $0.faults = [] } }

  /// Number of packets affected.
  package var hits: Int { state.withLock { $0.hits } }

  /// Returns the action for this packet, from the first fault that matches.
  func action(for packet: Span<UInt8>, from direction: HCIDirection) -> PacketFault.Action? {
    state.withLock { state in
      for index in state.faults.indices {
        let fault = state.faults[index]
        guard fault.direction == direction, fault.count ?? 1 > 0, fault.selector.matches(packet) else {
          continue
        }
        if fault.skip > 0 {
          state.faults[index].skip -= 1
          continue
        }
        state.faults[index].count = fault.count.map { $0 - 1 }
        state.hits += 1
        return fault.action
      }
      return nil
    }
  }
}
