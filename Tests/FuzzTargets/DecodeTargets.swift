import BLEDissector
import BLEPacketLog
import BLEWire
import JSONText

/// Packets of a log, printed as by `log show`: in words, with context, and in JSON.
func fuzzDecoder(_ input: Span<UInt8>) {
  var decoder = PacketDecoder()
  var (text, json) = (PacketPrinter(style: .text), PacketPrinter(style: .json))
  var filter = PacketFilter()
  filter.layers = [.att, .smp]
  var view = PacketView(filter, PacketPrinter(style: .text), context: 1)
  var packets = 0
  forEachRecord(input) { record in
    view.note(record.time)
    if record.type == nil {
      text.print(note: record)
      view.take(note: record)
    }
    decoder.decode(record) { packet in
      packets += 1
      text.print(packet)
      json.print(packet)
      view.take(packet)
    }
  }
  checkText(text.octets)
  checkText(view.octets)
  precondition(checkJSON(json.octets) == packets, "a packet is not one line")
}

/// `log stats` of a log, in its three output forms.
func fuzzStatistics(_ input: Span<UInt8>) {
  var statistics = LogStatistics()
  var records = 0
  forEachRecord(input) {
    statistics.take($0)
    records += 1
  }
  let report = statistics.finish()
  precondition(report.records == records)
  var line = JSONLine()
  line.value(report)
  line.endLine()
  precondition(checkJSON(line.octets) == 1)
  checkText(Array(StatisticsText(report).utf8))
  checkText(StatisticsPicture(report).octets)
}

/// The three passes of `log convert --anonymise`. Lengths, times and packet types must be preserved.
func fuzzAnonymiser(_ input: Span<UInt8>) {
  var anonymiser = LogAnonymiser()
  for _ in 0..<2 {
    anonymiser.startOver()
    forEachRecord(input) { anonymiser.learn(StoredPacketRecord(copying: $0)) }
  }
  anonymiser.startOver()
  forEachRecord(input) { record in
    guard let rewritten = anonymiser.rewrite(StoredPacketRecord(copying: record)) else {
      precondition(record.type == nil, "a packet is gone")
      return
    }
    precondition(rewritten.header == record.header && rewritten.packet.count == record.packet.count)
  }
}
