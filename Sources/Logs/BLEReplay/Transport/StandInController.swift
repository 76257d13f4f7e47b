import BLEStack
package import BLEWire

/// Answers the commands of ringtap's host if the log contains a link but no commands.
///
/// The stand-in lets the host start up, reports the advertisers in the log, and creates the link that is
/// played.
package struct StandInController {
  /// Effect of a command.
  package enum Effect {
    /// Deliver these events.
    case events([[UInt8]])
    /// Deliver these events, then the advertising reports of the log, if any.
    case scan([[UInt8]])
    /// Deliver these events, then play the link.
    case connect([[UInt8]])
    /// Nothing to deliver, because the host connects to a peer that is not in the log.
    case stranger(DeviceAddress)
  }

  /// An address from the documentation range (RFC 7042, 2.1.2), because the log does not contain the
  /// adapter's address.
  static let documentationAddress = DeviceAddress(bits: 0x0000_5E00_5301, type: .public)

  let peer: DeviceAddress?
  let handle: ConnectionHandle
  var address = Self.documentationAddress
  /// Parameters of the controller's buffers: large enough for complete frames, and practically unlimited in
  /// number.
  package var buffers: [UInt8] = [0xFF, 0xFF, 0xFF]
  private var isUp = true

  package init(peer: DeviceAddress?, handle: ConnectionHandle) {
    self.peer = peer
    self.handle = handle
  }

  package mutating func answer(_ octets: [UInt8]) -> Effect {
    guard case .command(let opcode) = ReplayRole(octets) else { return .events([]) }
    switch opcode {
    case .leSetScanEnable where octets.count > 4 && octets[4] == 1: return .scan([Self.complete(opcode)])
    case .leCreateConnection:
      // The parameters are interval and window, filter policy, address type and address of the peer. Core
      // 5.4, Vol 4, Part E, 7.8.12.
      if octets.count >= 16, octets[8] == 0, let peer {
        let wanted = octets.span.address(at: 10, type: octets[9] & 1 == 0 ? .public : .random)
        guard wanted.bits == peer.bits else { return .stranger(wanted) }
      }
      return .connect([Self.status(opcode)])
    case .disconnect:
      guard isUp else { return .events([Self.status(opcode, .unknownConnection)]) }
      isUp = false
      return .events(Self.farewell(octets) ?? [])
    default:
      return .events([
        returned(opcode).map { Self.complete(opcode, $0) } ?? Self.status(opcode, .unknownCommand)
      ])
    }
  }

  /// Returns the return parameters after the status in a Command Complete; `nil` for an unknown command.
  private func returned(_ opcode: HCIOpcode) -> [UInt8]? {
    switch opcode {
    case .reset, .setEventMask, .leSetEventMask, .leSetRandomAddress, .leSetScanParameters, .leSetScanEnable,
      .leCreateConnectionCancel, .leClearFilterAcceptList, .leAddDeviceToFilterAcceptList:
      []
    case .readLocalVersion: [UInt8](repeating: 0, count: 8)
    // No command is supported, so the host uses the legacy commands.
    case .readLocalSupportedCommands: [UInt8](repeating: 0, count: 64)
    // The controller supports LE, but not BR/EDR. Core 5.4, Vol 2, Part C, 3.3.
    case .readLocalSupportedFeatures: [0, 0, 0, 0, 0x60, 0, 0, 0]
    case .readBDADDR: (0..<6).map { address.octet($0) }
    case .leReadLocalSupportedFeatures: [UInt8](repeating: 0, count: 8)
    case .leReadBufferSize: buffers
    default: nil
    }
  }

  /// Reports one data packet as sent. Core 5.4, Vol 4, Part E, 7.7.19.
  package var completion: [UInt8] {
    [
      HCIPacketType.event.rawValue, HCIEventCode.numberOfCompletedPackets.rawValue, 5, 1,
      UInt8(truncatingIfNeeded: handle.rawValue), UInt8(handle.rawValue >> 8), 1, 0,
    ]
  }

  /// Returns the events that any controller sends when a host ends a scan or a link; `nil` for any other
  /// command.
  static func farewell(_ octets: [UInt8]) -> [[UInt8]]? {
    guard case .command(let opcode) = ReplayRole(octets) else { return nil }
    switch opcode {
    case .leSetScanEnable, .leSetExtendedScanEnable, .leCreateConnectionCancel: return [complete(opcode)]
    case .disconnect where octets.count > 5:
      let event: [UInt8] = [
        HCIPacketType.event.rawValue, HCIEventCode.disconnectionComplete.rawValue, 4, 0, octets[4], octets[5],
        HCIStatus.localHostTerminated.rawValue,
      ]
      return [status(opcode), event]
    default: return nil
    }
  }

  /// Makes a Command Complete that allows one more command. Core 5.4, Vol 4, Part E, 7.7.14.
  static func complete(_ opcode: HCIOpcode, _ returned: [UInt8] = []) -> [UInt8] {
    [
      HCIPacketType.event.rawValue, HCIEventCode.commandComplete.rawValue, UInt8(4 + returned.count), 1,
      UInt8(truncatingIfNeeded: opcode.rawValue), UInt8(opcode.rawValue >> 8), 0,
    ] + returned
  }

  /// Makes a Command Status. Core 5.4, Vol 4, Part E, 7.7.15.
  static func status(_ opcode: HCIOpcode, _ status: HCIStatus = .success) -> [UInt8] {
    [
      HCIPacketType.event.rawValue, HCIEventCode.commandStatus.rawValue, 4, status.rawValue, 1,
      UInt8(truncatingIfNeeded: opcode.rawValue), UInt8(opcode.rawValue >> 8),
    ]
  }
}
