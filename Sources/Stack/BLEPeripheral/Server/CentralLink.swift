package import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// The owner of attributes outside a server's database; it answers the requests of centrals. Called only on
/// the event loop's thread.
package protocol AttributeDevice: AnyObject {
  /// Called when a central has connected; returns the closure that answers its requests.
  func connected(_ connection: Connection) -> AttributeResponder.Answer
  func secured(_ change: LinkSecurityChange)
  func disconnected(_ connection: Connection)
}

/// A server's state for one link. On the event loop's thread only.
final class CentralLink {
  let central: Central
  let connection: Connection
  var server: ATTServer
  /// Identity of a bonded central, set once it has encrypted the link with its key.
  var identity: DeviceAddress?
  /// Serialises notifications and indications: they are sent one at a time, in the order of the calls.
  let pushes = Turns()
  /// Serialises indications: only one may be outstanding. Core 5.4, Vol 3, Part F, 3.3.2.
  let indications = Turns()
  /// Woken when a confirmation arrives or the link ends.
  let news = Waiters()
  private(set) var isOver = false
  var isUnconfirmed = false
  /// Ends the link if an indication is not confirmed in time.
  var patience: Task<Void, Never>?

  init(_ central: Central, _ connection: Connection, _ server: ATTServer) {
    self.central = central
    self.connection = connection
    self.server = server
  }

  /// Number of protocol violations by the central, in the server and in the connection below it.
  var faults: Int {
    server.faults
      + connection.assumeIsolated {
        let statistics = $0.statistics
        return statistics.malformed + statistics.strayResponses
      }
  }

  /// Call this after each PDU from the central, which may have been a confirmation.
  func heard() {
    guard let patience, !server.awaitsConfirmation else { return }
    patience.cancel()
    self.patience = nil
    news.wakeAll()
  }

  func finish() {
    isOver = true
    patience?.cancel()
    news.wakeAll()
  }

  /// Returns the central's subscriptions to a characteristic.
  func pushes(of handle: AttributeHandle, _ database: borrowing GATTServerDatabase) -> Set<ServerPush> {
    var wanted: Set<ServerPush> = []
    for push in [ServerPush.notification, .indication]
    where server.isSubscribed(to: handle, push, in: database) { wanted.insert(push) }
    return wanted
  }
}
