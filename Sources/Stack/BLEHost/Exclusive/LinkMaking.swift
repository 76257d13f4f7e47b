import BLELinux
import BLEStack
import BLEWire

/// Creation of links. A controller makes one attempt at a time. The attempt serves several pending requests
/// through the controller's accept list, so that an absent device does not delay the others. Core 5.4, Vol 4,
/// Part E, 7.8.12 and 7.8.66.
extension HostAdapter {
  /// Waits until a link with the device is up.
  func link(_ wish: LinkWish) async throws(HostError) -> Connection {
    if let failure { throw failure }
    wishes.waiting.append(wish)
    makeRoom()
    if !wishes.isAtWork {
      wishes.isAtWork = true
      loop.task { await self.makeLinks() }
    }
    let outcome = wish.outcome
    return try await withTaskCancellationHandler {
      await outcome.value()
    } onCancel: {
      loop.later(self) { $0.abandon(outcome) }
    }.get()
  }

  private func makeLinks() async {
    while !wishes.waiting.isEmpty {
      let attempt = wishes.nextAttempt()
      wishes.attempt = attempt
      do throws(HostError) {
        try await create(attempt)
        attempt.createdAt = loop.clock.monotonic()
        if let (wish, link) = attempt.early.take() { tell(wish, link) }
        // A connection request arrived meanwhile whose device is not on the list.
        if !attempt.isPartial, !wishes.waiting.allSatisfy(attempt.isFor) { makeRoom() }
      } catch {
        // After a reset of the controller, the attempt is repeated.
        error == .controllerReset ? endAttempt() : endAttempt(.failure(error))
      }
      await attempt.ended.value()
    }
    wishes.isAtWork = false
  }

  private func create(_ attempt: LinkAttempt) async throws(HostError) {
    let (own, timing) = (address.type, attempt.timing)
    let named = attempt.isListed ? nil : attempt.wishes.first?.peer
    if named == nil { try await list(attempt) }
    if attempt.isPartial {
      let share = named == nil ? LinkAttempt.slice : LinkAttempt.grace
      attempt.deadline = loop.clock.monotonic().advanced(by: share)
    }
    switch (named, controller.usesExtendedCommands) {
    case (let peer?, true):
      try await command(LEExtendedCreateConnection(to: peer, ownType: own, parameters: timing))
    case (let peer?, false): try await command(LECreateConnection(to: peer, ownType: own, parameters: timing))
    case (nil, true): try await command(LEExtendedCreateConnection(toAcceptListFrom: own, parameters: timing))
    case (nil, false): try await command(LECreateConnection(toAcceptListFrom: own, parameters: timing))
    }
  }

  /// Puts the devices of an attempt on the controller's accept list. Devices that do not fit wait for a later
  /// attempt.
  private func list(_ attempt: LinkAttempt) async throws(HostError) {
    try await command(LEClearFilterAcceptList())
    for (count, wish) in attempt.wishes.enumerated() {
      do throws(HostError) { try await command(LEAddDeviceToFilterAcceptList(wish.peer)) } catch {
        guard count > 0, case .commandRefused(_, .memoryCapacityExceeded) = error else { throw error }
        attempt.wishes.removeSubrange(count...)
        attempt.isPartial = true
        return
      }
    }
  }

  /// Cancels the connection request of a caller that no longer waits.
  private func abandon(_ outcome: OneShot<Result<Connection, HostError>>) {
    wishes.waiting.first { $0.outcome === outcome }?.deadline = loop.clock.monotonic()
  }

  /// Limits the current attempt to `grace`, because another connection request is pending. The next attempt
  /// can serve both.
  private func makeRoom() {
    guard let attempt = wishes.attempt, let created = attempt.createdAt, !attempt.isCancelling,
      !wishes.isStubborn
    else { return }
    attempt.deadline = .earliest(attempt.deadline, created.advanced(by: LinkAttempt.grace))
  }

  /// Cancels the controller's attempt.
  private func giveUpAttempt() {
    guard let attempt = wishes.attempt, attempt.createdAt != nil, !attempt.isCancelling else { return }
    attempt.isCancelling = true
    attempt.deadline = loop.clock.monotonic().advanced(by: LinkAttempt.cancelPatience)
    attempt.cancel = withHost { $0.submit(LECreateConnectionCancel()) }
  }

  /// Ends attempts and connection requests whose deadline has passed.
  func expireWishes(_ now: MonotonicTime) {
    guard let attempt = wishes.attempt else { return }
    if attempt.isCancelling {
      guard let deadline = attempt.deadline, deadline <= now else { return }
      if let refusal = attempt.refusal { return endAttempt(.failure(refusal)) }
      (wishes.isStubborn, attempt.isCancelling, attempt.deadline) = (true, false, nil)
      failExpired(now)
      return attempt.wishes.isEmpty ? endAttempt() : ()
    }
    for wish in wishes.waiting where wish.deadline <= now && !attempt.isFor(wish) {
      wishes.fulfil(wish, .failure(wish.noAnswer))
    }
    guard let deadline = wishes.deadline, deadline <= now else { return }
    giveUpAttempt()
  }

  /// Records that the controller refused to cancel. A link may have come up at the last moment, and its event
  /// may still arrive.
  func answered(_ id: CommandID, _ status: HCIStatus) {
    guard let attempt = wishes.attempt, id == attempt.cancel, status != .success else { return }
    attempt.refusal = .commandRefused(.leCreateConnectionCancel, status)
  }

  /// Completes a connection request with its link. If the controller has not replied to the command yet,
  /// waits for the reply, because such a controller may not work at all.
  func tell(_ wish: LinkWish, _ connection: Connection) {
    if let attempt = wishes.attempt, attempt.createdAt == nil {
      attempt.early = (wish, connection)
    } else {
      wish.outcome.set(.success(connection))
      endAttempt()
    }
  }

  /// Handles an attempt that failed.
  func connectFailed(_ status: HCIStatus) {
    guard let attempt = wishes.attempt else { return }
    // Status of an attempt that was cancelled. Core 5.4, Vol 4, Part E, 7.8.13.
    guard attempt.isCancelling, status == .unknownConnection else {
      for wish in attempt.wishes { wishes.fulfil(wish, .failure(.linkFailed(wish.peer, status))) }
      return endAttempt()
    }
    failExpired(loop.clock.monotonic())
    endAttempt()
  }

  /// Fails the attempt's connection requests whose deadline has passed.
  private func failExpired(_ now: MonotonicTime) {
    guard let attempt = wishes.attempt else { return }
    for wish in attempt.wishes where wish.deadline <= now { wishes.fulfil(wish, .failure(wish.noAnswer)) }
    attempt.wishes.removeAll { $0.deadline <= now }
  }

  /// Ends the current attempt.
  ///
  /// - Parameter result: for all requests of the attempt; `nil` leaves them pending.
  func endAttempt(_ result: Result<Connection, HostError>? = nil) {
    guard let attempt = wishes.attempt.take() else { return }
    if let wish = attempt.early?.wish { wish.outcome.set(result ?? .failure(wish.noAnswer)) }
    if let result {
      for wish in attempt.wishes { wishes.fulfil(wish, result) }
    } else {
      wishes.rotate(attempt)
    }
    attempt.ended.set(())
  }

  /// Fails all connection requests after the adapter has failed.
  func failWishes(_ error: HostError) {
    for wish in wishes.waiting { wish.outcome.set(.failure(error)) }
    wishes.waiting = []
    endAttempt(.failure(error))
  }
}
