import BLEWire

/// Answers the requests of a connected peer: GAP and GATT services, and correct errors for all other
/// requests.
///
/// The program that holds the ATT channel must also act as its server. Reference `att-gatt-conformance.md`,
/// 6.
package struct LocalServer {
  private var server: ATTServer
  private var database: GATTServerDatabase

  package init(receiveMTU: Int) {
    database = GATTServerDatabase(.genericServices(name: "ringtap"))
    server = ATTServer(database: database, receiveMTU: receiveMTU)
  }

  /// Processes a request of the peer.
  ///
  /// - Parameter mtu: ATT_MTU in force on the bearer.
  /// - Returns: The response; empty if none is due.
  package mutating func answer(_ pdu: Span<UInt8>, mtu: Int) -> [UInt8] {
    server.exchangedMTU(peerMTU: UInt16(mtu))
    return [UInt8](encoding: ATT.maximumMTU) {
      server.receive(pdu, database: &database, into: &$0) { _, _ in nil }
    }
  }
}
