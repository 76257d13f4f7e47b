import BLEStack
import BLEWire

/// A raw channel's callbacks for the link of one bearer. The closures are isolated to the channel's actor.
/// The bearer calls them on the thread of the actor's event loop.
final class LinkWatch {
  /// Subscribes to a link: reports its current state, then each change.
  let begin: (ConnectionHandle, @escaping (LinkChange) -> Void) -> Void
  /// Returns the reason why the link ended, or `nil` if it is up. First processes the channel's queued
  /// packets, because the kernel queues an event on the channel before it acts on the event.
  let reason: (ConnectionHandle) -> HCIStatus?
  let end: (ConnectionHandle) -> Void

  init(
    begin: @escaping (ConnectionHandle, @escaping (LinkChange) -> Void) -> Void,
    reason: @escaping (ConnectionHandle) -> HCIStatus?, end: @escaping (ConnectionHandle) -> Void
  ) {
    self.begin = begin
    self.reason = reason
    self.end = end
  }
}

/// State of an adapter's links, collected from its events.
struct LinkTable {
  /// Maximum number of changes to keep per link: the first and the latest changes.
  private static let changeLimit = 64

  private struct Link {
    /// Changes since the link came up, for a caller that connects to an existing link.
    var changes: [LinkChange] = []
    var observer: ((LinkChange) -> Void)?
    var reason: HCIStatus?
    var facts = LinkFacts()
  }

  private var links: [ConnectionHandle: Link] = [:]

  /// Processes an event of a link; ignores other events.
  mutating func take(_ event: borrowing HCIEventPacket, at time: ReceiveTime) throws(WireError) {
    if event.code == .disconnectionComplete {
      let end = try DisconnectionComplete(validating: event.parameters)
      guard end.status == .success else { return }
      if links[end.handle]?.observer == nil {
        links[end.handle] = nil
      } else {
        links[end.handle]?.reason = end.reason
      }
      return
    }
    if event.code == .readRemoteVersionComplete {
      let answer = try ReadRemoteVersionComplete(validating: event.parameters)
      if answer.status == .success { links[answer.handle]?.facts.version = answer.version }
      return
    }
    guard event.code == .leMeta, !event.parameters.isEmpty else { return }
    switch LESubevent(rawValue: event.parameters[0]) {
    case .connectionComplete, .enhancedConnectionComplete:
      let complete = try LEConnectionComplete(validating: event.parameters)
      guard complete.status == .success else { return }
      links[complete.handle] = Link()
      note(complete.handle, .timing(complete.parameters), time)
    case .connectionUpdateComplete:
      let update = try LEConnectionUpdateComplete(validating: event.parameters)
      if update.status == .success { note(update.handle, .timing(update.parameters), time) }
    case .dataLengthChange:
      let change = try LEDataLengthChange(validating: event.parameters)
      note(
        change.handle, .dataLength(transmit: change.transmitOctets, receive: change.receiveOctets), time)
    case .phyUpdateComplete:
      let update = try LEPHYUpdateComplete(validating: event.parameters)
      if update.status == .success {
        note(update.handle, .phy(transmit: update.transmit, receive: update.receive), time)
      }
    case .readRemoteFeaturesComplete:
      let answer = try LEReadRemoteFeaturesComplete(validating: event.parameters)
      if answer.status == .success { links[answer.handle]?.facts.features = answer.features }
    default: break
    }
  }

  private mutating func note(
    _ handle: ConnectionHandle, _ value: LinkChange.Value, _ time: ReceiveTime
  ) {
    let change = LinkChange(time: time, value: value)
    if links[handle]?.changes.count == Self.changeLimit { links[handle]?.changes.remove(at: 1) }
    links[handle, default: Link()].changes.append(change)
    links[handle]?.observer?(change)
  }

  mutating func watch(_ handle: ConnectionHandle, _ observer: @escaping (LinkChange) -> Void) {
    for change in links[handle]?.changes ?? [] { observer(change) }
    links[handle, default: Link()].observer = observer
  }

  func facts(_ handle: ConnectionHandle) -> LinkFacts { links[handle]?.facts ?? LinkFacts() }

  func reason(_ handle: ConnectionHandle) -> HCIStatus? { links[handle]?.reason }

  /// Returns the timing in force, or `nil` if the link came up before the channel was opened.
  func timing(_ handle: ConnectionHandle) -> LinkParameters? {
    LinkState(after: links[handle]?.changes ?? []).timing
  }

  mutating func release(_ handle: ConnectionHandle) {
    links[handle]?.observer = nil
    if links[handle]?.reason != nil { links[handle] = nil }
  }
}
