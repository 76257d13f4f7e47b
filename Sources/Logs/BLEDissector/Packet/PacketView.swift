package import BLEPacketLog
package import BLEWire

/// Prints the packets that pass a filter, with their neighbours, into a buffer that its owner writes out and empties.
///
/// A text form separates groups that do not follow one another by a line `--`, as `grep` does.
package struct PacketView {
  private var filter: PacketFilter
  private var printer: PacketPrinter
  /// Packets around a match that are shown too.
  private let context: Int
  /// The last packets before a match, printed; at most `context`.
  private var before: [[UInt8]] = []
  /// Packets that are still shown after a match.
  private var following = 0
  private var hasStarted = false
  /// Whether the packet before the next one was shown.
  private var isAdjacent = true
  private var output: [UInt8] = []
  /// Packets that passed the filter.
  package private(set) var matches = 0
  /// Whether nothing passed, notes included.
  package private(set) var isEmpty = true

  /// - Parameter columns: of the terminal whose lines should hold the header lines.
  package init(_ filter: PacketFilter, style: PacketPrinter.Style, context: Int, columns: Int? = nil) {
    self.filter = filter
    self.context = context
    printer = PacketPrinter(style: style, columns: columns)
  }

  /// What was printed since the last `removeAll`.
  package var octets: [UInt8] { context == 0 ? printer.octets : output }

  package mutating func removeAll() {
    if context == 0 { printer.removeAll() }
    output.removeAll(keepingCapacity: true)
  }

  /// Times count from the first record of the log. Call it for every record, before the packet or note.
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

  /// Moves what was just printed to the output, to the neighbours of a match to come, or away.
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
