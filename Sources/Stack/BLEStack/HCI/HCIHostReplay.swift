package import BLEWire

/// What a replay has a host say because the recorded one said it.
extension HCIHost {
  /// Queues a command of a log.
  ///
  /// - Parameter packet: without its H4 type octet.
  /// - Returns: `false` for a packet that is none, where the host is not ready, or far too many commands wait.
  package mutating func submit(recorded packet: Span<UInt8>) -> Bool {
    guard state == .ready, let command = try? HCICommandPacket(validating: packet) else { return false }
    switch command.opcode {
    case .leCreateConnection, .leExtendedCreateConnection: isConnecting = true
    case .leSetExtendedScanEnable: assembler.reset()
    default: break
    }
    return submit(command.opcode) { $0.append(command.parameters) } != nil
  }

  /// Queues a frame of a log on any channel of a link.
  ///
  /// - Returns: `false` where the link is gone, or far too much waits for the controller.
  package mutating func send(
    recorded payload: Span<UInt8>, on channelID: UInt16, of handle: ConnectionHandle
  ) -> Bool {
    acl.append(payload, channelID: channelID, to: handle)
  }

  package func isUp(_ handle: ConnectionHandle) -> Bool { links[handle] != nil }
  package var isReady: Bool { state == .ready }
}
