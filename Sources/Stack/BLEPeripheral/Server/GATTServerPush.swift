import BLEHost
import BLELinux
import BLEStack
public import BLEWire

/// Notifications and indications of a server. Core 5.4, Vol 3, Part G, 4.10 and 4.11.
extension GATTServer {
  /// Sends a value to one central, truncated to ATT_MTU − 3 bytes.
  ///
  /// Returns when the value is in the link's queue. Waits while the queue is full, so a slow central delays
  /// only the tasks that send to it. The values of one task arrive in order.
  ///
  /// - Throws: `notSubscribed`, `disconnected`, `cancelled`, `closed`.
  public func notify(
    _ value: [UInt8], of handle: AttributeHandle, to central: Central
  ) async throws(GATTServerError) {
    try await push(.notification, value, of: handle, on: try link(of: central))
    counts.notifications += 1
  }

  /// Sends a value to all subscribed centrals, one after the other. The slowest central determines the
  /// duration of the call. To avoid this, use one task per central.
  ///
  /// - Returns: Number of centrals that the value was sent to. Does not include centrals that disconnected
  ///   during the call.
  /// - Throws: `cancelled`, `closed`.
  @discardableResult
  public func notify(_ value: [UInt8], of handle: AttributeHandle) async throws(GATTServerError) -> Int {
    if isClosed { throw .closed }
    var count = 0
    for central in subscribers(of: handle) {
      do throws(GATTServerError) {
        try await notify(value, of: handle, to: central)
        count += 1
      } catch {
        if error == .cancelled || error == .closed { throw error }
      }
    }
    return count
  }

  /// Sends a value to one central and waits for its confirmation. Only one indication per central is
  /// outstanding; other calls wait for their turn.
  ///
  /// - Throws: `notSubscribed`, `disconnected`, `cancelled`, `closed`; `notConfirmed` after 30 s, when the
  ///   link is ended.
  public func indicate(
    _ value: [UInt8], of handle: AttributeHandle, to central: Central
  ) async throws(GATTServerError) {
    let link = try link(of: central)
    do { try await link.indications.takeUnlessCancelled() } catch { throw .cancelled }
    defer { link.indications.end() }
    // A cancelled task may have left an indication whose confirmation is outstanding.
    try await confirmation(of: link)
    try await push(.indication, value, of: handle, on: link)
    counts.indications += 1
    link.patience = loop.after(ATTClientMachine.transactionTimeout) { await self.giveUp(central) }
    try await confirmation(of: link)
  }

  func tellChange(_ central: Central) {
    guard let handle = database.valueHandle(of: .serviceChanged) else { return }
    let value = [UInt8](encoding: 4) {
      $0.append(HandleRange.all.start)
      $0.append(HandleRange.all.end)
    }
    // Errors are ignored: the central is not subscribed or has disconnected.
    loop.task { try? await self.indicate(value, of: handle, to: central) }
  }

  // MARK: Parts

  private func link(of central: Central) throws(GATTServerError) -> CentralLink {
    if isClosed { throw .closed }
    guard let link = links.first(where: { $0.central == central }) else { throw .disconnected }
    return link
  }

  private func push(
    _ push: ServerPush, _ value: [UInt8], of handle: AttributeHandle, on link: CentralLink
  ) async throws(GATTServerError) {
    do { try await link.pushes.takeUnlessCancelled() } catch { throw .cancelled }
    defer { link.pushes.end() }
    do throws(GATTError) { try await link.connection.room() } catch { throw GATTServerError(error) }
    // Encode only now, because the subscription and the MTU may have changed during the wait.
    var result = PushResult.notSubscribed
    let pdu = [UInt8](encoding: ATT.maximumMTU) {
      result = link.server.push(push, of: handle, value: value.span, database: database, into: &$0)
    }
    guard result == .encoded else { throw .notSubscribed }
    do throws(GATTError) { try await link.connection.send(pdu) } catch { throw GATTServerError(error) }
  }

  private func confirmation(of link: CentralLink) async throws(GATTServerError) {
    do { try await link.news.waitUnlessCancelled { link.isOver || !link.server.awaitsConfirmation } } catch {
      throw .cancelled
    }
    if link.isUnconfirmed { throw .notConfirmed }
    if link.isOver { throw .disconnected }
  }

  private func giveUp(_ central: Central) async {
    guard let link = links.first(where: { $0.central == central }), link.server.awaitsConfirmation else {
      return
    }
    link.isUnconfirmed = true
    counts.unconfirmed += 1
    await link.connection.close()
  }
}

extension GATTServerError {
  /// Converts the error of a connection that could not send: the connection has ended, or the task was
  /// cancelled.
  fileprivate init(_ error: GATTError) { self = error == .cancelled ? .cancelled : .disconnected }
}
