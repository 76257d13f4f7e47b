package import BLEDissector

/// The part of a report to draw: some of the streams, over a stretch of time.
package struct ReportView: Sendable {
  /// A time as the user wrote it.
  package struct Moment: Sendable {
    package var text: String
    package var instant: PacketFilter.Instant

    /// - Returns: `nil` if the text is not a valid time.
    package init?(_ text: String) {
      guard let instant = PacketFilter.Instant(text) else { return nil }
      (self.text, self.instant) = (text, instant)
    }

    /// Time in nanoseconds since the Unix epoch.
    fileprivate func time(since start: Int64) -> Int64 {
      switch instant {
      case .absolute(let time): time
      case .fromStart(let offset): start.addingReportingOverflow(offset).partialValue
      }
    }
  }

  package var from: Moment?
  package var to: Moment?
  /// Names of tables, case-insensitive; empty for all.
  package var streams: [String]

  package init(from: Moment? = nil, to: Moment? = nil, streams: [String] = []) {
    (self.from, self.to, self.streams) = (from, to, streams)
  }
}

extension ReportDocument {
  /// Keeps the plots of some streams, and sets the stretch to draw. A picture shows only that stretch; a page
  /// opens with it.
  ///
  /// - Throws: `ReportError`: `noStream`, `noStretch`, `outside`.
  package mutating func show(_ view: ReportView) throws(ReportError) {
    try keep(view.streams.map { $0.lowercased() })
    guard view.from != nil || view.to != nil, !sections.isEmpty else { return }
    var nearest: ReportError?
    var isShown = false
    for index in sections.indices {
      do throws(ReportError) {
        sections[index].view = try sections[index].stretch(view)
        isShown = true
      } catch {
        if case .noStretch = error { throw error }
        // Another device may have been recorded at that time.
        nearest = nearest ?? error
        sections[index].charts = []
      }
    }
    if !isShown, let nearest { throw nearest }
    let shown = sections.first { $0.view != nil }
    if let shown, let stretch = shown.view {
      let start = shown.timeAxis.lowerBound
      let (from, to) = (stretch.lowerBound &- start, stretch.upperBound &- start)
      subtitle += " · \(ReportText.elapsed(from)) … \(ReportText.elapsed(to)) of it"
    }
  }

  private mutating func keep(_ names: [String]) throws(ReportError) {
    guard !names.isEmpty else { return }
    let known = sections.flatMap { section in section.charts.map { section.tables[$0.table].table.name } }
    for name in names where !known.contains(name) {
      throw .noStream(
        name, known.enumerated().filter { known.firstIndex(of: $1) == $0 }.map(\.element))
    }
    for index in sections.indices { sections[index].keep(names) }
  }
}

extension ReportSection {
  /// Keeps only the plots of these tables; the time axis does not change.
  fileprivate mutating func keep(_ names: [String]) {
    (begins, ends) = (start, end)
    charts = charts.filter { names.contains(tables[$0.table].table.name) }
  }

  fileprivate func stretch(_ view: ReportView) throws(ReportError) -> ClosedRange<Int64> {
    let axis = timeAxis
    let from = view.from?.time(since: axis.lowerBound) ?? axis.lowerBound
    let to = view.to?.time(since: axis.lowerBound) ?? axis.upperBound
    if let first = view.from, let last = view.to, from >= to {
      throw .noStretch(from: first.text, to: last.text)
    }
    if let first = view.from, !(axis.lowerBound..<axis.upperBound).contains(from) || from >= end {
      throw .outside("--from \(first.text)", start...max(start, end))
    }
    if let last = view.to, to <= start { throw .outside("--to \(last.text)", start...max(start, end)) }
    return from...max(from, min(to, axis.upperBound))
  }
}
