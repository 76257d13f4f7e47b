import BLEWire
package import JSONText

extension SessionReport {
  /// Numbers of data lost before it reached the tables. Each loss is counted in exactly one place.
  public struct Loss: Hashable, Sendable {
    /// Place of a loss. The raw value is its key in JSON.
    public enum Place: String, CaseIterable, Sendable {
      /// The kernel's receive queue was full. All PDUs of the bearer are counted, not only samples.
      case kernelQueue
      /// The queue between the receive thread and the writer was full.
      case sampleQueue
      /// Packets are missing in the packet log: its queue was full, writing to disk failed, or the file was
      /// removed. Packets are counted, not samples. For an imported log, this is the number of packets that
      /// its writer lost.
      case packetLog
      /// Writing rows to disk failed, or their file was removed. A ring's sample is one row. A strap's
      /// measurement is one row of `heart_rate`, plus one row of `rr_intervals` per interval.
      case disk
      /// Notifications that the log's writer truncated.
      case cut
      /// Samples missing according to the sensor's own clock. For a Polar sensor, they are found from frame
      /// times; for a ring, from ticks, each of which has a sample of each kind. Periods without a link are
      /// not counted.
      case missing
      /// Notifications that arrived too late to be sorted.
      case late
      /// Notifications that belong to no table: from another stream at the same time, or with an unknown
      /// scale.
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

  /// Returns the text for a number of losses.
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

/// Numbers of received and lost data, and whether losses can be detected. All commands show its text.
package struct Ledger: Hashable, Sendable {
  /// Number of notifications received.
  package var received = 0
  package var loss = SessionReport.Loss()
  /// Number of notifications received twice and recorded once.
  package var repeated = 0
  /// Whether the sensor's samples have numbers or times. If not, losses before this machine cannot be
  /// detected.
  package var isNumbered = false
  package var isImported = false
  /// Whether the number of samples missing according to the sensor's clock is known. Older captures do not
  /// contain it.
  package var knowsMissing = true

  package init() {}

  package init(_ report: SessionReport) {
    (received, loss, repeated) = (report.received, report.lost, report.repeated)
    isNumbered = report.isNumbered
    isImported = report.origin != nil
  }

  /// Reads the counts of a capture.
  ///
  /// - Parameter session: contents of `session.json`. Members that an older format lacks count as 0.
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

  /// Writes the members `received`, `repeated`, `numbered` and `lost` of `session.json`.
  package func encode(into line: inout JSONLine) {
    line.member("received", received)
    line.member("repeated", repeated)
    line.member("numbered", isNumbered)
    line.member("lost") { line in loss.encode(into: &line) }
  }

  /// A line about losses, and a second line if notifications were received twice.
  package var lines: [String] {
    repeated > 0 ? [line, "\(repeated) repeated: received twice, recorded once"] : [line]
  }

  /// A line about losses. The number is a minimum if the sensor's clock shows only some of the missing
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
    // Samples missing according to the sensor's clock are not among the received notifications.
    return "\(total) lost\(isNumbered ? "" : " or more") (\(counted(received, "notification")) received): "
      + parts.joined(separator: ", ") + (isNumbered ? "" : "; how many more it sent is not known")
  }
}
