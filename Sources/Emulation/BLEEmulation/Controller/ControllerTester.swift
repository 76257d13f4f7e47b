package import BLEWire

/// Plays the peers behind a virtual controller in place of its air, and edits the packets that it sends to its host.
package protocol ControllerTester: AnyObject {
  /// Takes a command of the host, H4 type first, which the controller executes too.
  func hear(command packet: Span<UInt8>)
  /// Takes a data packet of the host for the link.
  ///
  /// - Returns: `false` if the link does not exist.
  func accept(_ packet: borrowing ACLPacket) -> Bool
  /// The packets to send to the host instead of this one, H4 type first.
  func edit(_ packet: [UInt8]) -> [[UInt8]]
  /// Called before the controller's packets are drained.
  func work(for controller: VirtualController)
}

/// What a tester does with a controller.
extension VirtualController {
  package var linkCount: Int { links.count }
  /// Address of the host's advertisement; `nil` if it does not advertise.
  package var hostAddress: DeviceAddress? { advertisement?.address }

  /// Sends a packet to the host, H4 type first.
  package func put(_ packet: [UInt8]) {
    outbox.append(HCIPacketType(rawValue: packet[0]), capacity: packet.count - 1) {
      $0.append(packet.span.extracting(1...))
    }
  }

  /// Makes the peers of these links disconnect.
  package func disconnectPeers(where isChosen: (ConnectionHandle) -> Bool = { _ in true }) {
    for end in links where isChosen(end.handle) {
      if let other = end.other { end.link?.terminate(from: other, .remoteUserTerminated) }
    }
  }

  /// Connects to a host that advertises in the same air, without a host of its own.
  package func connect(to address: DeviceAddress) {
    outbox.removeAll()
    state.initiation = Initiation(
      peer: address, ownAddress: configuration.address,
      parameters: LinkParameters(interval: 24, latency: 0, supervisionTimeout: 400),
      window: ListeningWindow())
    air.resumeAdvertising()
  }
}
