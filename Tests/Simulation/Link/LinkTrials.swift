/// Links on which the estimate of the ring's clock is evaluated, ten virtual minutes each. They cover rates,
/// intervals, latencies and losses.
package enum LinkTrials {
  package static let rates = [25.0, 50, 100]
  package static let intervals = [0.0075, 0.03, 0.05, 0.125]
  package static let losses = [0.0, 0.01, 0.05, 0.1, 0.2]
  /// Maximum delay of the last frame, in seconds. Above it a link cannot carry the ring's frames and does not
  /// count.
  package static let overload = 8.0

  package static var all: [LossyLink] {
    var all: [LossyLink] = []
    for rate in rates {
      for interval in intervals {
        for loss in losses {
          for kind in [LossyLink.Loss.events, .packets] where loss > 0 || kind == .events {
            for latency in [0, 4] {
              for hasStalls in [false, true] {
                var link = LossyLink(rate: rate, interval: interval)
                (link.latency, link.loss, link.kind, link.hasStalls) = (latency, loss, kind, hasStalls)
                all.append(link)
              }
            }
          }
        }
      }
    }
    return all
  }

  /// One link of each rate and interval, which cycle through the other parameters, for a test that takes
  /// seconds.
  package static var some: [LossyLink] {
    var number = 0
    return rates.flatMap { rate in
      intervals.map { interval in
        var link = LossyLink(rate: rate, interval: interval)
        number += 1
        link.latency = number.isMultiple(of: 2) ? 4 : 0
        link.loss = [0.2, 0.05, 0.1, 0.01, 0.0][number % 5]
        link.kind = number.isMultiple(of: 3) && link.loss < 0.1 ? .packets : .events
        link.hasStalls = number % 4 < 2
        return link
      }
    }
  }

  /// Returns a table with a row for each rate and interval, with the worst of its links.
  package static func table() -> String {
    var lines = [
      "| ticks a second | interval | links | invented | split | rate off, ppm | off but for a constant, ms RMS | constant, ms |",
      "|---|---|---|---|---|---|---|---|",
    ]
    for rate in rates {
      for interval in intervals {
        let links = all.filter { $0.rate == rate && $0.interval == interval }
        let outcomes = links.map { LinkOutcome($0) }.filter { $0.overload <= overload }
        let invented = outcomes.map(\.told).max() ?? 0
        let split = outcomes.map { $0.partial + $0.mixed }.max() ?? 0
        let ppm = outcomes.map { abs($0.rateError) }.max() ?? 0
        let deviation = outcomes.map { $0.deviation * 1_000 }.max() ?? 0
        let constant = outcomes.map { $0.offset * 1_000 }.max() ?? 0
        lines.append(
          "| \(Int(rate)) | \(text(interval * 1_000)) ms | \(outcomes.count) of \(links.count) | \(invented) | \(split) "
            + "| \(text(ppm)) | \(text(deviation)) | \(text(constant)) |")
      }
    }
    return lines.joined(separator: "\n")
  }

  /// Returns a table of the ticks that the ring drops, by their number per thousand: a row for each rate and
  /// interval, over 0, 5 and 10 % of lost events and both latencies. A cell counts the links that report 99 %
  /// of the drops within a second of their place, and report no others.
  package static func drops(_ perMille: [Int] = [1, 5, 10, 20]) -> String {
    var lines = [
      "| ticks a second | interval |" + perMille.map { " \($0) ‰ |" }.joined(),
      "|---|---|" + perMille.map { _ in "---|" }.joined(),
    ]
    for rate in rates {
      for interval in intervals {
        let cells = perMille.map { perMille in
          let outcomes = [0, 0.05, 0.1].flatMap { loss in
            [0, 4].map { latency in
              var link = LossyLink(rate: rate, interval: interval)
              (link.latency, link.loss, link.kind, link.droppedPerMille) = (latency, loss, .events, perMille)
              return LinkOutcome(link)
            }
          }
          let good = outcomes.filter {
            $0.told <= $0.dropped && Double($0.found) >= 0.99 * Double($0.dropped)
          }
          return " \(good.count) of \(outcomes.count) |"
        }
        lines.append("| \(Int(rate)) | \(text(interval * 1_000)) ms |" + cells.joined())
      }
    }
    return lines.joined(separator: "\n")
  }

  /// Rounded to two decimals.
  private static func text(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }
}
