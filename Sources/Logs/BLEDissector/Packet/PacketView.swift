package import BLEPacketLog
package import BLEWire

/// Prints the packets that pass a filter, and the packets around them, into a buffer. The caller writes the
/// buffer to the output and empties it.
///
/// In text, a line `--` separates groups that are not consecutive, as in `grep`.
package struct PacketView {
  private var filter: PacketFilter
  private var printer: PacketPrinter
  /// Number of packets to show before and after a match.
  private let context: Int
  /// The last packets before a match, in printed form. At most `context` packets.
  private var before: [[UInt8]] = []
  /// Number of further packets to show after a match.
  private var following = 0
  private var hasStarted = false
  /// Whether the previous packet was shown.
  private var isAdjacent = true
  private var output: [UInt8] = []
  /// Number of packets that passed the filter.
  package private(set) var matches = 0
  /// Whether neither a packet nor a note has passed the filter.
  package private(set) var isEmpty = true

  package init(_ filter: PacketFilter, _ printer: PacketPrinter, context: Int) {
    self.filter = filter
    self.context = context
    self.printer = printer
  }

  /// Output since the last `removeAll`.
  package var octets: [UInt8] { context == 0 ? printer.octets : output }

  package mutating func removeAll() {
    if context == 0 { printer.removeAll() }
    output.removeAll(keepingCapacity: true)
  }

  /// Sets time zero to the time of the log's first record. Call this for every record, before `take` for the
  /// record's packet or note.
  package mutating func note(_ time: ReceiveTime) {
    guard !hasStarted else { return }
    hasStarted = true
    filter.start(at: time)
    printer.start(at: time)
  }

  package mutating func take(_ packet: borrowing DecodedPacket) {
    let isMatch = filter.passes(packet)
    if isMatch {
      matches += 1
      isEmpty = false
    }
    guard isMatch || context > 0 else { return }
    printer.print(packet)
    if context > 0 { place(isMatch) }
  }

  package mutating func take(note record: borrowing PacketRecord) {
    let isMatch = filter.passesNote(record)
    if isMatch { isEmpty = false }
    guard isMatch || context > 0 else { return }
    printer.print(note: record)
    if context > 0 { place(isMatch) }
  }

  /// Moves the printed packet to the output, keeps it for the context of a later match, or drops it.
  private mutating func place(_ isMatch: Bool) {
    let printed = printer.octets
    printer.removeAll()
    if isMatch {
      if !isAdjacent, matches > 1 {
        printer.printGap()
        output += printer.octets
        printer.removeAll()
      }
      for neighbour in before { output += neighbour }
      before.removeAll(keepingCapacity: true)
      output += printed
      following = context
      isAdjacent = true
    } else if following > 0 {
      following -= 1
      output += printed
    } else {
      if before.count == context {
        before.removeFirst()
        isAdjacent = false
      }
      before.append(printed)
    }
  }
}
