/// Kinds of random links, which vary in crystals, rates, intervals and losses.
package enum LinkKind: String, CaseIterable, Sendable {
  case free, multiples, timers, busyHost, drops, multiplesDrops
  case earlyGaps, reconnects, tooSlowTicks, tooSlowFrames
  // Last, because the random numbers of the others depend on their positions.
  case lateHost, evenDrops

  package var title: String {
    switch self {
    case .free: "any rate and interval"
    case .multiples: "tick and interval are multiples"
    case .timers: "a timer with steps of 1 ms or 1/1024 s"
    case .busyHost: "a host that is late"
    case .lateHost: "a host that is kept from its work for seconds"
    case .drops: "whole ticks dropped at random"
    case .evenDrops: "whole ticks dropped almost evenly"
    case .multiplesDrops: "multiples, whole ticks dropped at random"
    case .earlyGaps: "one to three gaps at the start"
    case .reconnects: "one to four reconnects within a minute"
    case .tooSlowTicks: "too slow a link, whole ticks dropped"
    case .tooSlowFrames: "too slow a link, frames dropped"
    }
  }
}

extension LinkKind {
  /// Whether the ring drops no ticks and its timer runs without a pause.
  package var keepsAllTicks: Bool {
    switch self {
    case .free, .multiples, .timers, .busyHost, .lateHost: true
    case .drops, .evenDrops, .multiplesDrops, .earlyGaps, .reconnects, .tooSlowTicks, .tooSlowFrames: false
    }
  }
}

/// Draws links from a seed.
package struct LinkDraw {
  private var state: UInt64
  private let seed: UInt64

  package init(_ kind: LinkKind, seed: UInt64) {
    self.seed = seed
    let place = UInt64(LinkKind.allCases.firstIndex(of: kind) ?? 0)
    state = (seed &* 0x9E37_79B9_7F4A_7C15) ^ (place &+ 1) &* 0xD134_2543_DE82_EF95
  }

  private mutating func chance() -> Double {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return Double((z ^ (z >> 31)) >> 11) * 0x1p-53
  }

  private mutating func uniform(_ low: Double, _ high: Double) -> Double { low + (high - low) * chance() }
  private mutating func one<T>(of items: [T]) -> T { items[Int(chance() * Double(items.count))] }

  package static func link(_ kind: LinkKind, seed: UInt64) -> LossyLink {
    var draw = LinkDraw(kind, seed: seed)
    return draw.link(kind)
  }

  /// Draws a link with uniformly distributed crystal errors relative to the host: −100 … 100 ppm for the
  /// ring, −50 … 50 ppm for the controller.
  private mutating func link(_ kind: LinkKind) -> LossyLink {
    var link = kind == .multiples || kind == .multiplesDrops ? multiples() : free()
    link.slow = uniform(-100, 100)
    link.controllerSlow = uniform(-50, 50)
    link.phase = chance()
    link.seconds = one(of: [60, 150, 300, 600])
    link.latency = one(of: [0, 0, 4])
    link.loss = one(of: [0, 0, 0.01, 0.03, 0.1, 0.2, 0.3])
    link.kind = link.loss <= 0.1 ? one(of: [.events, .packets]) : .events
    link.seed = seed &* 2 &+ 1
    // Capacity that the link needs, with a margin for losses.
    let isSlow = kind == .tooSlowTicks || kind == .tooSlowFrames
    let needed = 3 * link.rate * link.interval
    switch kind {
    case .free, .multiples: if chance() < 0.5 { link.framesPerEvent = Int(needed * 2.5) + 3 }
    case .timers:
      link.timerStep = one(of: [0.001, 1.0 / 1_024])
      link.timerJitter = one(of: [0, 0.000_2, 0.001])
    case .busyHost: link.hostJitter = one(of: [0.000_1, 0.000_3, 0.001])
    case .lateHost: keepFromWork(&link)
    case .drops, .evenDrops, .multiplesDrops:
      link.droppedPerMille = one(of: [1, 2, 5, 10])
      link.dropsAtRandom = kind != .evenDrops
    case .earlyGaps: pause(&link)
    case .reconnects: reconnect(&link)
    case .tooSlowTicks, .tooSlowFrames: break
    }
    if isSlow {
      link.loss = one(of: [0, 0.01, 0.1])
      link.framesPerEvent = max(4, Int(needed * uniform(0.6, 1.0)))
      link.queueLimit = one(of: [6, 12, 30, 60])
      link.overflow = kind == .tooSlowTicks ? .ticks : .frames
    } else {
      // Replaces links that lose too much to carry the ring's frames.
      let room = min(Double(link.framesPerEvent), link.interval / 0.000_68 - 1)
      let carried = room * (1 - link.loss) * (link.kind == .packets ? 1 - 2.5 * link.loss : 1)
      if needed * 1.15 > carried { (link.loss, link.framesPerEvent) = (0.01, .max) }
    }
    return link
  }

  /// Draws any rate and any interval that a central may request.
  private mutating func free() -> LossyLink {
    let rate = one(of: [uniform(1, 10), uniform(10, 50), uniform(20, 100), 25, 50, 100])
    let interval = Double(Int(uniform(6, 101))) * 0.001_25
    return LossyLink(rate: rate, interval: min(interval, 0.125))
  }

  /// Draws a tick and an interval whose ratio is one of small integers.
  private mutating func multiples() -> LossyLink {
    while true {
      let period = one(of: [0.01, 0.02, 0.025, 0.04, 0.05, 0.1, 0.25, 1])
      let ratio = one(of: [1, 1, 2, 3, 1.0 / 2, 1.0 / 3, 3.0 / 2, 2.0 / 3, 5.0 / 2, 1.0 / 4, 1.0 / 8])
      let units = (period * ratio / 0.001_25).rounded()
      if abs(units * 0.001_25 - period * ratio) < 1e-9, units >= 6, units <= 100 {
        return LossyLink(rate: 1 / period, interval: units * 0.001_25)
      }
    }
  }

  /// Makes the host late for a tenth of the time, in periods of 0.2 to 5 s, by up to some ticks: by a random
  /// time for each event, or by about the same time.
  private mutating func keepFromWork(_ link: inout LossyLink) {
    var at = uniform(6, 20)
    while at < link.seconds {
      let length = uniform(0.2, 5)
      let least = one(of: [0, uniform(0, 0.03), uniform(0.3, 2.5) / link.rate])
      link.lateSpells.append((at, at + length, least, least + one(of: [0.002, 0.01, 0.03, 0.1])))
      at += length + uniform(5, 50)
    }
  }

  private mutating func pause(_ link: inout LossyLink) {
    var at = uniform(0.1, 2)
    for _ in 0..<one(of: [1, 2, 3]) {
      let length = max(uniform(0.05, 0.9), 1.2 / link.rate)
      link.pauses.append((at, at + length))
      at += length + uniform(0.1, 1.5)
    }
  }

  private mutating func reconnect(_ link: inout LossyLink) {
    var at = uniform(2, 20)
    for _ in 0..<one(of: [1, 2, 3, 4]) {
      let after = one(of: [uniform(0.1, 0.5), uniform(0.3, 2), uniform(2, 6)])
      link.reconnects.append((at, after))
      at += after + uniform(2, 20)
    }
  }
}

