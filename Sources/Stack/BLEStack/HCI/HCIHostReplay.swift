package import BLEWire

/// Methods that replay the commands and frames of a recorded host.
extension HCIHost {
  /// Queues a recorded command.
  ///
  /// - Parameter packet: the packet without its H4 type byte.
  /// - Returns: `false` if the packet is not a command, the host is not ready, or the command queue is full.
  package mutating func submit(recorded packet: Span<UInt8>) -> Bool {
    guard state == .ready, let command = try? HCICommandPacket(validating: packet) else { return false }
    switch command.opcode {
    case .leCreateConnection, .leExtendedCreateConnection: isConnecting = true
    case .leSetExtendedScanEnable: assembler.reset()
    default: break
    }
    return submit(command.opcode) { $0.append(command.parameters) } != nil
  }

  /// Queues a recorded frame on any channel of a link.
  ///
  /// - Returns: `false` if the link has ended or its queue is full.
  package mutating func send(
    recorded payload: Span<UInt8>, on channelID: UInt16, of handle: ConnectionHandle
  ) -> Bool {
    acl.append(payload, channelID: channelID, to: handle)
  }

  package func isUp(_ handle: ConnectionHandle) -> Bool { links[handle] != nil }
  package var isReady: Bool { state == .ready }
}
