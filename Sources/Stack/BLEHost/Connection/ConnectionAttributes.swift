import BLELinux
public import BLEStack
public import BLEWire
import Synchronization

/// The device's attributes as known to a connection.
struct LinkAttributes {
  /// Attributes from an earlier link that are not verified yet.
  var known: GATTDiscoveryResult?
  /// Attributes that are valid on this link, according to the changes that the device has reported.
  var found: GATTDiscoveryResult?
  /// Whether `found` comes from an earlier link.
  var isFromEarlierLink = false
  /// Whether the attributes of an earlier link were discovered by an earlier run of the program.
  var isRecalled = false
  /// The device's firmware revision as read in that run.
  var recalledFirmware: String?
  var changeCount = 0
  /// The Service Changed characteristic, once subscribed to.
  var changeHandle: AttributeHandle?
  var isSynchronising = false
  var observer: (@Sendable (GATTDiscoveryResult) -> Void)?
  var firmwareObserver: (@Sendable (String) -> Void)?
  var blameObserver: (@Sendable (LinkSuspect) -> Void)?
  /// Tasks that await a change of the attributes or the end of the bearer.
  let watchers = Waiters()
}

/// Number of ATT requests sent on a connection. Also readable on the receive thread.
public final class RequestCounter: Sendable {
  private let count = Atomic<Int>(0)

  public var value: Int { count.load(ordering: .relaxed) }

  func add() { count.add(1, ordering: .relaxed) }
}

/// Attributes kept from one link to the next, and their changes. Core 5.4, Vol 3, Part G, 2.5.2.
extension Connection {
  /// Sets the observer of discoveries. `body` is called on the loop's thread after each successful discovery,
  /// and when attributes of an earlier link are verified. When the attributes have changed, it receives an
  /// empty result. `body` must not block.
  public func whenDiscovered(_ body: @escaping @Sendable (GATTDiscoveryResult) -> Void) {
    attributes.observer = body
  }

  /// Sets attributes that were discovered on an earlier link to the same device. `GATTClient` uses them once
  /// they are verified.
  public func restore(_ known: GATTDiscoveryResult) {
    attributes.known = known
    attributes.isRecalled = false
  }

  /// Sets the knowledge about the device from an earlier run of the program, which may be old.
  ///
  /// - Parameters:
  ///   - known: the discovery result; `nil` if it must not be used.
  ///   - firmware: the firmware revision that was read.
  ///   - suspects: suspected causes of ended links; these are not requested.
  package func recall(_ known: GATTDiscoveryResult?, firmware: String?, not suspects: [LinkSuspect]) {
    attributes.known = known
    (attributes.isRecalled, attributes.recalledFirmware) = (known != nil, firmware)
    recalled = suspects
    avoid(Set(suspects.compactMap(\.request)))
    for suspect in suspects { note(.notAsked(suspect)) }
  }

  /// Whether the attributes in use were discovered by an earlier run of the program.
  package var usesRecalledAttributes: Bool { attributes.isRecalled && attributes.isFromEarlierLink }

  /// The firmware revision that an earlier run read; `nil` unless its attributes are in use.
  package var recalledFirmware: String? { usesRecalledAttributes ? attributes.recalledFirmware : nil }

  /// Sets the observer of the firmware revision. `body` is called when it has been read.
  package func whenFirmwareTold(_ body: @escaping @Sendable (String) -> Void) {
    attributes.firmwareObserver = body
  }

  package func noteFirmware(_ revision: String) { attributes.firmwareObserver?(revision) }

  /// Sets the observer of suspects. `body` is called with the cause for which the device ended a link, once
  /// it is certain enough to be remembered.
  package func whenBlamed(_ body: @escaping @Sendable (LinkSuspect) -> Void) {
    attributes.blameObserver = body
  }

  package func blame(_ suspect: LinkSuspect) { attributes.blameObserver?(suspect) }

  /// Attributes discovered on this link, or on an earlier link and verified; `nil` once they have changed.
  public var discovery: GATTDiscoveryResult? { attributes.found }

