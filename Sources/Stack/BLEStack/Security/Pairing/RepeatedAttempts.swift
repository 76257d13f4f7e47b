import BLEWire

/// How long a peer has to wait after a pairing that failed: twice as long after each. Core 5.4, Vol 3, Part H, 2.3.6.
///
/// A peer that guesses a passkey learns a bit of it by each attempt, and may come under another address each time: after such
/// a failure all peers wait.
struct RepeatedAttempts {
  static let firstWait = Duration.seconds(1)
  /// 64 s.
  static let doublings = 6
  /// Peers that are remembered; with one more the oldest is forgotten.
  static let limit = 32

  private struct Attempts {
    let peer: DeviceAddress
    var failures = 0
    var end: MonotonicTime
  }

  private var peers: [Attempts] = []
  /// Failed pairings by passkey since the last that succeeded.
  private var passkeyFailures = 0
  private var passkeyEnd: MonotonicTime?

  func mustWait(_ peer: DeviceAddress, now: MonotonicTime) -> Bool {
    if let passkeyEnd, now < passkeyEnd { return true }
    return peers.contains { $0.peer == peer && now < $0.end }
  }

  /// A central's pairing with this side by passkey has failed.
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
