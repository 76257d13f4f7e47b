import BLEEmulation
import BLEHost
import BLEStack
import BLEWire

/// Places in which the faults of a scene occur.
enum FaultKind: CaseIterable {
  /// Only in the virtual air. After such faults everything continues.
  case air
  /// Also in the controller. After some of these faults a host can only reset it.
  case controller
  /// Also between host and controller: packets are lost, duplicated, late, swapped or damaged.
  case packets

  static func random(_ random: inout SimulationRandom) -> FaultKind {
    random.pick([.air, .air, .air, .controller, .packets])
  }
}

/// A fault.
enum RandomFault {
  case air(AirFault)
  case controller(ControllerFault)
  case packet(PacketFault)

  /// Name for counting.
  var name: String {
    switch self {
    case .air(let fault):
      switch fault {
      case .packetErrorRate: "packetErrorRate"
      case .burst: "burst"
      case .mute: "mute"
      case .deafen: "deafen"
      case .outOfRange: "outOfRange"
      case .inRange: "inRange"
      case .disconnect: "disconnect"
      }
    case .controller(let fault):
      switch fault {
      case .refuse: "refuse"
      case .silence: "silence"
      case .silenceUntilReset: "silenceUntilReset"
      case .hardwareError: "hardwareError"
      case .restart: "restart"
      case .withholdCompletedPackets: "withholdCompletedPackets"
      case .overlookAcceptList: "overlookAcceptList"
      case .goOnWithConnects: "goOnWithConnects"
      case .wrongOpcode: "wrongOpcode"
      case .staleHandle: "staleHandle"
      case .duplicateEvents: "duplicateEvents"
      case .delayAnswers: "delayAnswers"
      case .failEncryption: "failEncryption"
      case .endEncryption: "endEncryption"
      }
    case .packet(let fault):
      switch fault.action {
      case .drop: "packetDrop"
      case .duplicate: "packetDuplicate"
      case .delay: "packetDelay"
      case .reorder: "packetReorder"
      case .corrupt: "packetCorrupt"
      case .truncate: "packetTruncate"
      case .end: "transportEnd"
      }
    }
  }

  static func random(
    _ kind: FaultKind, rings: [DeviceAddress], _ random: inout SimulationRandom
  ) -> RandomFault {
    switch kind {
    case .controller where random.happens(0.4): .controller(controllerFault(&random))
    case .packets where random.happens(0.4): .packet(packetFault(&random))
    default: .air(airFault(rings, &random))
    }
  }

  private static func airFault(_ rings: [DeviceAddress], _ random: inout SimulationRandom) -> AirFault {
    let ring = random.pick(rings)
    switch random.integer(0...13) {
    case 0, 1: return .packetErrorRate(Double(random.integer(0...60)) / 100)
    case 2: return .packetErrorRate(random.happens(0.2) ? 1 : 0)
    case 3, 4: return .burst(packets: random.integer(1...200))
    case 5: return .mute(ring)
    case 6: return .deafen(ring)
    case 7: return .outOfRange(ring)
    // Each as often as the fault that it ends.
    case 8, 9, 10, 11: return .inRange(ring)
    // Remote User Terminated, Power Off, and a silent loss.
    default: return .disconnect(ring, HCIStatus(rawValue: random.pick([0x13, 0x15, 0x08])))
    }
  }

  private static func controllerFault(_ random: inout SimulationRandom) -> ControllerFault {
    switch random.integer(0...15) {
    case 0, 1, 2:
      let opcode = random.pick([
        HCIOpcode.leCreateConnection, .leExtendedCreateConnection, .leCreateConnectionCancel, .disconnect,
        .leSetScanParameters, .leSetScanEnable, .leSetExtendedScanParameters, .leSetExtendedScanEnable,
        .leConnectionUpdate, .leSetPHY, .leSetDataLength, .readRSSI, .leReadRemoteFeatures,
      ])
      return .refuse(
        opcode, HCIStatus(rawValue: random.pick([0x02, 0x07, 0x09, 0x0B, 0x0C, 0x1F])),
        times: random.integer(1...3))
    case 3, 4, 5: return .staleHandle(times: random.integer(1...20))
    case 6, 7, 8: return .duplicateEvents(times: random.integer(1...10))
    case 9, 10, 11, 12:
      return .delayAnswers(random.milliseconds(1...1900), times: random.integer(1...10))
    case 13: return .withholdCompletedPackets
    case 14: return .wrongOpcode(times: random.integer(1...2))
    default: return random.happens(0.5) ? .silence : .hardwareError(UInt8(random.integer(0...255)))
    }
  }

  private static func packetFault(_ random: inout SimulationRandom) -> PacketFault {
    let action: PacketFault.Action =
      switch random.integer(0...18) {
      case 0, 1, 2: .drop
      case 3, 4, 5: .duplicate
      case 6, 7, 8, 9: .delay(random.milliseconds(1...3000))
      case 10, 11: .reorder
      case 12, 13, 14: .corrupt(octet: random.integer(0...31))
      case 15, 16, 17: .truncate(to: random.integer(0...24))
      default: .end
      }
    let selector: PacketFault.Selector =
      switch random.integer(0...9) {
      case 0: .any
      case 1, 2: .acl
      case 3: .att(.handleValueNotification)
      case 4: .att(random.pick([.writeResponse, .readResponse, .readByTypeResponse, .errorResponse]))
      case 5: .att(random.pick([.writeRequest, .readRequest, .readByTypeRequest, .exchangeMTURequest]))
      case 6: .event(random.pick([.numberOfCompletedPackets, .disconnectionComplete]))
      case 7:
        .leEvent(random.pick([.connectionComplete, .enhancedConnectionComplete, .connectionUpdateComplete]))
      case 8: .answer(random.pick([.leCreateConnection, .disconnect, .leSetScanEnable, .leConnectionUpdate]))
      default: .command(random.pick([.leCreateConnection, .disconnect, .leCreateConnectionCancel]))
      }
    return PacketFault(
      action, selector, from: random.happens(0.75) ? .controllerToHost : .hostToController,
      skip: random.integer(0...20), count: random.integer(1...4))
  }
}