  /// Whether `discovery` comes from an earlier link.
  public var usesEarlierDiscovery: Bool { attributes.isFromEarlierLink }

  /// Number of times that the device's attributes changed during the connection, or that attributes of an
  /// earlier link proved wrong.
  public var attributeChangeCount: Int { attributes.changeCount }

  /// Waits until `attributeChangeCount` differs from this number or the bearer has ended.
  public func attributesChanged(since count: Int) async {
    await attributes.watchers.wait { attributes.changeCount != count || end != nil }
  }

  func noteDiscovery(_ result: GATTDiscoveryResult) {
    attributes.found = result
    attributes.isFromEarlierLink = false
    attributes.observer?(result)
  }

  var known: GATTDiscoveryResult? { attributes.known }

  /// Uses the attributes of an earlier link, which have been verified.
  func useKnown() {
    guard let known = attributes.known.take() else { return }
    noteDiscovery(known)
    attributes.isFromEarlierLink = true
  }

  func dropKnown() { attributes.known = nil }

  /// Invalidates the handles in this range. Subscriptions to them end, and the observer receives an empty
  /// result.
  public func attributesChanged(in range: HandleRange) {
    if usesRecalledAttributes { note(.attributesReplaced) }
    attributes.known = nil
    attributes.observer?(GATTDiscoveryResult(GATTDatabase(), .none))
    if let found = attributes.found, found.extent == .part,
      !found.database.services.contains(where: { $0.range.start <= range.end && range.start <= $0.range.end })
    {
      // The services in use are unchanged, but the old hash cannot verify them on a later link.
      attributes.found?.databaseHash = nil
      return
    }
    attributes.changeCount += 1
    attributes.found = nil
    attributes.isFromEarlierLink = false
    removeSubscribers(in: range, but: attributes.changeHandle)
    attributes.watchers.wakeAll()
  }

  /// Turns notifications or indications on or off, and sends a command right after. If the characteristic has
  /// no configuration descriptor, only the command is sent: values may arrive anyway.
  func configure(
    _ characteristic: GATTDatabase.Characteristic, _ configuration: ClientCharacteristicConfiguration,
    followedBy command: AttributeWrite?
  ) async throws(GATTError) {
    guard let handle = characteristic.configuration else {
      if !configuration.isEmpty { note(.listeningOnly(characteristic.valueHandle)) }
      if let command { try await writeWithoutResponse(command.value, to: command.handle) }
      return
    }
    let value = [UInt8](encoding: 2) { $0.append(u16: configuration.rawValue) }
    let request = [UInt8](encoding: 5) { Write(request: handle, value: value.span).encode(into: &$0) }
    let behind = command.map { command in
      [UInt8](encoding: 3 + command.value.count) {
        Write(command: command.handle, value: command.value.span).encode(into: &$0)
      }
    }
    _ = try await transact(request, followedBy: behind)
  }

  /// Removes all subscribers except the one to Service Changed.
  public func endSubscriptions() { removeSubscribers(in: .all, but: attributes.changeHandle) }

  /// Records a subscription to changes.
  ///
  /// - Returns: Whether it is new.
  func beginWatch(_ handle: AttributeHandle) -> Bool {
    defer { attributes.changeHandle = handle }
    return attributes.changeHandle != handle
  }

  /// Whether to repeat a request that was refused with Database Out Of Sync: only if the Database Hash is
  /// unchanged.
  ///
  /// Core 5.4, Vol 3, Part G, 2.5.2.1. No other request is pending, because there is one bearer and one
  /// request at a time.
  func isInStep() async throws(GATTError) -> Bool {
    guard !attributes.isSynchronising else { return false }
    attributes.isSynchronising = true
    defer { attributes.isSynchronising = false }
    let count = attributes.changeCount
    if let hash = attributes.found?.databaseHash, try await readDatabaseHash() == hash {
      return attributes.changeCount == count
    }
    attributesChanged(in: .all)
    return false
  }
}
