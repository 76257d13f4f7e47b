import BLEWire

/// Link-layer procedures that change the link. Core 5.4, Vol 6, Part B, 5.1.
extension AirLink {
  // MARK: Requested by a host

  /// Changes the link's parameters at the central's request. Core 5.4, Vol 6, Part B, 5.1.1.
  func update(_ wanted: LinkParameters) {
    guard isImmediate else { return send(.connectionUpdate(wanted), from: central) }
    apply(.connectionUpdate(wanted))
  }

  /// Changes the PHYs. Core 5.4, Vol 6, Part B, 5.1.10.
  func requestPHY(_ wish: PHYWish, from end: LinkEnd) {
    if end === central { centralWish = wish }
    guard isImmediate else { return send(.phyRequest(wish), from: end) }
    apply(
      .phyUpdate(
        end === central
          ? PHYChange(central: wish, peripheral: .any, now: self)
          : PHYChange(central: .any, peripheral: wish, now: self)))
  }

  /// Changes the data length. At the pace `.immediate` both directions get the requested length. Core 5.4,
  /// Vol 6, Part B, 5.1.9.
  func requestDataLength(_ wanted: DataLength, from end: LinkEnd) {
    end.allowedDataLength = wanted.clamped
    guard isImmediate else { return send(.lengthRequest(end.allowedDataLength), from: end) }
    for end in [central, peripheral] {
      end.dataLength = wanted.limited(to: .maximum)
    }
    for end in [central, peripheral] { end.owner.dataLengthChanged(on: end) }
  }

  /// Exchanges features. Core 5.4, Vol 6, Part B, 5.1.4.
  func requestFeatures(from end: LinkEnd) {
    guard isImmediate else { return send(.featureRequest, from: end) }
    end.owner.featuresRead(on: end)
  }

  /// Exchanges versions. Core 5.4, Vol 6, Part B, 5.1.5.
  func requestVersion(from end: LinkEnd) {
    guard isImmediate else { return send(.versionRequest, from: end) }
    end.owner.versionRead(on: end)
  }

  // MARK: Received

  func obey(_ control: LinkControl, at end: LinkEnd) {
    switch control {
    case .terminate(let reason): end.farewell = reason
    case .vanish: break
    case .connectionUpdate, .phyUpdate: change?.isKnown = true
    case .phyRequest(let wish):
      if end === central {
        choosePHY(PHYChange(central: .any, peripheral: wish, now: self), for: peripheral)
      } else {
        send(.phyResponse(.any), from: end)
      }
    case .phyResponse(let wish):
      choosePHY(PHYChange(central: centralWish, peripheral: wish, now: self), for: central)
    case .lengthRequest: send(.lengthResponse(end.allowedDataLength), from: end)
    case .lengthResponse: changeDataLength()
    case .featureRequest: send(.featureResponse, from: end)
    case .featureResponse: end.owner.featuresRead(on: end)
    case .versionRequest: send(.versionResponse, from: end)
    case .versionResponse: end.owner.versionRead(on: end)
    case .encryptionRequest(let wanted): end.owner.keyWanted(wanted.random, wanted.diversifier, on: end)
    case .encryptionAnswer(let key): compare(key)
    case .encryptionStart: encrypted(end)
    }
  }

  /// Sends a PHY update, or reports to the requesting end that the PHYs are unchanged. Core 5.4, Vol 4, Part
  /// E, 7.8.49.
  private func choosePHY(_ chosen: PHYChange, for asker: LinkEnd) {
    if chosen.toPeripheral == central.phy, chosen.toCentral == peripheral.phy {
      asker.owner.phyChanged(on: asker)
    } else {
      send(.phyUpdate(chosen), from: central)
    }
  }

  /// Applies the data lengths, and notifies both hosts if they have changed. Core 5.4, Vol 4, Part E,
  /// 7.7.65.7.
  private func changeDataLength() {
    let before = (central.dataLength, peripheral.dataLength)
    for end in [central, peripheral] { end.dataLength = end.allowedDataLength }
    guard before != (central.dataLength, peripheral.dataLength) else { return }
    for end in [central, peripheral] { end.owner.dataLengthChanged(on: end) }
  }

  // MARK: At the instant

  /// Makes the agreed change if its event has come.
  func makeChange() {
    guard let change, change.instant <= eventCounter else { return }
    self.change = nil
    isChanging = false
    // The peripheral does not know of the change. From now on the ends do not receive each other's packets.
    guard change.isKnown else {
      isApart = true
      return
    }
    apply(change.control)
    if !waitingChanges.isEmpty { send(waitingChanges.removeFirst(), from: central) }
  }

  private func apply(_ control: LinkControl) {
    switch control {
    case .connectionUpdate(let wanted):
      parameters = wanted
      for end in [central, peripheral] { end.owner.parametersChanged(on: end) }
    case .phyUpdate(let change):
      central.phy = change.toPeripheral
      peripheral.phy = change.toCentral
      for end in [central, peripheral] { end.owner.phyChanged(on: end) }
    default: break
    }
  }
}
