extension Simulation.Report {
  /// Adds another run's counts to this one's; the checksum covers all runs in order.
  public mutating func add(_ other: Simulation.Report) {
    events += other.events
    virtualSeconds += other.virtualSeconds
    scenes += other.scenes
    resets += other.resets
    links += other.links
    orphans += other.orphans
    faults.merge(other.faults, uniquingKeysWith: +)
    requests.merge(other.requests, uniquingKeysWith: +)
    requestCount += other.requestCount
    sent += other.sent
    received += other.received
    duplicated += other.duplicated
    dropped += other.dropped
    lost.merge(other.lost, uniquingKeysWith: +)
    checksum = checksum &* 0x0000_0100_0000_01B3 ^ other.checksum
    memory = (max(memory.early, other.memory.early), max(memory.end, other.memory.end))
  }
}

extension Simulation.Report {
  public var lostCount: Int { lost.values.reduce(0, +) }
}
