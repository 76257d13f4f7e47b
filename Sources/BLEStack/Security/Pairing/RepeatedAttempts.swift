import BLECore

/// How long a peer has to wait after a pairing that failed: twice as long after each. Core 5.4, Vol 3, Part H, 2.3.6.
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

  func mustWait(_ peer: DeviceAddress, now: MonotonicTime) -> Bool {
    peers.contains { $0.peer == peer && now < $0.end }
  }

  mutating func failed(_ peer: DeviceAddress, now: MonotonicTime) {
    let failures = peers.first { $0.peer == peer }?.failures ?? 0
    succeeded(peer)
    if peers.count == Self.limit { peers.removeFirst() }
    let wait = Self.firstWait * (1 << min(failures, Self.doublings))
    peers.append(Attempts(peer: peer, failures: failures + 1, end: now.advanced(by: wait)))
  }

  mutating func succeeded(_ peer: DeviceAddress) { peers.removeAll { $0.peer == peer } }
}
