import BLEWire

/// Method by which two devices authenticate each other. Core 5.4, Vol 3, Part H, 2.3.5.1.
public enum PairingMethod: Hashable, Sendable {
  case justWorks
  case passkey(PasskeyEntry)
  case numericComparison
  case outOfBand

  /// The sides that show and type the passkey.
  public enum PasskeyEntry: Hashable, Sendable {
    case initiatorShows, responderShows, bothType
  }

  public var isAuthenticated: Bool { self != .justWorks }

  /// Chooses the method for two sides.
  ///
  /// - Parameter isSecure: whether both sides set the Secure Connections flag.
  init(_ initiator: PairingFeatures, _ responder: PairingFeatures, isSecure: Bool) {
    let (i, r) = (initiator.hasOutOfBandData, responder.hasOutOfBandData)
    if isSecure ? i || r : i && r {
      self = .outOfBand
    } else if !initiator.requirements.contains(.authenticated),
      !responder.requirements.contains(.authenticated)
    {
      self = .justWorks
    } else {
      self.init(initiator.capability, responder.capability, isSecure: isSecure)
    }
  }

  /// Table 2.8 of Core 5.4, Vol 3, Part H, 2.3.5.1.
  private init(_ initiator: IOCapability, _ responder: IOCapability, isSecure: Bool) {
    switch (initiator, responder) {
    case (.noInputNoOutput, _), (_, .noInputNoOutput): self = .justWorks
    case (.keyboardOnly, .keyboardOnly): self = .passkey(.bothType)
    case (.displayYesNo, .displayYesNo): self = isSecure ? .numericComparison : .justWorks
    case (.displayYesNo, .keyboardDisplay), (.keyboardDisplay, .keyboardDisplay):
      self = isSecure ? .numericComparison : .passkey(.initiatorShows)
    case (.keyboardDisplay, .displayYesNo):
      self = isSecure ? .numericComparison : .passkey(.responderShows)
    case (_, .keyboardOnly), (.displayOnly, .keyboardDisplay): self = .passkey(.initiatorShows)
    case (.keyboardOnly, _), (.keyboardDisplay, .displayOnly): self = .passkey(.responderShows)
    default: self = .justWorks
    }
  }
}
