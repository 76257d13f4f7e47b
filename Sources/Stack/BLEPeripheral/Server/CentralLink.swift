package import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// The owner of attributes outside a server's database. Answers the requests of centrals. Called only on the
/// event loop's thread.
package protocol AttributeDevice: AnyObject {
  /// Called when a central has connected. Returns the closure that answers the central's requests.
  func connected(_ connection: Connection) -> AttributeResponder.Answer
  func secured(_ change: LinkSecurityChange)
  func disconnected(_ connection: Connection)
}

/// A server's state for one link. Used only on the loop's thread.
final class CentralLink {
  let central: Central
  let connection: Connection
  var server: ATTServer
  /// Identity of a bonded central. Set after the central has encrypted the link with its key.
  var identity: DeviceAddress?
  /// Serialises notifications and indications: they are sent one at a time, in the order of the calls.
  let pushes = Turns()
  /// Serialises indications, because only one may be outstanding. Core 5.4, Vol 3, Part F, 3.3.2.
  let indications = Turns()
  /// Tasks that wait for a confirmation or the end of the link.
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

  /// Number of protocol violations by the central, counted by the server and by the connection.
  var faults: Int {
    server.faults
      + connection.assumeIsolated {
        let statistics = $0.statistics
        return statistics.malformed + statistics.strayResponses
      }
  }

  /// Wakes the tasks that wait for a confirmation if it has arrived. Call this after each PDU from the
  /// central.
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
