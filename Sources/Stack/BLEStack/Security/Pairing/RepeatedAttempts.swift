import BLEWire

/// Time that a peer must wait after a failed pairing; doubles after each failure. Core 5.4, Vol 3, Part H,
/// 2.3.6.
///
/// A peer that guesses a passkey learns one bit per attempt, and can change its address each time. Therefore
/// all peers must wait after a failed passkey pairing.
struct RepeatedAttempts {
  static let firstWait = Duration.seconds(1)
  /// Maximum number of doublings, for a wait of 64 s.
  static let doublings = 6
  /// Number of peers to remember; when full, the oldest is dropped.
  static let limit = 32

  private struct Attempts {
    let peer: DeviceAddress
    var failures = 0
    var end: MonotonicTime
  }

  private var peers: [Attempts] = []
  /// Number of failed passkey pairings since the last successful one.
  private var passkeyFailures = 0
  private var passkeyEnd: MonotonicTime?

  func mustWait(_ peer: DeviceAddress, now: MonotonicTime) -> Bool {
    if let passkeyEnd, now < passkeyEnd { return true }
    return peers.contains { $0.peer == peer && now < $0.end }
  }

  /// Records a failed passkey pairing of a central.
  mutating func passkeyFailed(now: MonotonicTime) {
    passkeyEnd = now.advanced(by: Self.firstWait * (1 << min(passkeyFailures, Self.doublings)))
    passkeyFailures += 1
  }

  mutating func passkeySucceeded() { (passkeyFailures, passkeyEnd) = (0, nil) }

  mutating func failed(_ peer: DeviceAddress, now: MonotonicTime) {
    let failures = peers.first { $0.peer == peer }?.failures ?? 0
    succeeded(peer)
    if peers.count == Self.limit { peers.removeFirst() }
    let wait = Self.firstWait * (1 << min(failures, Self.doublings))
    peers.append(Attempts(peer: peer, failures: failures + 1, end: now.advanced(by: wait)))
  }

  mutating func succeeded(_ peer: DeviceAddress) { peers.removeAll { $0.peer == peer } }
}
