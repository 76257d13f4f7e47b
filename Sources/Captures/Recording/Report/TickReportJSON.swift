import BLEWire
import ColmiRing
package import JSONText

extension TickReport {
  /// Encodes the members of `clock`.
  package func encodeClock(into line: inout JSONLine) {
    line.member("residualRmsNs", clock.residual)
    line.member("meanLatenessNs", clock.meanLateness)
    line.member("earliestNs", clock.earliest)
    line.member("latestNs", clock.latest)
    if let share = clock.rateUncertainty { line.member("rateUncertaintyPpm", share * 1e6) }
    if let nanoseconds = clock.offsetUncertainty { line.member("offsetUncertaintyNs", nanoseconds) }
    line.member("missingTicks", clock.missing)
    if let ticks = clock.missingAtMost { line.member("missingTicksAtMost", ticks) }
    line.member("linkTooSlow", clock.isLinkTooSlow)
    line.member("gaps", clock.gaps)
    line.member("longestGapTicks", clock.longestGap)
    line.member("restarts", clock.restarts)
    line.key("firstGaps")
    line.array { line in
      for gap in gaps {
        line.object { line in
          line.member("afterNs", gap.after)
          line.member("beforeNs", gap.before)
          line.member("ticks", gap.ticks)
        }
      }
    }
  }
}

extension TickReport.Part {
  /// Encodes the members other than those of its stream.
  package func encode(into line: inout JSONLine) {
    guard samples > 0 else { return }
    if let rate { line.member("rateHz", rate) }
    line.member("residualRmsNs", residual)
    line.member("residualP99Ns", residualP99)
    // The count is omitted if further samples may be missing, because their number is unknown.
    if !mayLackMore { line.member("missing", missing) }
  }
}
