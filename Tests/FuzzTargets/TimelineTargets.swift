import BLEPacketLog
import BLEWire

/// Records of a log whose clock jumps. The timeline must return each record once, data in order, and count
/// the steps that it lists.
func fuzzTimeline(_ input: Span<UInt8>) {
  var timeline = LogTimeline()
  var (taken, packets) = ([Int](), [[UInt8]]())
  var given: [StoredPacketRecord] = []
  forEachRecord(input) { record in
    taken.append(record.index)
    packets.append(array(record.packet))
    timeline.take(record) { given.append(StoredPacketRecord(copying: $0)) }
  }
  timeline.finish { given.append(StoredPacketRecord(copying: $0)) }
  precondition(given.map(\.header.index).sorted() == taken, "a record is missing, or comes twice")
  for record in given {
    precondition(record.packet == packets[record.header.index - 1], "a packet is another one")
  }
  // Only the events that begin links may come earlier than in the log.
  let others = given.filter { $0.header.type != .event }.map(\.header.index)
  precondition(others == others.sorted(), "data are out of order")
  precondition(timeline.clockSteps.count == min(timeline.clockStepCount, 64))
  precondition(
    given.allSatisfy {
      (0...timeline.clockStepCount + timeline.disorderedRecords).contains($0.header.clockSteps)
    })
  for step in timeline.clockSteps { precondition(taken.contains(step.index), "a step at no record") }
}

/// First bytes of a file that may not be a log. Its description must be one line, and a log must not be
/// described as another format.
func fuzzForeignFile(_ input: Span<UInt8>) {
  let file = ForeignFile(input)
  if let advice = file?.advice {
    checkText(Array(advice.utf8))
    precondition(!advice.isEmpty && !advice.contains("\n"))
  }
  var reader = PacketLogReader()
  do throws(WireError) {
    try reader.read(input) { _ in }
    try reader.finish()
  } catch {
    precondition(reader.format == nil || reader.foreignFile == nil, "a log is another file")
    // A file without a format is not btsnoop, pcap or pcapng.
    if reader.format == nil, input.count >= 4 {
      precondition(reader.foreignFile == file, "it depends on the reader")
    }
  }
}

/// Extended advertising, and scan requests for it, as in a sniffer's log. In a packet's first byte, bits 0 to
/// 5 are the channel, and bits 6 and 7 the time step in microseconds. The packet's bytes are the payload; a
/// payload of twelve bytes on a channel above 39 is a scan request.
func fuzzAdvertisingChains(_ input: Span<UInt8>) {
  let log = advertisingLog(input)
  let whole = advertisements(log.octets, chunk: .max)
  let pieces = advertisements(log.octets, chunk: 1 + input.count % 29)
  precondition(whole.records == pieces.records && whole.report == pieces.report, "pieces change the log")
  guard let report = whole.report else { return precondition(log.packets == 0) }
  precondition(report.packets + report.unreadable == log.packets, "a packet is not counted")
  precondition(report.joinedAdvertisements + report.incompleteAdvertisements <= 2 * log.packets)
  for stored in whole.records where stored.header.type == .event {
    precondition(
      stored.packet.count >= 2 && stored.packet.count == 2 + Int(stored.packet[1]),
      "an event of another length")
  }
}

private func advertisements(
  _ octets: [UInt8], chunk: Int
) -> (records: [StoredPacketRecord], report: AirReport?) {
  let reader = LogReader(keys: [], passkeySearches: 0)
  var records: [StoredPacketRecord] = []
  do throws(WireError) {
    var start = 0
    while start < octets.count {
      let end = start + min(chunk, octets.count - start)
      try reader.take(octets.span.extracting(start..<end)) { records.append(StoredPacketRecord(copying: $0)) }
      start = end
    }
    try reader.finish { records.append(StoredPacketRecord(copying: $0)) }
  } catch { fatalError("a log of the air is not read: \(error)") }
  return (records, reader.airReport())
}

/// A pcap of link type 256, little-endian. Its flags state that each packet has a valid checksum.
private func advertisingLog(_ input: Span<UInt8>) -> (octets: [UInt8], packets: Int) {
  func little(_ number: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) } }
  var file = little(0xA1B2_C3D4) + [2, 0, 4, 0] + little(0) + little(0) + little(65_535) + little(256)
  var (microseconds, packets) = (0 as UInt32, 0)
  let steps: [UInt32] = [300, 3_000, 60_000, 0]
  forEachPacket(input) { kind, octets in
    microseconds &+= steps[Int(kind >> 6)]
    let channel = kind & 0x3F
    let isRequest = channel >= 40
    let payload = array(octets).prefix(254)
    let pdu: [UInt8] = [isRequest ? 0xC3 : 0x47, UInt8(payload.count)] + payload
    // Channel by frequency, no signal strength, access address known. Flags: dewhitened, reference address,
    // checksum checked and valid, LE 2M.
    let place = isRequest ? channel - 40 : channel
    let frequency: UInt8 =
      place == 37 ? 0 : place == 38 ? 12 : place >= 39 ? 39 : place < 11 ? place + 1 : place + 2
    let flags: UInt16 = 0x0001 | 0x0010 | 0x0400 | 0x0800 | (place < 37 ? 0x4000 : 0)
    let head = [frequency, 0, 0, 0] + little(0x8E89_BED6) + [UInt8(flags & 0xFF), UInt8(flags >> 8)]
    let frame = head + little(0x8E89_BED6) + pdu + [0, 0, 0]
    file += little(microseconds / 1_000_000) + little(microseconds % 1_000_000)
    file += little(UInt32(frame.count)) + little(UInt32(frame.count)) + frame
    packets += 1
  }
  return (file, packets)
}
