package import BLEHost
public import BLEWire
package import JSONText

/// Writes the member `connection` of `session.json`: requested parameters, current parameters, and changes
/// with their times. Parameters that the kernel does not report are omitted.
extension SessionReport {
  func encodeConnection(_ line: inout JSONLine) {
    line.member("connection") { line in
      line.member("asked") { $0.members(of: asked) }
      line.member("inForce") { line in
        if let mtu { line.member("mtu", mtu) }
        if let connectionHandle { line.member("handle", connectionHandle.rawValue) }
        if let receiveBufferByteCount, receiveBufferByteCount > 0 {
          line.member("receiveBufferByteCount", receiveBufferByteCount)
        }
        let state = LinkState(after: changes)
        line.members(of: state)
        if state.security == nil, let security = state.security(seenByOwnHost: mode == "exclusive") {
          line.member("encrypted", security.isEncrypted)
        }
      }
      line.member(
        "changes",
        array: { line in
          for change in changes where !change.isRefusal {
            line.object { line in
              line.member("timeNs", change.time)
              line.members(of: LinkState(after: [change]))
            }
          }
        })
      line.member(
        "refused",
        array: { line in
          for case .refused(let part, let error) in changes.map(\.value) {
            line.object { line in
              line.member("what", part.rawValue)
              line.member("why", "\(error)")
            }
          }
        })
      if let disconnectReason {
        line.member("disconnectReason", disconnectReason)
      }
    }
  }
}

extension SessionReport {
  /// Whether samples of a bonded device may have been received on an unencrypted link.
  package var hasUnencryptedBond: Bool {
    changes.contains {
      if case .security(let security) = $0.value { security.isBonded && !security.isEncrypted } else { false }
    }
  }
}

extension LinkSecurity {
  /// Reads an encryption state.
  ///
  /// - Parameter document: an object of the member `connection` in `session.json`.
  /// - Returns: `nil` if the object has no `encrypted`.
  package init?(_ document: JSONDocument) {
    guard let isEncrypted = document["encrypted"]?.flag else { return nil }
    self.init(isEncrypted: isEncrypted, isBonded: document["bonded"]?.flag ?? false)
    keyByteCount = document["keySize"]?.integer()
    isAuthenticated = document["authenticated"]?.flag
    isSecureConnections = document["secureConnections"]?.flag
  }

  /// Returns the distinct encryption states in `session.json`, in order; empty if the file contains none.
  package static func all(in session: JSONDocument?) -> [LinkSecurity] {
    let connection = session?["connection"]
    let objects = (connection?["changes"]?.array ?? []) + [connection?["inForce"]].compactMap(\.self)
    return objects.compactMap { LinkSecurity($0) }.reduce(into: []) { all, security in
      if !all.contains(security) { all.append(security) }
    }
  }

  package var text: String {
    guard isEncrypted else { return isBonded ? "not encrypted, though bonded" : "not encrypted" }
    guard let keyByteCount else { return "encrypted" }
    return
      "encrypted (\(isAuthenticated == true ? "authenticated" : "not authenticated"), \(counted(keyByteCount, "byte")))"
  }
}

extension LinkChange {
  fileprivate var isRefusal: Bool {
    if case .refused = value { true } else { false }
  }
}

extension LEPHY {
  /// Name of the PHY in arguments of `--phy`.
  public var name: String {
    switch self {
    case .le1M: "1m"
    case .le2M: "2m"
    case .leCoded: "coded"
    }
  }
}

extension JSONLine {
  package mutating func members(of state: LinkState) {
    if let timing = state.timing {
      member("intervalMs", timing.intervalMilliseconds)
      member("latency", timing.latency)
      member("supervisionTimeoutMs", timing.supervisionTimeoutMilliseconds)
    }
    if let phy = state.transmitPHY { member("transmitPhy", phy.name) }
    if let phy = state.receivePHY { member("receivePhy", phy.name) }
    if let octets = state.transmitOctets { member("transmitDataLength", octets) }
    if let octets = state.receiveOctets { member("receiveDataLength", octets) }
    if let security = state.security { members(of: security) }
  }

  package mutating func members(of security: LinkSecurity) {
    member("encrypted", security.isEncrypted)
    if let count = security.keyByteCount { member("keySize", count) }
    if let flag = security.isAuthenticated { member("authenticated", flag) }
    if let flag = security.isSecureConnections { member("secureConnections", flag) }
    member("bonded", security.isBonded)
  }

  fileprivate mutating func members(of request: LinkRequest) {
    if let interval = request.interval {
      member("minimumIntervalMs", Double(interval.lowerBound) * 1.25)
      member("maximumIntervalMs", Double(interval.upperBound) * 1.25)
    }
    if let latency = request.latency { member("latency", latency) }
    if let timeout = request.supervisionTimeout { member("supervisionTimeoutMs", Int(timeout) * 10) }
    if let phy = request.phy { member("phy", phy.name) }
    if let octets = request.dataLength { member("dataLength", octets) }
  }
}