/// Outcomes of a kind's links.
package struct LinkTally {
  package private(set) var outcomes: [LinkOutcome] = []

  package init() {}

  package mutating func add(_ outcome: LinkOutcome) { outcomes.append(outcome) }

  package static let head =
    "| links | number | range told | rate in it | range, ppm (median) | off, ppm (median, worst) | split, joined | invented (links) | "
    + "found | found or counted | missing in the range | false none | offset in the range |\n"
    + "|---|---|---|---|---|---|---|---|---|---|---|---|---|"

  /// Returns a table with a row for each kind and one for all kinds.
  ///
  /// - Parameters:
  ///   - links: number of links of each kind.
  ///   - first: seed of the first link.
  package static func table(links: UInt64, first: UInt64) -> String {
    var (lines, all) = (["Seeds \(first) to \(first + links - 1):\n", head], LinkTally())
    for kind in LinkKind.allCases {
      var tally = LinkTally()
      for seed in first..<first + links { tally.add(LinkOutcome(LinkDraw.link(kind, seed: seed))) }
      lines.append(tally.row(kind))
      tally.outcomes.forEach { all.add($0) }
    }
    let held = all.outcomes.count(where: \.holdsRate)
    let told = all.outcomes.count { $0.rateUncertainty.isFinite }
    let right = held - (all.outcomes.count - told)
    lines.append(
      "\nA range is told on \(told) of \(all.outcomes.count) links, and holds the ring's rate on \(right) of these."
    )
    return lines.joined(separator: "\n")
  }

  package func row(_ kind: LinkKind) -> String {
    let count = outcomes.count
    func share(_ part: Int, _ all: Int) -> String {
      all == 0 ? "–" : "\((1_000 * Double(part) / Double(all)).rounded() / 10) %"
    }
    func median(_ values: [Double]) -> Double { values.isEmpty ? .nan : values.sorted()[values.count / 2] }
    let told = outcomes.filter { $0.rateUncertainty.isFinite }
    let errors = outcomes.map { abs($0.rateError) }
    let dropped = outcomes.reduce(0) { $0 + $1.dropped }
    // After a reconnect, ticks are missing that the ring never made.
    let isCounted = kind != .reconnects
    func sum(_ part: (LinkOutcome) -> Int) -> Int { outcomes.reduce(0) { $0 + part($1) } }
    let invented = "\(sum(\.invented)) (\(outcomes.count { $0.invented > 0 }))"
    let parts = [
      kind.title, "\(count)", share(told.count, count), share(told.count(where: \.holdsRate), told.count),
      text(median(told.map(\.rateUncertainty))),
      "\(text(median(errors))), \(text(errors.max() ?? 0))",
      "\(sum(\.split)), \(sum(\.mixed))", isCounted ? invented : "–",
      share(sum(\.found), isCounted ? dropped : 0), share(sum(\.counted), isCounted ? dropped : 0),
      share(outcomes.count(where: \.holdsMissing), isCounted ? count : 0),
      isCounted ? "\(outcomes.count(where: \.isFalseNone))" : "–",
      share(outcomes.count(where: \.holdsOffset), count),
    ]
    return "| " + parts.joined(separator: " | ") + " |"
  }

  private func text(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }
}
