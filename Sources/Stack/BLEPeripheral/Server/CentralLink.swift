package import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// Attributes that are not in a server's database: what answers centrals in its place. Called on the event loop's thread only.
package protocol AttributeDevice: AnyObject {
  /// A central came; what is given answers what it asks.
  func connected(_ connection: Connection) -> AttributeResponder.Answer
  func secured(_ change: LinkSecurityChange)
  func disconnected(_ connection: Connection)
}

/// What a server keeps of one link. Touched on the event loop's thread only.
final class CentralLink {
  let central: Central
  let connection: Connection
  var server: ATTServer
  /// Of a central that is bonded, once it has shown its key.
  var identity: DeviceAddress?
  /// Pushes go out one after the other, in the order in which they were asked for.
  let pushes = Turns()
  /// One indication at a time. Core 5.4, Vol 3, Part F, 3.3.2.
  let indications = Turns()
  /// A confirmation came, or the link ended.
  let news = Waiters()
  private(set) var isOver = false
  var isUnconfirmed = false
  /// Ends the link where an indication is not confirmed in time.
  var patience: Task<Void, Never>?

  init(_ central: Central, _ connection: Connection, _ server: ATTServer) {
    self.central = central
    self.connection = connection
    self.server = server
  }

  /// What the central did wrong: here, and below where its PDUs are taken apart.
  var faults: Int {
    server.faults
      + connection.assumeIsolated {
        let statistics = $0.statistics
        return statistics.malformed + statistics.strayResponses
      }
  }

  /// The central has sent something.
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

  /// What the central wants of a characteristic.
  func pushes(of handle: AttributeHandle, _ database: borrowing GATTServerDatabase) -> Set<ServerPush> {
    var wanted: Set<ServerPush> = []
    for push in [ServerPush.notification, .indication]
    where server.isSubscribed(to: handle, push, in: database) { wanted.insert(push) }
    return wanted
  }
}
