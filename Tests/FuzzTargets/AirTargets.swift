import BLEDissector
import BLEPacketLog
import BLEWire

/// Translates an air log that is read in pieces of `chunk` bytes. Does not search for a passkey, because that
/// would take a million attempts.
private func translation(
  _ log: Span<UInt8>, chunk: Int
) -> (records: [StoredPacketRecord], report: AirReport?, frames: Int) {
  let reader = LogReader(
    keys: ["4C68384139F574D836BCF34E9DFB01BF"].compactMap { AirKey($0) }, passkeySearches: 0)
  var records: [StoredPacketRecord] = []
  do throws(WireError) {
    var start = 0
    while start < log.count {
      let end = start + min(chunk, log.count - start)
      try reader.take(log.extracting(start..<end)) { records.append(StoredPacketRecord(copying: $0)) }
      start = end
    }
    try reader.finish()
  } catch {}
  _ = reader.remark
  return (records, reader.airReport(), reader.recordCount)
}

/// An air log, or any bytes. The size of the pieces must make no difference, each frame must give a record,
/// and readers of HCI logs must process the records without trapping.
func fuzzAirLog(_ input: Span<UInt8>) {
  let whole = translation(input, chunk: .max)
  let pieces = translation(input, chunk: 1 + input.count % 29)
  precondition(whole.records == pieces.records && whole.report == pieces.report, "pieces change the log")
  precondition(whole.records.count >= whole.frames, "a frame is no record")
  var decoder = PacketDecoder()
  var statistics = LogStatistics()
  var views = [PacketPrinter.Style.json, .text].map {
    PacketView(PacketFilter(), PacketPrinter(style: $0), context: 0)
  }
  for stored in whole.records {
    stored.withRecord { record in
      statistics.take(record)
      if record.type == nil, record.note != nil || record.header.air != nil {
        for index in views.indices { views[index].take(note: record) }
      }
      decoder.decode(record) { packet in
        for index in views.indices { views[index].take(packet) }
      }
    }
  }
  for view in views { checkText(view.octets) }
  checkText(Array(StatisticsText(statistics.finish(with: whole.report)).utf8))
  guard let report = whole.report else { return }
  precondition(report.packets + report.unreadable <= whole.frames)
  precondition(report.links.count <= 512 && report.kinds.values.reduce(0, +) == report.packets)
}
