import BLEWire
package import JSONText

extension SessionReport {
  /// Data lost before it reached the tables. Each loss is counted in exactly one place.
  public struct Loss: Hashable, Sendable {
    /// A place of loss. The raw value is its key in JSON.
    public enum Place: String, CaseIterable, Sendable {
      /// The kernel's receive queue was full. All PDUs of the bearer count, not only samples.
      case kernelQueue
      /// The queue between receive thread and writer was full.
      case sampleQueue
      /// The queue of the packet log was full, writing to disk failed, or the file was removed. Counts
      /// packets missing from the log, not samples. For an imported log, counts the packets that its writer
      /// lost.
      case packetLog
      /// Writing rows to disk failed, or their file was removed. A ring's sample is one row; a strap's value
      /// is one row of `heart_rate`, and one row of `rr_intervals` for each interval.
      case disk
      /// Notifications that a log's writer truncated.
      case cut
      /// Samples missing according to the sensor's own clock: by frame times for a Polar sensor; by ticks for
      /// a ring, where each tick has a sample of each kind. Times without a link do not count.
      case missing
      /// Notifications that arrived too late to be put in order.
      case late
      /// Notifications that fit no table, because they belong to another simultaneous stream or their scale
      /// is unknown.
      case unplaced
      /// Notifications and ATT PDUs with an invalid format.
      case malformed
    }

    public var kernelQueue = 0
    public var sampleQueue = 0
    public var packetLog = 0
    public var disk = 0
    public var cut = 0
    public var missing = 0
    public var late = 0
    public var unplaced = 0
    public var malformed = 0

    package init() {}

    public subscript(place: Place) -> Int {
      get { self[keyPath: Self.path(place)] }
      set { self[keyPath: Self.path(place)] = newValue }
    }

    private static func path(_ place: Place) -> WritableKeyPath<Loss, Int> {
      switch place {
      case .kernelQueue: \.kernelQueue
      case .sampleQueue: \.sampleQueue
      case .packetLog: \.packetLog
      case .disk: \.disk
      case .cut: \.cut
      case .missing: \.missing
      case .late: \.late
      case .unplaced: \.unplaced
      case .malformed: \.malformed
      }
    }

    public var total: Int { Place.allCases.reduce(0) { $0 + self[$1] } }

    package static func += (left: inout Loss, right: Loss) {
      for place in Place.allCases { left[place] += right[place] }
    }

    package func encode(into line: inout JSONLine) {
      for place in Place.allCases { line.member(place.rawValue, self[place]) }
    }
  }
}

extension SessionReport.Loss.Place {
  /// Short name, at most two words.
  package var name: String {
    switch self {
    case .kernelQueue: "kernel queue"
    case .sampleQueue: "sample queue"
    case .packetLog: "packet log"
    default: rawValue
    }
  }

  /// Text for a number of losses.
  fileprivate func text(_ count: Int, _ ledger: Ledger) -> String {
    switch self {
    case .kernelQueue: return "\(count) in the kernel queue"
    case .sampleQueue: return "\(count) in the sample queue"
    case .packetLog:
      let packets = counted(count, "packet")
      return ledger.isImported ? "\(packets) by the log's writer" : "\(packets) of the packet log"
    case .disk: return "\(counted(count, "row")) by the disk"
    case .cut: return "\(count) cut by the log's writer"
    case .missing: return "\(counted(count, "sample")) missing by the sensor's clock"
    case .late: return "\(count) late"
    case .unplaced: return "\(count) that fit no table"
    case .malformed: return "\(count) malformed"
    }
  }
}

/// Received data, losses, and whether losses can be detected. It provides the text that every command shows.
package struct Ledger: Hashable, Sendable {
  /// Number of notifications received.
  package var received = 0
  package var loss = SessionReport.Loss()
  /// Number of notifications received twice and recorded once.
  package var repeated = 0
  /// Whether the sensor's samples have numbers or times. Without them, losses before this machine cannot be
  /// detected.
  package var isNumbered = false
  package var isImported = false
  /// Whether the number of samples missing according to the sensor's clock is known: older captures lack it.
  package var knowsMissing = true

  package init() {}

  package init(_ report: SessionReport) {
    (received, loss, repeated) = (report.received, report.lost, report.repeated)
    isNumbered = report.isNumbered
    isImported = report.origin != nil
  }

  /// - Parameter session: a `session.json`. Members missing in an older format count as 0.
  package init(_ session: JSONDocument) {
    func count(_ document: JSONDocument?) -> Int { max(0, document?.integer() ?? 0) }
    received = count(session["received"])
    for place in SessionReport.Loss.Place.allCases { loss[place] = count(session["lost"]?[place.rawValue]) }
    knowsMissing = session["lost"]?[SessionReport.Loss.Place.missing.rawValue] != nil
    loss.malformed = max(loss.malformed, count(session["malformed"]))
    repeated = count(session["repeated"])
    isNumbered = session["numbered"]?.flag ?? false
    isImported = session["importedFrom"] != nil
  }

  package static func += (left: inout Ledger, right: Ledger) {
    left.received += right.received
    left.loss += right.loss
    left.repeated += right.repeated
    left.isNumbered = left.isNumbered && right.isNumbered
    left.isImported = left.isImported || right.isImported
  }

  /// Encodes the members `received`, `repeated`, `numbered` and `lost` of `session.json`.
  package func encode(into line: inout JSONLine) {
    line.member("received", received)
    line.member("repeated", repeated)
    line.member("numbered", isNumbered)
    line.member("lost") { line in loss.encode(into: &line) }
  }

  /// A line about losses, and another if notifications were received twice.
  package var lines: [String] {
    repeated > 0 ? [line, "\(repeated) repeated: received twice, recorded once"] : [line]
  }

  /// A line about losses. The count is a minimum if the sensor's clock shows only some of the missing
  /// samples.
  ///
  /// `0 lost of 300`, `15 lost of 30: 15 cut by the log's writer`, or, if the sensor does not number its
  /// notifications, `0 dropped here of 30 …`.
  private var line: String {
    let total = loss.total
    guard total > 0 else {
      return isNumbered
        ? "0 lost of \(received)"
        : "0 dropped here of \(received) (whether the sensor sent more is not known)"
    }
    let parts = SessionReport.Loss.Place.allCases.filter { loss[$0] > 0 }.map { $0.text(loss[$0], self) }
    guard loss.missing > 0 else {
      return "\(total) lost of \(received + loss.kernelQueue): " + parts.joined(separator: ", ")
    }
    // Samples missing according to the sensor's clock are not part of the received notifications.
    return "\(total) lost\(isNumbered ? "" : " or more") (\(counted(received, "notification")) received): "
      + parts.joined(separator: ", ") + (isNumbered ? "" : "; how many more it sent is not known")
  }
}
